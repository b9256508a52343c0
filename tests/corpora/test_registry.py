"""What every registered corpus tells of itself, and where it is looked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import CORPORA, read_corpus
from attnaudit.corpora.entry import CorpusEntry
from attnaudit.corpora.registry import corpus_folder

from .corpus_files import put, write_babi, write_posts, write_reviews, write_trees

SETTINGS = {"vectors", "model.embedding", "model.hidden", "training.epochs", "training.batch_size"}
ENTRIES = [entry for entry in CORPORA.values() if not entry.generate]
OF_TEXTS = [entry for entry in ENTRIES if entry.sources]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entries_are_complete(entry: CorpusEntry) -> None:
    assert entry.paper
    assert re.match(r"@\w+\{\w+,\n(  \w+ = \{.*\},?\n)+\}$", entry.paper.bibtex)
    year = entry.citation[-4:]
    assert year.isdecimal()
    assert f"{{{year}}}" in entry.paper.bibtex
    assert entry.title
    assert entry.licence
    assert entry.homepage.startswith(("http://", "https://"))
    assert not entry.folders or entry.folders[0] == entry.name
    assert all("\n" not in line for line in (entry.how_to_get, *entry.differs))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_expected_counts_have_a_number_for_each_class(entry: CorpusEntry) -> None:
    for table in entry.expected.values():
        named = [split for splits in table for split in splits.split("+")]
        assert sorted(named) == ["dev", "test", "train"]
        assert {len(counts) for counts in table.values()} <= {1, len(entry.class_names)}


def test_settings_by_encoder_and_preset() -> None:
    for entry in ENTRIES:
        for encoder in ("bilstm", "cnn", "average"):
            for preset in ("paper", "code2019"):
                assert set(entry.settings(encoder, preset)) <= SETTINGS
                assert not entry.settings(encoder, preset) or entry.task != "classification"
    trained = {
        "vectors": "random",
        "model.embedding": 50,
        "training.epochs": 100,
        "training.batch_size": 50,
    }
    assert CORPORA["babi2"].settings("bilstm", "paper") == {**trained, "model.hidden": 30}
    assert CORPORA["babi2"].settings("bilstm", "code2019") == {**trained, "model.hidden": 32}
    assert CORPORA["babi2"].settings("cnn", "code2019") == {**trained, "model.hidden": 8}
    assert (
        CORPORA["babi2"].settings("cnn", "paper")
        == CORPORA["babi2"].settings("average", "code2019")
        == trained
    )
    assert CORPORA["snli"].settings("cnn", "paper") == {
        "training.epochs": 25,
        "training.batch_size": 128,
    }
    assert CORPORA["cnn"].settings("cnn", "paper") == {
        "training.epochs": 25,
        "training.batch_size": 90,
    }


def test_filters_are_those_of_the_paper() -> None:
    def kept(name: str) -> tuple:
        entry = CORPORA[name]
        bounds = entry.bounds.get("paper")
        return (entry.min_df, bounds.more_than, bounds.less_than) if bounds else (entry.min_df,)

    assert {name: kept(name) for name in list(CORPORA)[:12]} == {
        "sst": (1, 5, None), "imdb": (10, 6, 400), "adr": (2, 5, 100), "20news_sports": (2, 6, 500), "ag_news": (5,),
        "diabetes": (5, 6, 4000), "anemia": (5, 0, 4000), "cnn": (8,), "babi1": (1,), "babi2": (1,), "babi3": (1,), "snli": (3,),
    }  # fmt: skip


@pytest.mark.parametrize("name", [entry.name for entry in OF_TEXTS])
def test_a_corpus_that_is_not_there_says_where_it_was_looked_for_and_how_to_get_it(
    name: str, tmp_path: Path
) -> None:
    entry = CORPORA[name]
    with pytest.raises(InputError) as caught:
        read_corpus(name, data_dir=tmp_path)
    told = str(caught.value)
    assert told.startswith(
        f"read corpus {name}: {tmp_path}: no folder {', '.join(entry.folders or (name,))} (--data-dir); expected"
    )
    assert entry.how_to_get in told


@pytest.mark.parametrize("name", [entry.name for entry in OF_TEXTS])
def test_an_empty_folder_says_what_was_wanted(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(
        InputError, match=f"read corpus {name}: .*: none of its files among no files; expected "
    ):
        read_corpus(name, data_dir=tmp_path)


def test_the_first_folder_with_all_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    write_reviews(tmp_path / "aclImdb")
    assert corpus_folder(CORPORA["imdb"], tmp_path) == tmp_path / "aclImdb"
    note = f"{tmp_path / 'imdb'}: none of its files among no files; read from {tmp_path / 'aclImdb'} instead"
    assert note in read_corpus("imdb", data_dir=tmp_path).notes
    write_reviews(tmp_path / "imdb" / "aclImdb")
    assert corpus_folder(CORPORA["imdb"], tmp_path) == tmp_path / "imdb"


def test_a_missing_split_is_told_and_another_version_is_read_instead(tmp_path: Path) -> None:
    whole, small = (tmp_path / "babi" / "tasks_1-20_v1-2" / name for name in ("en-10k", "en"))
    write_babi(whole)
    (whole / "qa1_some-facts_train.txt").unlink()
    with pytest.raises(InputError) as caught:
        read_corpus("babi1", data_dir=tmp_path)
    got = "no train split among qa1_some-facts_test.txt; expected qa1_*_train.txt next to qa1_some-facts_test.txt"
    assert str(caught.value) == f"read corpus babi1: {whole}: {got}"
    write_babi(small)
    assert any(
        note.endswith(f"read from {small} instead")
        for note in read_corpus("babi1", data_dir=tmp_path).notes
    )


def test_a_tree_file_that_is_missing(tmp_path: Path) -> None:
    write_trees(tmp_path / "sst")
    (tmp_path / "sst" / "dev.txt").unlink()
    with pytest.raises(
        InputError,
        match=r"no dev split among test\.txt, train\.txt; expected dev\.txt next to train",
    ):
        read_corpus("sst", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "missing"),
    [("imdb", "train/pos"), ("20news_sports", "20news-bydate-test/rec.sport.hockey")],
)
def test_a_missing_class(name: str, missing: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    (write_reviews if name == "imdb" else write_posts)(folder)
    (folder / missing).rename(tmp_path / "away")
    with pytest.raises(
        InputError, match=f"{folder / missing}: no (review|post); expected a folder with"
    ):
        read_corpus(name, data_dir=tmp_path)


def test_columns_of_a_named_corpus_are_its_own(tmp_path: Path) -> None:
    for option in ("question", "rationale"):
        with pytest.raises(InputError) as caught:
            read_corpus("sst", data_dir=tmp_path, **{option: "x"})  # type: ignore[arg-type]
        where = f"--{option}-column ({option}= in Python)"
        assert (
            str(caught.value)
            == f"read corpus sst: {where}: 'x'; expected no column of a named corpus; leave it out"
        )


def test_a_file_of_one_class_only(tmp_path: Path) -> None:
    put(tmp_path / "mr" / "rt-polarity.neg", "one sentence\n")
    with pytest.raises(
        InputError,
        match=r"no file of one class among rt-polarity\.neg; expected rt-polarity\.pos next to",
    ):
        read_corpus("mr", data_dir=tmp_path)
