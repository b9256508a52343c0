"""Questions whose answers are entities of the passage."""

import numpy as np
import pytest

from attnaudit.corpora.read import read_corpus

from .corpus_files import put, write_cnn
from .writing import refused, sizes


def test_question_files(tmp_path):
    write_cnn(tmp_path / "cnn/questions")
    corpus = read_corpus("cnn", data_dir=tmp_path)
    assert corpus.task == "question_answering"
    train, test = corpus.splits["train"], corpus.splits["test"]
    assert sizes(corpus) == [12, 4, 4]
    assert set(corpus.class_names) == {f"@entity{number}" for number in [0, 1, 2, *range(9, 22)]}
    assert train.candidates is not None
    assert train.candidates.shape == (12, len(corpus.class_names))
    passage = "( @entity9 ) @entity1 met @entity2 's friend qqq times , said @entity11 ."
    assert " ".join(train.tokens[1]) == passage
    assert train.question is not None
    assert train.question[1] == ["@placeholder", "has", "a", "friend", "who", "met", "@entity2"]
    for tokens, label, allowed in zip(train.tokens, train.label, train.candidates, strict=True):
        assert allowed[label]
        assert {corpus.class_names[number] for number in np.flatnonzero(allowed)} == {
            word for word in tokens if "@" in word
        }
    assert test.candidates is not None
    assert test.candidates.sum(1).tolist() == [4] * 4


def test_a_passage_without_its_answer(tmp_path):
    write_cnn(tmp_path / "cnn")
    path = tmp_path / "cnn/training/0002.question"
    path.write_text(path.read_text().replace("\n\n@entity2\n\n", "\n\n@entity77\n\n"))
    error = refused("cnn", data_dir=tmp_path)
    assert (error.where, error.got.split(" (")[1]) == (f"{path}: row 2", "@entity77)")
    corpus = read_corpus("cnn", data_dir=tmp_path, on_bad_row="skip")
    assert len(corpus.splits["train"]) == 11
    assert (
        "warning: 1 bad row of train skipped: 1 a passage without its answer entity" in corpus.notes
    )


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("http://example.org\n\nonly a passage with @entity1", "2 parts"),
        ("", "1 parts"),
        (
            "u\n\n@entity1 caf\udce9\n\nwhat\n\n@entity1\n\n",
            "invalid characters (byte 0xe9 at character 12)",
        ),
        ("u\n\n@entity1 here\n\n \n\n@entity1\n\n", "an empty question"),
    ],
)
def test_bad_question_files(content, got, tmp_path):
    write_cnn(tmp_path / "cnn")
    damaged = content.encode("utf-8", errors="surrogateescape")
    path = put(tmp_path / "cnn/test/0001.question", damaged)
    error = refused("cnn", data_dir=tmp_path)
    assert error.where == f"{path}: row 1"
    assert got in error.got
    assert len(read_corpus("cnn", data_dir=tmp_path, on_bad_row="skip").skipped) == 1
