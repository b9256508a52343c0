"""Discharge summaries: their labels from diagnoses, their splits by list or by patient."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import Corpus, read_corpus
from attnaudit.corpora.named.medical import anemia, clean, diabetes, split_of_patient

from .corpus_files import put, write_mimic


def read(folder: Path, name: str = "diabetes", **options: object) -> Corpus:
    return read_corpus(name, data_dir=folder, **options)  # type: ignore[arg-type]


def write_lists(folder: Path, **lists: list[int]) -> None:
    for split, admissions in lists.items():
        put(
            folder / f"{split}_hadm.csv",
            "HADM_ID\n" + "".join(f"{200000 + row}\n" for row in admissions),
        )


def test_labels() -> None:
    assert diabetes(frozenset({"25000", "4019"})).label == "1"
    assert diabetes(frozenset({"25001"})).label == "0"
    assert anemia(frozenset({"2851"})).label == "0"
    assert anemia(frozenset({"28529"})).label == "1"
    assert anemia(frozenset({"2851", "28521"})).left_out == "with acute and chronic anemia"
    assert anemia(frozenset({"25000"})).left_out == "without anemia"


def test_cleaning() -> None:
    assert clean("Seen by [**Name\n(un) 12**] on\t[**2101-1-2**], well") == "Seen by on , well"


def test_patients_stay_together_and_nothing_is_lost(tmp_path: Path) -> None:
    write_mimic(tmp_path / "mimic", 60)
    corpus = read(tmp_path)
    rows = {
        int(row): int(label)
        for split in corpus.splits.values()
        for row, label in zip(split.instance, split.label, strict=True)
    }
    assert rows == {2 * row: int(row % 3 == 0) for row in range(60)}
    for name, split in corpus.splits.items():
        assert {split_of_patient(str(1000 + int(row) // 2)) for row in split.instance} == {name}
        words = [word for tokens in split.tokens for word in tokens]
        assert not {"name", "[", "un", "nursing", "outpatient"} & set(words)
    assert (
        "no lists of admissions (train_hadm.csv, test_hadm.csv): split 68/12/20 by a hash of SUBJECT_ID"
        in corpus.notes
    )
    told = next(note for note in corpus.notes if note.startswith("rows of train excluded"))
    assert "60 notes of another category" in told
    assert "1 summaries without an admission" in told
    assert "1 admissions without a discharge summary" in told
    assert sum("1 further summaries of an admission" in note for note in corpus.notes) == 1


def test_shares_of_patients() -> None:
    assert [number for number in range(1, 13) if split_of_patient(str(number)) == "test"] == [
        5,
        9,
        12,
    ]  # on every machine
    found = [split_of_patient(str(number)) for number in range(4000)]
    assert [round(found.count(split) / 4000, 1) for split in ("train", "dev", "test")] == [
        0.7,
        0.1,
        0.2,
    ]


def test_anemia_leaves_out_the_others(tmp_path: Path) -> None:
    write_mimic(tmp_path / "anemia", 60)
    corpus = read(tmp_path, "anemia")
    assert sum(len(split) for split in corpus.splits.values()) == 40
    left_out = sum(
        int(found) for note in corpus.notes for found in re.findall(r"(\d+) without anemia", note)
    )
    assert left_out == 20


def test_lists_of_admissions(tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    write_lists(tmp_path / "diabetes", train=list(range(40)), test=list(range(40, 60)))
    corpus = read(tmp_path)
    assert {name: len(split) for name, split in corpus.splits.items()} == {
        "train": 34,
        "dev": 6,
        "test": 20,
    }
    assert corpus.splits["test"].instance.tolist() == [2 * row for row in range(40, 60)]
    write_lists(tmp_path / "diabetes", dev=list(range(30, 40)), train=list(range(30)))
    assert {name: len(split) for name, split in read(tmp_path).splits.items()} == {
        "train": 30,
        "dev": 10,
        "test": 20,
    }


def test_a_listed_admission_without_a_summary(tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    write_lists(tmp_path / "diabetes", train=[*range(40), 999], test=list(range(40, 60)))
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    got = "row 41 (line 42): an admission without a discharge summary (200999); expected a text and a label"
    assert f"{tmp_path / 'diabetes' / 'train_hadm.csv'}: {got}" in str(caught.value)
    assert len(read(tmp_path, on_bad_row="skip").skipped) == 1


def skipped(corpus: Corpus) -> list[str]:
    return [row.reason for row in corpus.skipped]


def add_notes(folder: Path, *lines: str) -> Path:
    notes = folder / "NOTEEVENTS.csv"
    notes.write_bytes(notes.read_bytes() + "".join(f"{line}\n" for line in lines).encode("latin-1"))
    return notes


def test_admissions_in_no_list_are_counted(tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    write_lists(tmp_path / "diabetes", train=list(range(40)), test=list(range(40, 53)))
    assert (
        "rows of train excluded by the corpus's definition: 60 notes of another category"
        in " ".join(read(tmp_path).notes)
    )
    assert sum("7 admissions in no list" in note for note in read(tmp_path).notes) == 1


def test_an_admission_in_two_lists_is_not_trained_on(tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    write_lists(
        tmp_path / "diabetes",
        train=list(range(42)),
        dev=list(range(41, 51)),
        test=list(range(50, 60)),
    )
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    got = "row 42 (line 43): an admission that is in dev_hadm.csv too (200041); expected a text and a label"
    assert f"{tmp_path / 'diabetes' / 'train_hadm.csv'}: {got}" in str(caught.value)
    corpus = read(tmp_path, on_bad_row="skip")
    assert {name: len(split) for name, split in corpus.splits.items()} == {
        "train": 41,
        "dev": 9,
        "test": 10,
    }
    assert "1 bad row of dev skipped: 1 an admission that is in test_hadm.csv too" in corpus.notes


@pytest.mark.parametrize(
    ("note", "got"),
    [
        ('9,,200000,"Discharge summary","Report","ill"', "no patient (SUBJECT_ID)"),
        (
            '9,7\xe9,200000,"Discharge summary","Report","ill"',
            "a SUBJECT_ID with invalid UTF-8 (byte 0xe9 at character 1)",
        ),
        (
            '9,7,200000,"Discharge summary","Report","ill"',
            "an admission of two patients (200000 of 1000 and 7)",
        ),
    ],
)
def test_a_summary_without_its_patient_is_a_bad_row(note: str, got: str, tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    path = add_notes(tmp_path / "diabetes", note)
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert f"{path}: row 122 (line 244): {got}; expected a text and a label" in str(caught.value)
    corpus = read(tmp_path, on_bad_row="skip")
    assert skipped(corpus) == [got]
    assert sum(map(len, corpus.splits.values())) == 60


def test_a_dev_split_that_is_no_file_cannot_be_left_out(tmp_path: Path) -> None:
    write_mimic(tmp_path / "diabetes", 60)
    write_lists(tmp_path / "diabetes", train=list(range(40)), dev=[40], test=list(range(41, 60)))
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert str(caught.value).endswith(
        "expected rows of at least two classes, to choose an epoch by; add rows"
    )


def test_bad_tables(tmp_path: Path) -> None:
    folder = tmp_path / "diabetes"
    write_mimic(folder, 60)
    notes, diagnoses = folder / "NOTEEVENTS.csv", folder / "DIAGNOSES_ICD.csv"
    whole, codes = notes.read_text(), diagnoses.read_text()

    def refused() -> str:
        with pytest.raises(InputError) as caught:
            read(tmp_path)
        return str(caught.value)

    notes.write_text(whole + "1,2,3\n")
    assert "NOTEEVENTS.csv: row 122 (line 244): 3 fields where the header has 6" in refused()
    notes.write_text(whole.replace("HADM_ID", "ADMISSION", 1))
    assert "NOTEEVENTS.csv: columns ROW_ID, SUBJECT_ID, ADMISSION" in refused()
    notes.write_text(whole.replace(",", ";"))
    assert "save the table with commas between its fields, not ';'" in refused()
    notes.write_text(whole.replace('"', "").replace(",", ";"))
    assert refused().endswith(
        "in its header; save the table with commas between its fields, not ';'"
    )
    notes.write_text(whole)
    diagnoses.write_text(codes + "1,2\n")
    assert "DIAGNOSES_ICD.csv: row 121 (line 123): 2 fields where the header has 5" in refused()
    put(folder / "test_hadm.csv", "200001\n")
    assert "only test_hadm.csv; expected train_hadm.csv and test_hadm.csv" in refused()
    put(folder / "train_hadm.csv", "200001\nnone\n")
    diagnoses.write_text(codes)
    assert (
        "train_hadm.csv: line 2: 'none'; expected the number of an admission (HADM_ID)" in refused()
    )
    diagnoses.unlink()
    assert (
        "no DIAGNOSES_ICD.csv among NOTEEVENTS.csv, test_hadm.csv, train_hadm.csv; expected both tables of MIMIC-III"
        in refused()
    )
