"""CorpusEntry corpora from real files: their counts are the published ones, and upstream layouts hold what the tables hold."""

import pytest

from attnaudit.corpora.formats.archives import unpack
from attnaudit.corpora.formats.readers import documents, stories
from attnaudit.corpora.formats.rows import marked_words, usable_spans
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.read import read_corpus

from .writing import counts

COMPLETE = ["mr", "subj", "trec6", "sms_spam", "sick_nli", "sst5", "babi1", "babi2"]


@pytest.fixture
def plain_words(monkeypatch):
    """Words are what lies between white space: for tests of what words do not change."""
    monkeypatch.setattr(
        "attnaudit.corpora.prepare.tokenise.Tokeniser.__call__", lambda _, text: text.split()
    )


def surprises(corpus):
    return [note for note in corpus.notes if "published" in note]


@pytest.mark.usefixtures("plain_words")
@pytest.mark.parametrize("name", COMPLETE)
def test_complete_corpora_have_the_published_counts(name, real_data):
    corpus = read_corpus(name, data_dir=real_data)
    assert not surprises(corpus)
    assert not corpus.skipped


@pytest.mark.usefixtures("plain_words")
def test_inference(real_data):
    corpus = read_corpus("snli", data_dir=real_data)
    assert counts(corpus) == {
        "train": [6771, 6667, 6562],
        "dev": [3278, 3329, 3235],
        "test": [3237, 3368, 3219],
    }
    assert surprises(corpus) == [
        "train has 6771/6667/6562 rows per class where the published corpus has 183187/183416/182764"
    ]


@pytest.mark.slow
def test_stories_and_objects_are_the_same_corpus(real_data):
    raw, pack = (read_corpus("babi1", data_dir=place) for place in (real_data / "raw", real_data))
    assert raw.fingerprint == pack.fingerprint
    assert raw.splits["test"].tokens == pack.splits["test"].tokens
    assert raw.splits["test"].rationale == pack.splits["test"].rationale
    assert raw.class_names == ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")


def naive_support(path):
    """The sentences that support each answer, straight from the lines."""
    story = {}
    for line in path.read_text().splitlines():
        number, rest = line.split(" ", 1)
        story = {} if number == "1" else story
        if "\t" in rest:
            yield sorted(story[support] for support in rest.split("\t")[2].split())
        else:
            story[number] = rest


@pytest.mark.parametrize("task", [1, 2, 3])
def test_the_marked_sentences_are_the_supporting_facts(task, real_data):
    path = next((real_data / "raw/babi/tasks_1-20_v1-2/en-10k").glob(f"qa{task}_*_test.txt"))
    rows = list(stories(path))
    assert len(rows) == 1000
    for row, support in zip(rows, naive_support(path), strict=True):
        assert isinstance(row.rationale, list)
        assert sorted(str(row.text)[start:stop] for start, stop in row.rationale) == support
    tokenise = Tokeniser()
    for row, support in zip(rows[:50], naive_support(path), strict=False):
        text = str(row.text)
        tokens, marks = marked_words(text, usable_spans(row.rationale, len(text)), tokenise)
        assert tokens == tokenise(text)
        marked = " ".join(word for word, mark in zip(tokens, marks, strict=True) if mark)
        assert sorted(fact.strip() for fact in marked.split(".") if fact) == [
            fact.lower().rstrip(".") for fact in support
        ]


@pytest.mark.slow
def test_reviews_with_rationales(real_data, tmp_path):
    """Every stretch of words of the archive reproduces the text that is given with it in the table, and both mark the same."""
    unpack(real_data / "raw/eraser_movies/movies.tar.gz", tmp_path)
    unmarked = []
    for split, file, classes in (
        ("train", "train.jsonl", [800, 800]),
        ("dev", "val.jsonl", [100, 100]),
        ("test", "test.jsonl", [100, 99]),
    ):
        original = list(documents(tmp_path / "movies" / file))
        assert [row.label for row in original].count("NEG") == classes[0]
        assert len(original) == sum(classes)
        table = list(documents(real_data / "movies_rationales" / f"{split}.jsonl.gz"))
        assert [(row.label, row.text, row.rationale) for row in original] == [
            (row.label, row.text, row.rationale) for row in table
        ]
        unmarked += [row for row in original if row.rationale is None]
    assert len(unmarked) == 1
