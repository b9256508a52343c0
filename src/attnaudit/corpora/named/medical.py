"""Medical texts: diagnoses from the discharge summaries of MIMIC-III, and tweets on adverse drug reactions."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.papers import Paper
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.entry import Bounds, CorpusEntry
from attnaudit.corpora.formats.layouts import (
    Layout,
    MissingFiles,
    Sources,
    any_layout,
    first_that_fits,
    listed,
    tables,
    whole_table,
)
from attnaudit.corpora.formats.lines import invalid_utf8
from attnaudit.corpora.formats.rows import Row, SplitSource
from attnaudit.corpora.formats.tables import csv_records, header_indices

_NOTES = ("NOTEEVENTS.csv", "NOTEEVENTS.csv.gz")
_DIAGNOSES = ("DIAGNOSES_ICD.csv", "DIAGNOSES_ICD.csv.gz")
_NOTE_COLUMNS = ("SUBJECT_ID", "HADM_ID", "CATEGORY", "DESCRIPTION", "TEXT")
_CATEGORY = "discharge summary"
_UP_TO = (
    ("test", 0.2),
    ("dev", 0.32),
    ("train", 1.0),
)  # shares of patients: 20 % test, 15 % of the rest dev
_BY_PATIENT = (
    "no lists of admissions (train_hadm.csv, test_hadm.csv): split 68/12/20 by a hash of SUBJECT_ID"
)


@dataclass(frozen=True)
class Diagnosed:
    """The label of an admission, or why it is excluded."""

    label: str = ""
    left_out: str = ""


Task = Callable[[frozenset[str]], Diagnosed]  # of the ICD-9 codes of an admission, without points

Lists = Callable[[], dict[str, dict[str, int]]]  # the line of every admission, by split
Labels = Callable[
    [], dict[str, Diagnosed]
]  # by admission; the table is read when they are first asked for


def admission_sources(task: Task) -> Layout:
    """The splits of a task: by the lists of admissions in the folder, else by patient."""

    def layout(folder: Path) -> Sources:
        notes, diagnoses = first_that_fits(folder, _NOTES), first_that_fits(folder, _DIAGNOSES)
        if not notes and not diagnoses:
            return {}
        if not notes or not diagnoses:
            lacks = _DIAGNOSES[0] if notes else _NOTES[0]
            raise MissingFiles(
                "read corpus",
                str(folder),
                f"no {lacks} among {listed(folder)}",
                "both tables of MIMIC-III",
            )
        lists = {
            split: path for split in SPLITS if (path := first_that_fits(folder, (_list_of(split),)))
        }
        if lists and not {"train", "test"} <= set(lists):
            raise MissingFiles(
                "read corpus",
                str(folder),
                f"only {', '.join(path.name for path in lists.values())}",
                "train_hadm.csv and test_hadm.csv",
            )
        labels = cache(
            lambda: {number: task(codes) for number, codes in _codes(diagnoses).items()}
        )  # one reading for all splits
        if lists:
            read = cache(lambda: {split: _admissions(path) for split, path in lists.items()})
            return {
                split: SplitSource(folder, partial(_listed_rows, notes, labels, read, split))
                for split in lists
            }
        return {
            split: SplitSource(folder, partial(_patient_rows, notes, labels, split), _BY_PATIENT)
            for split in SPLITS
        }

    return layout


def split_of_patient(subject: str) -> str:
    """The split of a patient, the same on every machine."""
    share = int.from_bytes(hashlib.sha256(subject.encode()).digest()[:8], "little") / 2**64
    return next(split for split, end in _UP_TO if share < end)


@dataclass(frozen=True)
class _Note:
    row: int
    line: int
    subject: str
    admission: str
    addendum: bool
    text: str


def _patient_rows(notes: Path, labels: Labels, split: str) -> Iterator[Row]:
    reports, seen = split == "train", set[str]()  # rows of no patient are reported once
    others: set[str] = set()
    for note in _summaries(notes):
        if isinstance(note, Row):
            if reports:
                yield note
        elif split_of_patient(note.subject) == split:
            yield _row(note, labels(), seen, notes.name)
        else:
            others.add(note.admission)
    if reports:
        without = [
            number
            for number, found in labels().items()
            if found.label and number not in seen and number not in others
        ]
        yield from (
            Row(-1, None, left_out="admissions without a discharge summary") for _ in without
        )


def _listed_rows(notes: Path, labels: Labels, lists: Lists, split: str) -> Iterator[Row]:
    reports, seen = split == "train", set[str]()  # rows of no list are reported once
    expected, shared = lists()[split], _in_later_lists(lists(), split)
    unlisted: set[str] = set()
    for note in _summaries(notes):
        if isinstance(note, Row):
            if reports:
                yield note
        elif note.admission in expected and note.admission not in shared:
            yield _row(note, labels(), seen, notes.name)
        elif not any(note.admission in one for one in lists().values()):
            unlisted.add(note.admission)
    for admission, line in expected.items():
        if admission in shared:
            problem = f"an admission that is in {shared[admission]} too ({admission})"
            yield Row(line - 1, line, problem=problem, file=_list_of(split))
        elif admission not in seen:
            yield Row(
                line - 1,
                line,
                problem=f"an admission without a discharge summary ({admission})",
                file=_list_of(split),
            )
    if reports:
        without = [number for number in unlisted if number in labels() and labels()[number].label]
        yield from (Row(-1, None, left_out="admissions in no list") for _ in without)


def _list_of(split: str) -> str:
    return f"{split}_hadm.csv"


def _in_later_lists(lists: dict[str, dict[str, int]], split: str) -> dict[str, str]:
    """Admissions that dev or test have too, with the file: train, then dev, gives way."""
    order = list(lists)
    return {
        admission: _list_of(other)
        for other in order[order.index(split) + 1 :]
        for admission in lists[other]
    }


def _row(note: _Note, labels: dict[str, Diagnosed], seen: set[str], file: str) -> Row:
    if note.admission in seen or note.addendum:
        return Row(note.row, note.line, left_out="further summaries of an admission")
    seen.add(note.admission)
    found = labels.get(note.admission, Diagnosed(left_out="admissions without a diagnosis"))
    return Row(note.row, note.line, note.text, found.label, left_out=found.left_out, file=file)


def _summaries(path: Path) -> Iterator[_Note | Row]:
    """The discharge summaries of admissions; what is none comes as a bad row or one to leave out. Raises InputError."""
    records = csv_records(path)
    _, header = next(records, (0, []))
    subject, admission, category, description, text = header_indices(path, header, _NOTE_COLUMNS)
    owners: dict[str, str] = {}
    for row, (line, cells) in enumerate(records):
        if len(cells) != len(header):
            yield Row(
                row,
                line,
                problem=f"{count(len(cells), 'field')} where the header has {len(header)}",
                file=path.name,
            )
        elif cells[category].strip().lower() != _CATEGORY:
            yield Row(row, line, left_out="notes of another category")
        elif not cells[admission].strip():
            yield Row(row, line, left_out="summaries without an admission")
        else:
            addendum = cells[description].strip().lower() == "addendum"
            note = _Note(
                row, line, _number(cells[subject]), _number(cells[admission]), addendum, cells[text]
            )
            problem = _wrong_patient(note, owners)
            yield Row(row, line, problem=problem, file=path.name) if problem else note


def _wrong_patient(note: _Note, owners: dict[str, str]) -> str:
    """What is wrong with the patient of a note; ``owners`` are those of the admissions before it."""
    if not note.subject:
        return "no patient (SUBJECT_ID)"
    if wrong := invalid_utf8(note.subject):
        return f"a SUBJECT_ID with {wrong}"
    owner = owners.setdefault(note.admission, note.subject)
    return (
        ""
        if owner == note.subject
        else f"an admission of two patients ({note.admission} of {owner} and {note.subject})"
    )


def _codes(path: Path) -> dict[str, frozenset[str]]:
    """The ICD-9 codes of every admission. Raises InputError."""
    records = csv_records(path)
    _, header = next(records, (0, []))
    admission, code = header_indices(path, header, ("HADM_ID", "ICD9_CODE"))
    found: dict[str, set[str]] = defaultdict(set)
    for row, (line, cells) in enumerate(records):
        if len(cells) != len(header):
            got = f"{count(len(cells), 'field')} where the header has {len(header)}"
            raise InputError(
                "read corpus",
                Row(row, line).where(path),
                got,
                "a whole table of diagnoses",
                "copy it again",
            )
        found[_number(cells[admission])].add(cells[code].strip().replace(".", ""))
    return {number: frozenset(codes) for number, codes in found.items()}


def _admissions(path: Path) -> dict[str, int]:
    """The admissions of a file, each with its line; a header is passed over. Raises InputError."""
    found: dict[str, int] = {}
    for line, cells in csv_records(path):
        number = _number(cells[0])
        if number.isdecimal():
            found[number] = line
        elif line > 1:
            raise InputError(
                "read corpus",
                f"{path}: line {line}",
                f"'{number[:40]}'",
                "the number of an admission (HADM_ID)",
            )
    if not found:
        raise InputError(
            "read corpus", str(path), "no admission", "a number (HADM_ID) in each line"
        )
    return found


def _number(cell: str) -> str:
    return cell.strip().removesuffix(".0")


_HIDDEN = re.compile(r"\[\*\*.*?\*\*\]", re.DOTALL)
_HOW = "get access at https://physionet.org/content/mimiciii/, then put NOTEEVENTS.csv and DIAGNOSES_ICD.csv (or .csv.gz) into the folder"
_EXPECTED = "NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III, perhaps with .gz"
_DIFFERS = (
    "the first discharge summary of an admission is read, addenda are excluded",
    "without the lists train_hadm.csv, dev_hadm.csv and test_hadm.csv admissions are split by a hash of their patient: 68/12/20",
)


def clean(text: str) -> str:
    """Without the brackets that mask personal data, and with single spaces."""
    return " ".join(_HIDDEN.sub(" ", text).split())


def diabetes(codes: frozenset[str]) -> Diagnosed:
    """Class 1 for ICD-9 250.00."""
    return Diagnosed(str(int("25000" in codes)))


def anemia(codes: frozenset[str]) -> Diagnosed:
    """Class 0 for acute anemia (ICD-9 285.1), 1 for a chronic one (285.2)."""
    acute, chronic = "2851" in codes, any(code.startswith("2852") for code in codes)
    if acute and chronic:
        return Diagnosed(left_out="with acute and chronic anemia")
    return (
        Diagnosed(str(int(chronic))) if acute or chronic else Diagnosed(left_out="without anemia")
    )


DIABETES = CorpusEntry(
    name="diabetes", title="MIMIC-III, diabetes",
    licence="PhysioNet Credentialed Health Data License 1.5.0: own access, not to be passed on", class_names=("no diabetes", "diabetes"),
    paper=Paper(
        "johnson2016",
        "Johnson, Alistair E. W. and Pollard, Tom J. and Shen, Lu and Lehman, Li-wei H. and Feng, Mengling and Ghassemi, Mohammad "
        "and Moody, Benjamin and Szolovits, Peter and Celi, Leo Anthony and Mark, Roger G.",
        "{MIMIC-III}, a Freely Accessible Critical Care Database", "Scientific Data", 2016, kind="article", volume="3",
    ),
    sources=any_layout(admission_sources(diabetes), expected=_EXPECTED, within=("1.4",)),
    homepage="https://physionet.org/content/mimiciii/1.4/", folders=("diabetes", "mimic", "mimiciii", "mimic-iii-clinical-database-1.4"),
    min_df=5, clean=clean, bounds={"paper": Bounds(more_than=6, less_than=4000)},
    how_to_get=f"{_HOW} diabetes (or mimic)",
    differs=("the authors' lists of admissions are not published", *_DIFFERS),
)  # fmt: skip

ANEMIA = replace(
    DIABETES, name="anemia", title="MIMIC-III, anemia",
    class_names=("acute", "chronic"),
    sources=any_layout(admission_sources(anemia), expected=_EXPECTED, within=("1.4",)),
    folders=("anemia", *DIABETES.folders[1:]),
    bounds={"paper": Bounds(less_than=4000)},
    how_to_get=f"{_HOW} anemia (or mimic)",
    differs=("the authors drew 20 % for test and 15 % of the rest for dev by admission", *_DIFFERS),
)  # fmt: skip


ADR = CorpusEntry(
    name="adr", title="tweets on adverse drug reactions", short="ADR",
    licence="health-related tweets: by Twitter's terms only their numbers may be passed on", class_names=("no reaction", "reaction"),
    paper=Paper(
        "nikfarjam2015", "Nikfarjam, Azadeh and Sarker, Abeed and O'Connor, Karen and Ginn, Rachel and Gonzalez, Graciela",
        "Pharmacovigilance from Social Media: Mining Adverse Drug Reaction Mentions Using Sequence Labeling with Word Embedding Cluster "
        "Features",
        "Journal of the American Medical Informatics Association", 2015, kind="article", volume="22", number="3", pages="671--681",
    ),
    sources=any_layout(tables(), whole_table(), expected="train and test, or one file, csv or tsv with columns text and label (0 or 1)"),
    homepage="https://healthlanguageprocessing.org/",
    min_df=2, bounds={"paper": Bounds(more_than=5, less_than=100)},
    how_to_get="withdrawn by the authors who used it: put your own csv or tsv with columns text and label (0 or 1) into the folder adr",
    differs=("the paper's file was withdrawn: with another copy of the tweets numbers are not comparable",),
)  # fmt: skip
