"""Some texts of a file are audited: those of the whole file, with its labels and digest."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from attnaudit.corpora.read import Draw
from attnaudit.hf.texts import read_texts
from attnaudit.plans.audit import TransformerCollect, TransformerSpec
from tests.hf.command import save

LABELS = ("no", "yes", "", "maybe")


def rows(n):
    rows = [(f"text {k} “quoted” é", LABELS[k % 7 % 4]) for k in range(n)]
    return pl.DataFrame(rows, schema=["text", "label"], orient="row")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("size", [1, 20, 200])
def test_drawn_texts_are_those_of_the_whole_file(tmp_path, kind, size):
    path = save(rows(100), tmp_path / f"texts.{kind}")
    whole, drawn = read_texts(path), read_texts(path, draw=Draw(size, 3))
    chosen = whole.take(Draw(size, 3).of(len(whole)))
    for name, value in vars(replace(chosen, drawn_from=100)).items():
        assert np.array_equal(getattr(drawn, name), value), name


@pytest.mark.parametrize(
    ("collect", "size"),
    [
        ({}, 500), ({"layers": "1"}, 500), ({"layers": "0,1"}, 50), ({"layers": "all"}, 50), ({"layers": "1", "positions": "all"}, 50),
        ({"positions": "one"}, 500), ({"layers": "all", "sample": 7}, 7),
    ],
)  # fmt: skip
def test_fewer_texts_are_drawn_of_several_layers_or_positions(collect, size):
    spec = TransformerSpec(Path("model"), "texts.csv", TransformerCollect(**collect))
    assert spec.draw == Draw(size, 0)
