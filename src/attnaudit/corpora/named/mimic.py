"""Discharge summaries of MIMIC-III: is the patient diabetic, and is an anemia acute or chronic? From the user's own copy."""

from __future__ import annotations

import re

from attnaudit.corpora.formats.layouts import any_layout
from attnaudit.corpora.named.admissions import Diagnosed, admission_sources
from attnaudit.corpora.named.registered import Bounds, Registered

_HIDDEN = re.compile(r"\[\*\*.*?\*\*\]", re.DOTALL)
_BIBTEX = """@article{johnson2016mimic,
  title = {{MIMIC-III}, a Freely Accessible Critical Care Database},
  author = {Johnson, Alistair E. W. and Pollard, Tom J. and Shen, Lu and Lehman, Li-wei H. and Feng, Mengling and Ghassemi, Mohammad and Moody, Benjamin and Szolovits, Peter and Celi, Leo Anthony and Mark, Roger G.},
  journal = {Scientific Data},
  volume = {3},
  year = {2016}
}"""  # noqa: E501  (an author list is one line)
_HOW = "get access at https://physionet.org/content/mimiciii/, then put NOTEEVENTS.csv and DIAGNOSES_ICD.csv (or .csv.gz) into the folder"
_WANTED = "NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III, perhaps with .gz"
_DIFFERS = (
    "the first discharge summary of an admission is read, addenda are left out",
    "without the lists train_hadm.csv, dev_hadm.csv and test_hadm.csv admissions are split by a hash of their patient: 68/12/20",
)


def clean(text: str) -> str:
    """Without the brackets that stand for what was hidden of a person, and with single spaces."""
    return " ".join(_HIDDEN.sub(" ", text).split())


def diabetes(codes: frozenset[str]) -> Diagnosed:
    """Class 1 for ICD-9 250.00."""
    return Diagnosed(str(int("25000" in codes)))


def anemia(codes: frozenset[str]) -> Diagnosed:
    """Class 0 for acute anemia (ICD-9 285.1), 1 for a chronic one (285.2)."""
    acute, chronic = "2851" in codes, any(code.startswith("2852") for code in codes)
    if acute and chronic:
        return Diagnosed(left_out="with acute and chronic anemia")
    return Diagnosed(str(int(chronic))) if acute or chronic else Diagnosed(left_out="without anemia")


DIABETES = Registered(
    name="diabetes",
    title="MIMIC-III, diabetes",
    citation="Johnson et al. 2016",
    bibtex=_BIBTEX,
    licence="PhysioNet Credentialed Health Data License 1.5.0: own access, not to be passed on",
    class_names=("no diabetes", "diabetes"),
    sources=any_layout(admission_sources(diabetes), expected=_WANTED, within=("1.4",)),
    homepage="https://physionet.org/content/mimiciii/1.4/",
    folders=("diabetes", "mimic", "mimiciii", "mimic-iii-clinical-database-1.4"),
    min_df=5,
    clean=clean,
    bounds={"paper": Bounds(more_than=6, less_than=4000)},
    how_to_get=f"{_HOW} diabetes (or mimic)",
    differs=("the authors' lists of admissions are not published", *_DIFFERS),
)

ANEMIA = Registered(
    name="anemia",
    title="MIMIC-III, anemia",
    citation="Johnson et al. 2016",
    bibtex=_BIBTEX,
    licence=DIABETES.licence,
    class_names=("acute", "chronic"),
    sources=any_layout(admission_sources(anemia), expected=_WANTED, within=("1.4",)),
    homepage=DIABETES.homepage,
    folders=("anemia", *DIABETES.folders[1:]),
    min_df=5,
    clean=clean,
    bounds={"paper": Bounds(less_than=4000)},
    how_to_get=f"{_HOW} anemia (or mimic)",
    differs=("the authors drew 20 % for test and 15 % of the rest for dev by admission", *_DIFFERS),
)
