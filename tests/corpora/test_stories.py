"""Questions on stories: what supports an answer is marked exactly, and a story that is damaged is not trusted."""

import numpy as np
import pytest

from attnaudit.corpora.formats.readers import stories as read_stories
from attnaudit.corpora.read import read_corpus

from .corpus_files import jsonl, put, stories, write_babi
from .writing import marked, refused, sizes

STORY = """1 Anna took the ball.
2 Bert went out.
3 Where is Bert? \tout\t2
4 Anna went to the garden.
5 Where is the ball? \tgarden\t4 1
"""


def test_facts_before_a_question_and_those_that_support_it(tmp_path):
    rows = list(read_stories(put(tmp_path / "a.txt", STORY)))
    passages = [str(row.text) for row in rows]
    assert passages == [
        "Anna took the ball. Bert went out.",
        "Anna took the ball. Bert went out. Anna went to the garden.",
    ]
    texts = [
        [text[start:stop] for start, stop in row.rationale]  # type: ignore[union-attr]
        for text, row in zip(passages, rows, strict=True)
    ]
    assert texts == [["Bert went out."], ["Anna took the ball.", "Anna went to the garden."]]


def test_a_corpus_of_stories(tmp_path):
    write_babi(tmp_path / "babi1")
    corpus = read_corpus("babi1", data_dir=tmp_path)
    assert corpus.task == "question_answering"
    assert corpus.class_names == ("garden", "kitchen", "office")
    assert sizes(corpus) == [51, 9, 18]
    assert "train+dev has 60 rows where the published corpus has 10000" in corpus.notes
    test = corpus.splits["test"]
    assert test.question is not None
    assert test.candidates is None
    assert test.question[0] == ["where", "is", "bert", "?"]
    for tokens, question, label, support in zip(
        test.tokens, test.question, test.label, map(" ".join, marked(test)), strict=True
    ):
        verb = "walked" if len(tokens) > 12 else "went"
        assert support == f"{question[2]} {verb} to the {corpus.class_names[label]} ."
        assert support in " ".join(tokens)


def test_an_answer_that_train_lacks_is_left_out(tmp_path):
    write_babi(tmp_path / "babi1")
    path = tmp_path / "babi1/qa1_some-facts_test.txt"
    path.write_text(path.read_text() + STORY)
    corpus = read_corpus("babi1", data_dir=tmp_path)
    assert len(corpus.splits["test"]) == 19
    assert (
        "rows of test excluded by the corpus's definition: 1 with an answer that train does not have"
        in corpus.notes
    )


BAD = [
    ("1 Where is Bert? \tout\t1\n", 1),
    ("1 Bert went out.\n2 Where is Bert? \tout\t3\n", 1),
    (f"1 Bert went out.\n2 Where is Bert? \tout\t{'9' * 5000}\n", 1),
    ("1 Bert went out.\n2 Where is Bert? out 1\n", 1),
    ("1 Bert went out.\n3 Where is Bert? \tout\t1\n", 1),
    ("1\n2 Where is Bert? \tout\t1\n", 2),
    ("1 Bert went out.\n2 Where is Be", 1),
    ("1 Caf\udce9 is out.\n2 Where is Bert? \tout\t1\n", 1),
]


@pytest.mark.parametrize(("damaged", "bad"), BAD)
def test_damaged_stories(damaged, bad, tmp_path):
    write_babi(tmp_path / "babi1", train=9)
    path = tmp_path / "babi1/qa1_some-facts_train.txt"
    path.write_bytes(path.read_bytes() + damaged.encode("utf-8", errors="surrogateescape"))
    line = 55 + damaged[:-1].count("\n") if bad == 1 else 55
    assert refused("babi1", data_dir=tmp_path).where == f"{path}: row 18 (line {line})"
    corpus = read_corpus("babi1", data_dir=tmp_path, on_bad_row="skip")
    assert len(corpus.skipped) == bad
    assert len(corpus.splits["train"]) + len(corpus.splits["dev"]) == 18


def pack(folder, **changed):
    """The jsonl form of the same questions."""
    for split, number, seed in (("train", 30, 0), ("test", 9, 1)):
        found = []
        facts = {}
        for line in stories(number, seed).splitlines():
            place, _, rest = line.partition(" ")
            facts = {} if place == "1" else facts
            question, *answer = rest.split("\t")
            if not answer:
                facts[int(place)] = rest
                continue
            texts = {"document": " ".join(facts.values()), "question": question.strip()}
            support = {"answer": answer[0], "supporting_ids": [int(answer[1])]}
            kept = {"sentences": list(facts.values()), "sentence_ids": list(facts)}
            found.append({**texts, **support, **kept})
        found[0] |= changed if split == "train" else {}
        jsonl(folder / f"{split}.jsonl", found)


def test_text_and_jsonl_are_the_same_corpus(tmp_path):
    write_babi(tmp_path / "one/babi1")
    pack(tmp_path / "two/babi1")
    one, two = (read_corpus("babi1", data_dir=tmp_path / name) for name in ("one", "two"))
    assert one.fingerprint == two.fingerprint
    assert np.array_equal(one.splits["dev"].instance, two.splits["dev"].instance)


@pytest.mark.parametrize(
    "changed",
    [
        {"supporting_ids": [3]},
        {"supporting_ids": 1},
        {"sentences": ["Another one."]},
        {"sentence_ids": [1]},
        {"sentence_ids": [{}]},
        {"question": None},
    ],
)
def test_bad_objects(changed, tmp_path):
    pack(tmp_path / "babi1", **changed)
    path = tmp_path / "babi1/train.jsonl"
    assert refused("babi1", data_dir=tmp_path).where == f"{path}: row 0 (line 1)"
    skipped = read_corpus("babi1", data_dir=tmp_path, on_bad_row="skip").skipped
    assert [row.row for row in skipped] == [0]
