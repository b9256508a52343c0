"""Texts for a transformer are read as they are: without labels, splits or rows that nothing needs, from files and from a program."""

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch.utils.data import Dataset

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.hf.classes import outputs_of
from attnaudit.hf.encode import encode, notes_of
from attnaudit.hf.texts import read_texts
from attnaudit.hf.trace import collect
from tests.hf.classes import tiny
from tests.hf.command import save
from tests.hf.tokenizing import small, tokenizer

ROWS = [("The  baker", "b"), ("a mill", "a"), ("it's FINE", "b")]


def table(path, *rows, header="text,label"):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def read(texts):
    return (
        texts.text,
        None if texts.label is None else texts.label.tolist(),
        texts.class_names,
        set(texts.split),
    )


EXPECTED = (["The  baker", "a mill", "it's FINE"], [1, 0, 1], ("a", "b"), {"all"})
WITHOUT = (EXPECTED[0], None, (), {"all"})


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_is_read_whole_with_its_labels_or_without(ending, tmp_path):
    frame = pl.DataFrame({"text": EXPECTED[0], "label": ["b", "a", "b"]})
    for name, content, expected in (
        ("with", frame, EXPECTED),
        ("without", frame.drop("label"), WITHOUT),
    ):
        path = save(content, tmp_path / f"{name}.{ending}")
        assert read(read_texts(path)) == expected
    assert (
        "no labels (column 'label'), so how well the model predicts is not measured"
        in read_texts(path).notes[0]
    )
    with pytest.raises(InputError, match="expected one column 'sentiment'"):
        read_texts(path, label="sentiment")


def test_rows_without_a_label_are_kept_and_counted(tmp_path):
    texts = read_texts(table(tmp_path / "mine.csv", ("one", "b"), ("two", ""), ("three", "null")))
    # A label null may be the name of an output, which is known later.
    assert read(texts)[1:3] == ([0, -1, 1], ("b", "null"))
    assert texts.notes == ("1 of 3 rows without a label, which predictions are not compared with",)


def test_no_file_of_another_split_is_opened(tmp_path):
    folder = table(tmp_path / "mine/test.csv", *ROWS[:1]).parent
    assert read(read_texts(folder)) == (["The  baker"], [0], ("b",), {"test"})
    table(folder / "train.csv", ("", "a"))  # a bad row
    assert read_texts(folder).text == ["The  baker"]
    with pytest.raises(InputError, match=r"train.csv: row 0 .*: an empty text"):
        read_texts(folder, split="train")
    with pytest.raises(
        InputError, match=r"--split dev: test, train among test.csv, train.csv; expected a file dev"
    ):
        read_texts(folder, split="dev")
    (folder / "test.csv").rename(folder / "dev.csv")
    assert read_texts(folder).notes == ("no file of test: these are the texts of dev",)
    (folder / "dev.csv").rename(folder / "other.csv")
    (folder / "train.csv").unlink()
    with pytest.raises(
        InputError, match=r"mine: no split among other\.csv; expected a file test with one of"
    ):
        read_texts(folder)


