"""Questions on stories: what supports an answer is marked exactly, and a story that is damaged is not trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import Corpus, read_corpus
from attnaudit.corpora.named.reading import story_questions

from .corpus_files import jsonl, put, stories, write_babi

STORY = """1 Anna took the ball.
2 Bert went out.
3 Where is Bert? \tout\t2
4 Anna went to the garden.
5 Where is the ball? \tgarden\t4 1
"""


def marked(corpus: Corpus, split: str) -> list[str]:
    """The marked words of every row."""
    part = corpus.splits[split]
    assert part.rationale is not None
    rows = zip(part.tokens, part.rationale, strict=True)
    return [
        " ".join(word for word, mark in zip(tokens, marks, strict=True) if mark)
        for tokens, marks in rows
    ]


def test_facts_before_a_question_and_those_that_support_it(tmp_path: Path) -> None:
    questions = [found for _, found in story_questions(put(tmp_path / "a.txt", STORY)) if found]
    assert [found.passage for found in questions] == [
        "Anna took the ball. Bert went out.",
        "Anna took the ball. Bert went out. Anna went to the garden.",
    ]
    texts = [[found.passage[start:stop] for start, stop in found.evidence()] for found in questions]
    assert texts == [["Bert went out."], ["Anna took the ball.", "Anna went to the garden."]]


def test_a_corpus_of_stories(tmp_path: Path) -> None:
    write_babi(tmp_path / "babi1")
    corpus = read_corpus("babi1", data_dir=tmp_path)
    assert corpus.task == "question_answering"
    assert corpus.class_names == ("garden", "kitchen", "office")
    assert {name: len(split) for name, split in corpus.splits.items()} == {
        "train": 51,
        "dev": 9,
        "test": 18,
    }
    assert "train+dev has 60 rows where the published corpus has 10000" in corpus.notes
    test = corpus.splits["test"]
    assert test.question is not None
    assert test.candidates is None
    assert test.question[0] == ["where", "is", "bert", "?"]
    for tokens, question, label, support in zip(
        test.tokens, test.question, test.label, marked(corpus, "test"), strict=True
    ):
        verb = "walked" if len(tokens) > 12 else "went"
        assert support == f"{question[2]} {verb} to the {corpus.class_names[label]} ."
        assert support in " ".join(tokens)


def test_a_cut_reaches_the_rationale(tmp_path: Path) -> None:
    write_babi(tmp_path / "babi1")
    split = read_corpus("babi1", data_dir=tmp_path, max_tokens=8).splits["train"]
    assert split.rationale is not None
    assert {
        (len(tokens), len(marks))
        for tokens, marks in zip(split.tokens, split.rationale, strict=True)
    } == {(8, 8)}


def test_the_three_tasks_do_not_mix(tmp_path: Path) -> None:
    for task, train in ((1, 30), (2, 36), (3, 42)):
        write_babi(tmp_path / "babi", task, train)
    assert [
        sum(len(split) for split in read_corpus(f"babi{task}", data_dir=tmp_path).splits.values())
        for task in (1, 2, 3)
    ] == [
        78,
        90,
        102,
    ]


def test_an_answer_that_train_lacks_is_left_out(tmp_path: Path) -> None:
    write_babi(tmp_path / "babi1")
    path = tmp_path / "babi1" / "qa1_some-facts_test.txt"
    path.write_text(path.read_text() + STORY)
    corpus = read_corpus("babi1", data_dir=tmp_path)
    assert len(corpus.splits["test"]) == 19
    assert (
        "rows of test excluded by the corpus's definition: 1 with an answer that train does not have"
        in corpus.notes
    )


BAD = [
    ("1 Where is Bert? \tout\t1\n", ["a question without a fact before it"]),
    (
        "1 Bert went out.\n2 Where is Bert? \tout\t3\n",
        ["a supporting fact 3 that is no fact before the question"],
    ),
    (
        "1 Bert went out.\n2 Where is Bert? \tout\t2\n",
        ["a supporting fact 2 that is no fact before the question"],
    ),
    (
        "1 Bert went out.\n2 Where is Bert? \tout\tone\n",
        ["a supporting fact 'one' where a line number was expected"],
    ),
    (
        f"1 Bert went out.\n2 Where is Bert? \tout\t{'9' * 5000}\n",
        [f"a supporting fact '{'9' * 20}' where a line number was expected"],
    ),
    ("1\udcff Bert went out.\n", ["line number '1\\udcff' where 7 was expected"]),
    (
        "1 Bert went out.\n2 Where is Bert? \tout\t-1\n",
        ["a supporting fact '-1' where a line number was expected"],
    ),
    (
        "1 Bert went out.\n2 Where is Bert? \tout\n",
        ["2 fields where question, answer and supporting facts were expected"],
    ),
    ("1 Bert went out.\n2 Where is Bert? out 1\n", ["a question without a tab before its answer"]),
    ("1 Bert went out.\n3 Where is Bert? \tout\t1\n", ["line number '3' where 2 was expected"]),
    ("Bert went out.\n", ["line number 'Bert' where 7 was expected"]),
    (
        "1\n2 Where is Bert? \tout\t1\n",
        ["a line number without a fact", "a question of a story with a bad line before it"],
    ),
    ("1 Bert went out.\n2 Where is Be", ["a story that ends without a question"]),
    ("1 Bert went out.\n2 Where is Bert? \t\t1\n", ["no label (empty)"]),
    (
        "1 Caf\udce9 is out.\n2 Where is Bert? \tout\t1\n",
        ["invalid UTF-8 (byte 0xe9 at character 3)"],
    ),
]


@pytest.mark.parametrize(("damaged", "reasons"), BAD)
def test_damaged_stories(damaged: str, reasons: list[str], tmp_path: Path) -> None:
    write_babi(tmp_path / "babi1", train=9)
    path = tmp_path / "babi1" / "qa1_some-facts_train.txt"
    path.write_bytes(path.read_bytes() + damaged.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_corpus("babi1", data_dir=tmp_path)
    told = str(caught.value)
    assert told.startswith(
        f"read corpus: {path}: row 18 (line {55 + damaged[:-1].count(chr(10)) if len(reasons) == 1 else 55}): {reasons[0]}"
    )
    assert told.endswith(
        "expected a text, a question and a label; correct the row, or skip such rows: --on-bad-row skip"
    )
    corpus = read_corpus("babi1", data_dir=tmp_path, on_bad_row="skip")
    assert [row.reason for row in corpus.skipped] == reasons
    assert len(corpus.splits["train"]) + len(corpus.splits["dev"]) == 18


def test_a_bad_question_harms_no_other(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", STORY.replace("\tout\t2", "\tout\t9"))
    rows = list(story_questions(path))
    assert [found is None for _, found in rows] == [True, False]


def pack(folder: Path, **changed: object) -> None:
    """The jsonl form of the same questions."""
    for split, number, seed in (("train", 30, 0), ("test", 9, 1)):
        path = put(folder / "questions.txt", stories(number, seed))
        found = [
            {
                "document": question.passage, "question": question.text, "answer": question.answer,
                "sentences": list(question.facts.values()), "sentence_ids": list(question.facts), "supporting_ids": list(question.support),
            }
            for _, question in story_questions(path) if question
        ]  # fmt: skip
        path.unlink()
        found[0] |= changed if split == "train" else {}
        jsonl(folder / f"{split}.jsonl", found)


def test_text_and_jsonl_are_the_same_corpus(tmp_path: Path) -> None:
    write_babi(tmp_path / "one" / "babi1")
    pack(tmp_path / "two" / "babi1")
    one, two = (read_corpus("babi1", data_dir=tmp_path / name) for name in ("one", "two"))
    assert one.fingerprint == two.fingerprint
    assert np.array_equal(one.splits["dev"].instance, two.splits["dev"].instance)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"supporting_ids": [3]}, "a supporting fact 3 that is no fact before the question"),
        ({"sentences": ["Another one."]}, "sentences that do not make the document"),
        ({"sentence_ids": [1]}, "sentences that do not make the document"),
        (
            {"supporting_ids": [[1]]},
            "supporting_ids '[[1]]' where a list of line numbers was expected",
        ),
        ({"supporting_ids": "1"}, "supporting_ids '1' where a list of line numbers was expected"),
        (
            {"supporting_ids": [True]},
            "supporting_ids '[True]' where a list of line numbers was expected",
        ),
        ({"sentence_ids": [{}]}, "sentence_ids '[{}]' where a list of line numbers was expected"),
        ({"sentences": "Anna."}, "sentences of type str where a list was expected"),
        ({"question": None}, "no question (null)"),
        ({"question": 3}, "a question of type int"),
        ({"document": None}, "sentences that do not make the document"),
    ],
)
def test_bad_objects(changed: dict, reason: str, tmp_path: Path) -> None:
    pack(tmp_path / "babi1", **changed)
    with pytest.raises(InputError, match=r"row 0 \(line 1\): ") as caught:
        read_corpus("babi1", data_dir=tmp_path)
    assert reason in str(caught.value)
    assert read_corpus("babi1", data_dir=tmp_path, on_bad_row="skip").skipped[0].reason == reason
