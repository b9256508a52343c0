"""Whatever holds texts, labels and names, each way in reads it alike or refuses it in one line."""

import contextlib
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnaudit.core import AttnauditError
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.texts import read_texts
from attnaudit.plans.spec import RunSpec
from attnaudit.torch import collect
from attnaudit.trace import Trace
from attnaudit.tracing.judged import JudgeOptions, collect_scores
from attnaudit.tracing.settings import ReplacementSettings
from tests.corpora.test_frames import kinds
from tests.torch.test_pooling import BATCHES, made
from tests.traces import make_trace

few = settings(max_examples=50, deadline=None, derandomize=True)
TRACE = make_trace(3, [2] * 3, 2, seed=1, rationale=False)
COLUMNS: dict[str, Any] = {name: TRACE.table[name].to_list() for name in TRACE.table.columns}
TEXTS = [f"the {word} film" for word in ("good", "bad") * 20]
LABELS = ["pos", "neg"] * 20
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(
        [10**30, b"x", "\ud800", "a\0", np.float32(1), np.str_("b"), {1}, object(), 1j]
    )
)
ANYTHING = st.recursive(
    LEAVES,
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 2), parts, max_size=3)
        | st.lists(st.integers(0, 2), max_size=3).map(np.array)
        | st.lists(st.text(max_size=2), max_size=3).map(pd.Series)
        | st.lists(st.text(max_size=2), max_size=3).map(iter)
        | st.lists(st.floats(width=32), max_size=3).map(torch.tensor)
    ),
    max_leaves=5,
)


def made_trace(**changed):
    names = {"activation": "softmax", "class_names": ["a", "b"], "metadata": {}}
    return Trace.from_arrays(**{**names, **COLUMNS, **changed})


def pooled(**changed):
    return collect(made(outputs=3), BATCHES[:1], attention="pool", **changed)


def judged(texts=("a good film", "bad"), scores=((1, 2, 3), (1,)), **options):
    def predict(asked):
        return np.tile([0.4, 0.6], (len(asked), 1))

    return collect_scores(predict, texts, scores, JudgeOptions(**options))


WAYS_IN = {
    "class names of arrays": lambda value: made_trace(class_names=value),
    "metadata of arrays": lambda value: made_trace(metadata={"a": value}),
    "tokens of arrays": lambda value: made_trace(tokens=value),
    "labels of arrays": lambda value: made_trace(label=value),
    "attention of arrays": lambda value: made_trace(alpha=value),
    "a score of arrays": lambda value: made_trace(importance_x=value),
    "class names of a module": lambda value: pooled(class_names=value),
    "labels of a module": lambda value: collect(
        made(outputs=3), [(*BATCHES[0][:2], value)], attention="pool"
    ),
    "labels of judged texts": lambda value: judged(labels=value),
    "class names of judged texts": lambda value: judged(class_names=value),
    "judged texts": lambda value: judged(texts=value),
    "scores of judged texts": lambda value: judged(scores=value),
    "a score of judged texts": lambda value: judged(scores={"mine": value}),
    "texts": read_texts,
    "a list of texts": lambda value: read_texts([value, "a film"]),
    "pairs of texts": lambda value: read_texts([("a film", value)]),
    "dictionaries": lambda value: read_texts([{"text": "a film", "label": value}] * 3),
    "splits": lambda value: read_texts({"train": value, "test": value}),
    "a corpus": read_corpus,
    "labels of a corpus": lambda value: read_corpus({"text": TEXTS, "label": [value] * 40}),
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] * ("judged" in way)) for way in WAYS_IN]
)
@few
@given(value=ANYTHING)
def test_anything_is_read_or_refused_in_one_line(way, value):
    with contextlib.suppress(AttnauditError):  # which are printable lines by construction
        WAYS_IN[way](value)


@pytest.mark.parametrize("way", ["arrays", "a module", "judged texts"])
def test_blank_names_of_classes_are_refused(way):
    names = ["a", "b", " "] if way == "a module" else ["a", " "]
    with pytest.raises(AttnauditError, match="different names"):
        WAYS_IN[f"class names of {way}"](names)


# Python counts True as 1.
BOOLEANS = {
    "labels of arrays": lambda: made_trace(label=[0, True, None]),
    "places in arrays": lambda: made_trace(head=[True] * 3),
    "lists of places in arrays": lambda: made_trace(word_id=[[0, True]] * 3),
    "labels of a module": lambda: WAYS_IN["labels of a module"]([True] * len(BATCHES[0][1])),
    "the output of a module": lambda: pooled(output=True),
    "labels of judged texts": lambda: judged(scores={"m": [[1, 2, 3], [1]]}, labels=[True, 0]),
    "the batch of judged texts": lambda: JudgeOptions(batch=True),
    "copies": lambda: ReplacementSettings(texts=True),
    "a row": lambda: TRACE.tokens(True),
    "rows": lambda: TRACE.take(np.array([True, False, True])),
    "a text": lambda: TRACE.heatmap(True),
    "the seed of a corpus": lambda: read_corpus({"text": TEXTS, "label": LABELS}, seed=True),
    "the seed of a run": lambda: RunSpec.of("sst", seed=True),
    "a setting": lambda: RunSpec.of("sst", settings={"training.epochs": True}),
    "an option of a corpus": lambda: RunSpec.of("sst", min_df=True),
}


@pytest.mark.parametrize("way", BOOLEANS)
def test_booleans_are_no_whole_numbers(way):
    with pytest.raises(AttnauditError, match=r"(?i)true"):
        BOOLEANS[way]()


@kinds
def test_tables_of_equal_content_are_the_same_texts(make):
    texts = read_texts(make({"text": TEXTS, "label": LABELS}))
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    assert texts.label is not None
    assert (texts.text, texts.class_names) == (TEXTS, ("neg", "pos"))
    np.testing.assert_array_equal(texts.label, read_texts(rows).label)


@pytest.mark.parametrize("read", [read_corpus, read_texts])
def test_a_query_that_fails_is_refused_in_one_line(read, tmp_path):
    with pytest.raises(AttnauditError, match="expected a query"):
        read(pl.scan_csv(tmp_path / "missing.csv"))


@pytest.mark.parametrize("names", [[0, 1], [("a", "text"), ("a", "label")]])
@pytest.mark.parametrize("read", [read_corpus, read_texts])
def test_columns_that_pandas_numbers_or_nests_are_named_in_one_line(read, names):
    table = pd.DataFrame(dict(enumerate((TEXTS, LABELS)))).set_axis(names, axis="columns")
    with pytest.raises(AttnauditError, match="expected"):
        read(table)


@pytest.mark.parametrize("hold", [tuple, np.array, pd.Series, pl.Series, pa.array])
def test_containers_of_equal_content_make_equal_traces(hold):
    columns = {name: hold(COLUMNS[name]) for name in ("instance", "label", "prediction", "alpha")}
    trace = made_trace(class_names=hold(["a", "b"]), **columns)
    assert trace.table.equals(made_trace().table)
    assert read_texts(hold(TEXTS)).text == TEXTS


@pytest.mark.parametrize("hold", [list, np.array, torch.tensor, pd.Series, pl.Series])
def test_labels_of_a_module_are_read_from_any_container(hold):
    inputs, tokens, *_ = BATCHES[0]
    numbers = [k % 3 for k in range(len(tokens))]
    trace = collect(made(outputs=3), [(inputs, tokens, hold(numbers))], attention="pool")
    assert trace.table["label"].to_list() == numbers