def test_pairs_need_one_split_and_have_any_length(tmp_path):
    long = "mill " * 300
    for name, lines in {
        "test.src": [long, "one"],
        "test.trg": [long, "two"],
        "train.src": [""],
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    texts = read_texts(tmp_path, "seq2seq")
    assert (texts.text, texts.second, set(texts.split)) == (
        [long.strip(), "one"],
        [long.strip(), "two"],
        {"test"},
    )
    with pytest.raises(InputError, match="300 words, where 1 to 100"):
        read_texts(tmp_path, "seq2seq", max_words=100)
    with pytest.raises(InputError, match="--split dev: pairs of test, train"):
        read_texts(tmp_path, "seq2seq", split="dev")
    model = small("BartForConditionalGeneration")
    encoded = encode(model, tokenizer("pieces", "$A [SEP]"), texts)
    assert "1 of 2 texts is longer than 64 tokens, the limit of the model, and cut" in notes_of(
        texts, encoded, None
    )


def test_what_a_program_has_is_read(tmp_path):
    frame = pl.DataFrame({"text": EXPECTED[0], "label": ["b", "a", "b"]})
    assert read(read_texts(frame)) == EXPECTED
    assert read(read_texts(frame.rename({"text": "body"}), text="body")) == EXPECTED
    assert read(read_texts(frame.drop("label"), "causal-lm")) == WITHOUT
    assert read(read_texts(EXPECTED[0])) == WITHOUT
    pairs = [("the baker", "a mill"), ("one", "two")]
    assert read_texts(pairs).second == read_texts(pairs, "seq2seq").second == ["a mill", "two"]
    texts = read_texts(frame)
    assert read_texts(texts) is texts
    items = [{"body": text, "label": label} for text, label in frame.rows()]
    assert read(read_texts(items, text="body")) == EXPECTED
    assert read(read_texts(Items(items), text="body")) == EXPECTED
    model = small()
    options = {"layers": "all", "heads": [0], "scores": ["gradient"]}
    plain = Items([{"body": text} for text in EXPECTED[0]])
    trace = collect(model, tokenizer("wordpiece"), plain, text="body", **options)
    assert set(trace.instance) == {0, 1, 2}


class Items(Dataset):
    """Data as torch's loaders and the Trainer read them."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row] | {"weight": torch.tensor([1.0])}


def test_a_corpus_is_read_in_its_test_split(tmp_path):
    path = table(tmp_path / "mine.csv", *[(f"Number {row}", "ab"[row % 2]) for row in range(40)])
    raw, words = attnaudit.read_corpus(path, raw=True), attnaudit.read_corpus(path)
    test = raw.splits["test"]
    assert read_texts(raw).text == [row.text for row in test.raw or ()]
    assert read_texts(words).text == [" ".join(row) for row in words.splits["test"].tokens]
    assert "joined by blanks" in read_texts(words).notes[-1]
    assert read_texts(raw, "causal-lm", split="dev").label is None
    with pytest.raises(InputError, match="mine: a Corpus for a model for seq2seq; expected pairs"):
        read_texts(raw, "seq2seq")


CLASSIFIER, WRITER, BOTH = "classification", "causal-lm", "seq2seq"


@pytest.mark.parametrize(
    ("given", "kind", "line"),
    [
        (5, CLASSIFIER, "corpus: a int; expected a path, the name of a corpus, a Corpus"),
        ([], CLASSIFIER, "an empty list; expected a path"),
        (["one", " "], CLASSIFIER, r"corpus\[1\]: ' '; expected a text"),
        (
            ["one", ("two", "three")],
            CLASSIFIER,
            r"corpus\[1\]: \('two', 'three'\); expected a text",
        ),
        ([("one",)], CLASSIFIER, r"corpus\[0\]: \('one',\); expected a text and its second text"),
        (["one"], BOTH, "texts alone for an encoder–decoder"),
        ("a good film", CLASSIFIER, r"'a good film', which is no file; .* into a list: \[text\]"),
        ([{"input_ids": [2, 3]}], CLASSIFIER, "texts, as before they were tokenised; .*text=NAME"),
        ([{"sentence": "one"}], CLASSIFIER, r"text=sentence \(text= in Python\)"),
        (["one"], "question-answering", r"a question for each: .*\(question= in Python\)"),
        (pl.DataFrame({"body": ["one"]}), CLASSIFIER, "columns body; expected one column 'text'"),
        (pl.DataFrame({"text": ["one", ""]}), CLASSIFIER, "DataFrame: row 1: an empty text"),
    ],
)
def test_what_cannot_be_read_is_one_line(given, kind, line):
    with pytest.raises(InputError, match=line):
        read_texts(given, kind)


def test_classes_are_those_of_a_classifier_alone():
    model = tiny("BertForSequenceClassification")
    with pytest.raises(
        InputError, match=r"collect.classes: a model for causal-lm; expected a classifier"
    ):
        outputs_of(model, read_texts(["one"], "causal-lm"), ("a", "b"))
    model.config.num_labels = 1  # a regression has no classes, with labels or without
    with pytest.raises(InputError, match="num_labels 1, problem_type None"):
        outputs_of(model, read_texts(["one"]))


def test_texts_are_read_from_whatever_holds_them():
    table = {"text": EXPECTED[0], "label": ["b", "a", "b"]}
    rows = datasets.Dataset.from_dict(table)
    holders = (np.array(EXPECTED[0]), rows["text"], pl.Series(EXPECTED[0]), tuple(EXPECTED[0]))
    assert [read(read_texts(one)) for one in holders] == [WITHOUT] * 4
    both = datasets.DatasetDict({"train": rows, "validation": rows.select([0, 1])})
    assert read(read_texts(both, split="train")) == (*EXPECTED[:3], {"train"})
    assert read(read_texts(both))[3] == read(read_texts(both, split="validation"))[3] == {"dev"}
    with pytest.raises(InputError, match="split 'test'"):
        read_texts(both, split="test")


def test_a_stream_is_refused_unread():
    def endless():
        while True:
            yield {"text": "a mill"}

    stream = datasets.IterableDataset.from_generator(endless)
    for source in (stream, (row["text"] for row in endless())):
        with pytest.raises(InputError, match="expected a path"):
            read_texts(source)


@pytest.mark.parametrize("hold", [np.array, torch.tensor, lambda spans: [np.array(spans[0])]])
def test_spans_may_be_arrays(hold):
    frame = pd.DataFrame({"text": ["a mill"], "marked": [hold([[2, 6]])]})
    assert read_texts(frame, rationale="marked").spans == [((2, 6),)]


def test_an_unknown_option_of_collect_is_named_before_anything_runs():
    with pytest.raises(InputError, match=r"option layer: no such option; .*did you mean layers\?"):
        attnaudit.hf.collect(None, None, ["a mill"], layer="last")
