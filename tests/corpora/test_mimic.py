"""Discharge summaries: their labels from diagnoses, their splits by list or by patient."""

import re

import pytest

from attnaudit.corpora.mimic import anemia, diabetes, split_of_patient
from attnaudit.corpora.read import read_corpus

from .corpus_files import write_mimic
from .writing import refused


def read(folder, name="diabetes", **options):
    return read_corpus(name, data_dir=folder, **options)  # type: ignore[arg-type]


def test_labels():
    assert diabetes(frozenset({"25000", "4019"})) == ("1", "")
    assert diabetes(frozenset({"25001"})) == ("0", "")
    assert anemia(frozenset({"2851"})) == ("0", "")
    assert anemia(frozenset({"28529"})) == ("1", "")
    for codes in ({"2851", "28521"}, {"25000"}):
        label, reason = anemia(frozenset(codes))
        assert reason
        assert not label


def test_patients_stay_together_and_nothing_is_lost(tmp_path):
    write_mimic(tmp_path / "mimic", 60)
    corpus = read(tmp_path)
    rows = {}
    for name, split in corpus.splits.items():
        rows |= dict(zip(split.instance.tolist(), split.label.tolist(), strict=True))
        assert {split_of_patient(str(1000 + int(row) // 2)) for row in split.instance} == {name}
        words = {word for tokens in split.tokens for word in tokens}
        assert not {"name", "[", "un", "nursing", "outpatient"} & words
    assert rows == {2 * row: int(row % 3 == 0) for row in range(60)}
    assert "split 68/12/20 by a hash of SUBJECT_ID" in corpus.notes
    assert sum("1 further summaries of an admission" in note for note in corpus.notes) == 1


def test_shares_of_patients():
    found = [split_of_patient(str(number)) for number in range(4000)]
    # The same on every machine.
    assert [number for number in range(1, 13) if found[number] == "test"] == [5, 9, 12]
    shares = [found.count(split) / 4000 for split in ("train", "dev", "test")]
    assert shares == pytest.approx([0.68, 0.12, 0.2], abs=0.03)


def test_anemia_leaves_out_the_others(tmp_path):
    write_mimic(tmp_path / "anemia", 60)
    corpus = read(tmp_path, "anemia")
    assert sum(len(split) for split in corpus.splits.values()) == 40
    left_out = sum(
        int(found) for note in corpus.notes for found in re.findall(r"(\d+) without anemia", note)
    )
    assert left_out == 20


def test_bad_tables(tmp_path):
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
