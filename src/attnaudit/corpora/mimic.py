"""Diagnoses from the discharge summaries of MIMIC-III: a corpus with a layout of its own.

It is a plug-in as another package would write one: its files are read by one function, and one call
registers each of its two tasks.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from attnaudit.core.papers import Paper
from attnaudit.corpora.formats.layouts import MissingFiles, Sources
from attnaudit.corpora.formats.lines import bad_file, first_names
from attnaudit.corpora.formats.rows import SPLITS, Record, Row, SplitSource
from attnaudit.corpora.formats.tables import first_that_fits, listed, records
from attnaudit.corpora.registry import Bounds, CorpusEntry, register_corpus

_NOTES, _DIAGNOSES = "NOTEEVENTS.csv", "DIAGNOSES_ICD.csv"
_SHARES = {"test": 0.2, "dev": 0.32, "train": 1.0}  # of patients, added up: dev is 15 % of the rest
_BY_PATIENT = "split 68/12/20 by a hash of SUBJECT_ID"
Class = tuple[str, str]  # the label of an admission, or the reason why it is excluded
Classes = Callable[[], Mapping[str, Class]]  # by admission; reads the table when first called


@dataclass(frozen=True)
class Admissions:
    """The layout of a task, with splits by patient.

    Attributes:
        classify: Function from the ICD-9 codes of an admission, without points, to its class.
    """

    classify: Callable[[frozenset[str]], Class]

    def __call__(self, folder: Path) -> Sources:
        """Return the sources of a folder. Raises MissingFiles for one table without the other."""
        notes, diagnoses = (first_that_fits(folder, [name]) for name in (_NOTES, _DIAGNOSES))
        if not notes and not diagnoses:
            return {}
        if not notes or not diagnoses:
            got = f"no {_DIAGNOSES if notes else _NOTES} among {listed(folder)}"
            raise MissingFiles("read corpus", str(folder), got, "both tables of MIMIC-III")
        # Read once for all splits, and only when rows are asked for.
        read = partial(_rows, notes, cache(partial(self._classes, diagnoses)))
        return {split: SplitSource(notes, partial(read, split), _BY_PATIENT) for split in SPLITS}

    def _classes(self, path: Path) -> dict[str, Class]:
        codes: dict[str, set[str]] = defaultdict(set)
        for record in _table(path, "HADM_ID", "ICD9_CODE"):
            if record.problem:
                where = Row(record.row, record.line).where(path)
                raise bad_file(where, record.problem, "a whole table of diagnoses")
            admission, code = record.cells["HADM_ID"], record.cells["ICD9_CODE"]
            codes[_number(admission)].add(code.strip().replace(".", ""))
        return {admission: self.classify(frozenset(own)) for admission, own in codes.items()}


def split_of_patient(subject: str) -> str:
    """Return the split of a patient, the same on every machine."""
    digest = hashlib.sha256(subject.encode(errors="surrogateescape")).digest()
    share = int.from_bytes(digest[:8], "little") / 2**64
    return next(split for split, end in _SHARES.items() if share < end)


def _rows(path: Path, classes: Classes, split: str) -> Iterator[Row]:
    """Read the first discharge summary of each admission of the split's patients."""
    seen = set[str]()
    for record in _table(path, "SUBJECT_ID", "HADM_ID", "CATEGORY", "DESCRIPTION", "TEXT"):
        if record.problem:
            if split == "train":  # a bad row is of no split, and reported once
                yield Row(record.row, record.line, problem=record.problem)
            continue
        subject, admission, category, description, text = record.cells.values()
        admission = _number(admission)
        is_summary = admission and category.strip().lower() == "discharge summary"
        if not is_summary or split_of_patient(_number(subject)) != split:
            continue
        label, reason = classes().get(admission, ("", "admissions without a diagnosis"))
        if admission in seen or description.strip().lower() == "addendum":
            reason = "further summaries of an admission"
        else:
            seen.add(admission)
        yield Row(record.row, record.line, text, label, left_out=reason)


def _table(path: Path, *names: str) -> Iterator[Record]:
    """Read these columns of a table, in capitals or not. Raises InputError."""
    for record in records(path):
        cells = {name.upper(): cell for name, cell in record.cells.items()}
        for name in names if not record.problem else ():
            if name not in cells:
                got = f"columns {first_names(record.cells)}"
                raise bad_file(path, got, f"one column {name} in its header")
        yield record._replace(cells={name: cells.get(name, "") for name in names})


def _number(cell: str) -> str:
    return cell.strip().removesuffix(".0")


def clean(text: str) -> str:
    """Remove the brackets that mask personal data, and join white space."""
    return " ".join(re.sub(r"\[\*\*.*?\*\*\]", " ", text, flags=re.DOTALL).split())


def diabetes(codes: frozenset[str]) -> Class:
    """Return class 1 for ICD-9 250.00."""
    return str(int("25000" in codes)), ""


def anemia(codes: frozenset[str]) -> Class:
    """Return class 0 for acute anemia (ICD-9 285.1), 1 for a chronic one (285.2)."""
    acute, chronic = "2851" in codes, any(code.startswith("2852") for code in codes)
    if acute == chronic:
        return "", "with acute and chronic anemia" if acute else "without anemia"
    return str(int(chronic)), ""


_DIFFERS = (
    "the first discharge summary of an admission is read, addenda are excluded",
    "admissions are split by a hash of their patient: 68/12/20",
)
DIABETES = register_corpus(
    CorpusEntry(
        name="diabetes",
        title="MIMIC-III, diabetes",
        licence="PhysioNet Credentialed Health Data License 1.5.0: own access, not to be passed on",
        class_names=("no diabetes", "diabetes"),
        paper=Paper(
            "johnson2016",
            "Johnson, Alistair E. W. and Pollard, Tom J. and Shen, Lu and Lehman, Li-wei H. and "
            "Feng, Mengling and Ghassemi, Mohammad and Moody, Benjamin and Szolovits, Peter and "
            "Celi, Leo Anthony and Mark, Roger G.",
            "{MIMIC-III}, a Freely Accessible Critical Care Database",
            "Scientific Data",
            2016,
            kind="article",
            volume="3",
        ),
        layouts=(Admissions(diabetes),),
        within=("1.4",),
        needs="NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III, perhaps with .gz",
        homepage="https://physionet.org/content/mimiciii/1.4/",
        folders=("diabetes", "mimic", "mimiciii", "mimic-iii-clinical-database-1.4"),
        min_df=5,
        clean=clean,
        bounds={"paper": Bounds(more_than=6, less_than=4000)},
        how_to_get="get access at https://physionet.org/content/mimiciii/, then put NOTEEVENTS.csv "
        "and DIAGNOSES_ICD.csv (or .csv.gz) into the folder mimic",
        differs=("the authors' lists of admissions are not published", *_DIFFERS),
    )
)
ANEMIA = register_corpus(
    replace(
        DIABETES,
        name="anemia",
        title="MIMIC-III, anemia",
        class_names=("acute", "chronic"),
        layouts=(Admissions(anemia),),
        folders=("anemia", *DIABETES.folders[1:]),
        bounds={"paper": Bounds(less_than=4000)},
        differs=(
            "the authors drew 20 % for test and 15 % of the rest for dev by admission",
            *_DIFFERS,
        ),
    )
)
