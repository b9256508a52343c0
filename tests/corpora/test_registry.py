"""What every registered corpus tells of itself, and where it is looked for."""

import re

import pytest

from attnaudit.corpora import CORPORA
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.registry import corpus_folder

from .corpus_files import write_babi, write_reviews
from .writing import refused

JAIN = ("sst", "imdb", "adr", "20news_sports", "ag_news", "diabetes", "anemia", "cnn", "babi1", "babi2", "babi3", "snli")  # fmt: skip
ENTRIES = [entry for entry in CORPORA.values() if not entry.generate]
OF_TEXTS = [entry for entry in ENTRIES if entry.task != "translation"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entries_are_complete(entry):
    assert entry.paper
    assert re.match(r"@\w+\{\w+,\n(  \w+ = \{.*\},?\n)+\}$", entry.paper.bibtex)
    assert f"{{{entry.citation[-4:]}}}" in entry.paper.bibtex
    assert entry.title
    assert entry.licence
    assert entry.downloads or entry.how_to_get
    assert all(one.url.startswith("http") and ".." not in one.path for one in entry.downloads)
    for table in entry.expected.values():
        assert sorted("+".join(table).split("+")) == ["dev", "test", "train"]
        assert {len(counts) for counts in table.values()} <= {1, len(entry.class_names)}


def test_filters_are_those_of_the_paper():
    def kept(name):
        entry = CORPORA[name]
        bounds = entry.bounds.get("paper")
        return (entry.min_df, bounds.more_than, bounds.less_than) if bounds else (entry.min_df,)

    assert {name: kept(name) for name in JAIN} == {
        "sst": (1, 5, None), "imdb": (10, 6, 400), "adr": (2, 5, 100), "20news_sports": (2, 6, 500), "ag_news": (5,),
        "diabetes": (5, 6, 4000), "anemia": (5, 0, 4000), "cnn": (8,), "babi1": (1,), "babi2": (1,), "babi3": (1,), "snli": (3,),
    }  # fmt: skip


def test_planted_entries_name_the_classes_of_their_corpora():
    for name, entry in CORPORA.items():
        if entry.generate and entry.task != "translation":
            assert read_corpus(name, size=60).class_names == entry.class_names
            assert read_corpus(name, size=60).task == entry.task


@pytest.mark.parametrize("entry", OF_TEXTS, ids=lambda entry: entry.name)
def test_a_corpus_that_is_not_there_says_where_it_was_looked_for_and_how_to_get_it(entry, tmp_path):
    error = refused(entry.name, data_dir=tmp_path)
    assert (error.operation, error.where) == (f"read corpus {entry.name}", str(tmp_path))
    assert all(folder in error.got for folder in entry.places)
    assert entry.how_to_get in error.do
    (tmp_path / entry.name).mkdir()
    error = refused(entry.name, data_dir=tmp_path)
    assert (error.where, error.expected) == (str(tmp_path / entry.name), entry.needs)
    assert error.expected


def test_the_first_folder_with_all_files_is_read(tmp_path):
    (tmp_path / "imdb").mkdir()
    for place in (tmp_path / "aclImdb", tmp_path / "imdb/aclImdb"):
        write_reviews(place)
        folder = place.parent if place.parent != tmp_path else place
        assert corpus_folder(CORPORA["imdb"], tmp_path) == folder


def test_a_folder_with_all_splits_is_read_instead_of_one_without(tmp_path):
    whole, small = (tmp_path / "babi/tasks_1-20_v1-2" / name for name in ("en-10k", "en"))
    write_babi(whole)
    (whole / "qa1_some-facts_train.txt").unlink()
    error = refused("babi1", data_dir=tmp_path)
    assert (error.where, error.got) == (str(whole), "no train split among qa1_some-facts_test.txt")
    assert "qa1_*_train.txt" in error.expected
    write_babi(small)
    assert len(read_corpus("babi1", data_dir=tmp_path).splits["test"]) == 18
