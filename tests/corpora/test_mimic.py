"""Discharge summaries: their labels from diagnoses, their splits by list or by patient."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnaudit.corpora import Corpus, read_corpus
from attnaudit.corpora.mimic import anemia, clean, diabetes, split_of_patient

from .corpus_files import write_mimic
from .writing import refused


def read(folder: Path, name: str = "diabetes", **options: object) -> Corpus:
    return read_corpus(name, data_dir=folder, **options)  # type: ignore[arg-type]


def test_labels() -> None:
    assert diabetes(frozenset({"25000", "4019"})) == ("1", "")
    assert diabetes(frozenset({"25001"})) == ("0", "")
    assert anemia(frozenset({"2851"})) == ("0", "")
    assert anemia(frozenset({"28529"})) == ("1", "")
    for codes in ({"2851", "28521"}, {"25000"}):
        label, reason = anemia(frozenset(codes))
        assert reason
        assert not label


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
    assert "split 68/12/20 by a hash of SUBJECT_ID" in corpus.notes
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


def skipped(corpus: Corpus) -> list[str]:
    return [row.reason for row in corpus.skipped]


def add_notes(folder: Path, *lines: str) -> Path:
    notes = folder / "NOTEEVENTS.csv"
    notes.write_bytes(notes.read_bytes() + "".join(f"{line}\n" for line in lines).encode("latin-1"))
    return notes


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
    error = refused("diabetes", data_dir=tmp_path)
    assert (error.where, error.got) == (f"{path}: row 122 (line 244)", got)
    corpus = read(tmp_path, on_bad_row="skip")
    assert skipped(corpus) == [got]
    assert sum(map(len, corpus.splits.values())) == 60


def test_bad_tables(tmp_path: Path) -> None:
    folder = tmp_path / "diabetes"
    write_mimic(folder, 60)
    notes, diagnoses = folder / "NOTEEVENTS.csv", folder / "DIAGNOSES_ICD.csv"
    whole, codes = notes.read_text(), diagnoses.read_text()
    for path, content, where, got in (
        (notes, whole + "1,2,3\n", ": row 122 (line 244)", "3 fields where the header has 6"),
        (notes, whole.replace("HADM_ID", "ADMISSION", 1), "", "columns ROW_ID, SUBJECT_ID, ADMISS"),
        (diagnoses, codes + "1,2\n", ": row 121 (line 123)", "2 fields where the header has 5"),
    ):
        path.write_text(content)
        error = refused("diabetes", data_dir=tmp_path)
        assert error.where == f"{path}{where}"
        assert error.got.startswith(got)
        notes.write_text(whole)
        diagnoses.write_text(codes)
    diagnoses.unlink()
    assert refused("diabetes", data_dir=tmp_path).got.startswith("no DIAGNOSES_ICD.csv among")
