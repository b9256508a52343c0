"""Diagnoses from the discharge summaries of MIMIC-III: a corpus with a layout of its own.

It is a plug-in as another package would write one: its files are read by one function, and one call
registers each of its two tasks.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from attnaudit.core.papers import Paper
from attnaudit.corpora.formats.lines import bad_file, first_names
from attnaudit.corpora.formats.readers import MissingFiles, Sources
from attnaudit.corpora.formats.rows import SPLITS, Row, SplitSource
from attnaudit.corpora.formats.tables import first_that_fits, listed, table_rows
from attnaudit.corpora.registry import Bounds, CorpusEntry, register_corpus

_NOTES, _DIAGNOSES = "NOTEEVENTS.csv", "DIAGNOSES_ICD.csv"
_SHARES = {"test": 0.2, "dev": 0.32, "train": 1.0}  # of patients, added up: dev is 15 % of the rest
_BY_PATIENT = "split 68/12/20 by a hash of SUBJECT_ID"
Class = tuple[str, str]  # the label of an admission, or the reason why it is excluded
Classify = Callable[[frozenset[str]], Class]  # from the ICD-9 codes of an admission, without points


def admissions(classify: Classify, folder: Path) -> Sources:
    """Return the splits of a folder, by patient: the layout of a task.

    Raises:
        MissingFiles: For one table without the other.
    """
    notes, diagnoses = (first_that_fits(folder, [name]) for name in (_NOTES, _DIAGNOSES))
    if not notes and not diagnoses:
        return {}
    if not notes or not diagnoses:
        got = f"no {_DIAGNOSES if notes else _NOTES} among {listed(folder)}"
        raise MissingFiles("read corpus", str(folder), got, "both tables of MIMIC-III")
    # Read once for all splits, and only when rows are asked for.
    codes = cache(partial(_codes, diagnoses))
    return {
        split: SplitSource(notes, partial(_rows, notes, split, codes, classify), _BY_PATIENT)
        for split in SPLITS
    }


def _codes(path: Path) -> dict[str, frozenset[str]]:
    """Read the codes of each admission. Raises InputError."""
    codes: dict[str, set[str]] = defaultdict(set)
    for row in _table(path, "HADM_ID", "ICD9_CODE"):
        if row.problem:
            raise bad_file(row.where(path), row.problem, "a whole table of diagnoses")
        admission, code = row.cells.values()
        codes[_number(admission)].add(code.strip().replace(".", ""))
    return {admission: frozenset(own) for admission, own in codes.items()}


def split_of_patient(subject: str) -> str:
    """Return the split of a patient, the same on every machine."""
    digest = hashlib.sha256(subject.encode(errors="surrogateescape")).digest()
    share = int.from_bytes(digest[:8], "little") / 2**64
    return next(split for split, end in _SHARES.items() if share < end)


def _rows(
    path: Path,
    split: str,
    codes: Callable[[], Mapping[str, frozenset[str]]],
    classify: Classify,
) -> Iterator[Row]:
    """Read the first discharge summary of each admission of the split's patients."""
    seen = set[str]()
    for row in _table(path, "SUBJECT_ID", "HADM_ID", "CATEGORY", "DESCRIPTION", "TEXT"):
        if row.problem:
            if split == "train":  # a bad row is of no split, and reported once
                yield row
            continue
        subject, admission, category, description, text = row.cells.values()
        admission = _number(admission)
        is_summary = admission and category.strip().lower() == "discharge summary"
        if not is_summary or split_of_patient(_number(subject)) != split:
            continue
        label, reason = "", "admissions without a diagnosis"
        if admission in codes():
            label, reason = classify(codes()[admission])
        if admission in seen or description.strip().lower() == "addendum":
            reason = "further summaries of an admission"
        else:
            seen.add(admission)
        yield Row(row.row, row.line, text, label, left_out=reason)


def _table(path: Path, *names: str) -> Iterator[Row]:
    """Read these columns of a table, in capitals or not. Raises InputError."""
    for row in table_rows(path):
        cells = {name.upper(): cell for name, cell in row.cells.items()}
        if missing := [name for name in names if name not in cells and not row.problem]:
            got = f"columns {first_names(row.cells)}"
            raise bad_file(path, got, f"one column {missing[0]} in its header")
        yield replace(row, cells={name: cells.get(name, "") for name in names})


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
        layouts=(partial(admissions, diabetes),),
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
        layouts=(partial(admissions, anemia),),
        folders=("anemia", *DIABETES.folders[1:]),
        bounds={"paper": Bounds(less_than=4000)},
        differs=(
            "the authors drew 20 % for test and 15 % of the rest for dev by admission",
            *_DIFFERS,
        ),
    )
)
