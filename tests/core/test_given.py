"""Names of classes, numbers, metadata and paths are read alike, whatever object of a caller holds them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnaudit.core import InputError, expanded
from attnaudit.core.given import known, named_outputs, plain, plain_metadata

HOLDERS: list[Callable[[list[Any]], Any]] = [list, tuple, np.array, pd.Series, pl.Series, pa.array]
NAMES = st.lists(st.text(st.characters(categories=["L"]), min_size=1), min_size=2, unique=True)


@given(NAMES, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_names_of_outputs_are_in_the_order_of_their_numbers(names: list[str], random: Any):
    for hold in HOLDERS:
        assert named_outputs("test", "names", hold(names), len(names)) == names
    pairs = list(enumerate(names))
    random.shuffle(pairs)
    assert named_outputs("test", "names", dict(pairs)) == names
    numbers = {name: np.int64(number) for number, name in pairs}
    assert named_outputs("test", "names", numbers) == names


@pytest.mark.parametrize(
    "wrong",
    [
        "ab", {"a", "b"}, {0: "a"}, {1: "a", 2: "b"}, {"a": 0, "b": 0}, {0: 1, 1: 0}, {0.5: "a", 1: "b"},
        ["a", "a"], ["a", None], ["a"], ["a", ""], {0: "a", 1: " \n"}, {}, 3, None, iter("ab"),
    ],
)  # fmt: skip
def test_names_that_say_no_order_are_refused(wrong: Any):
    with pytest.raises(InputError, match="names"):
        named_outputs("test", "names", wrong, 2)


def test_values_are_turned_into_plain_python():
    for hold in (*HOLDERS, torch.tensor):
        assert list(plain(hold([1, 2]))) == [1, 2]
    assert [type(plain(hold([1])[0])) for hold in (np.array, torch.tensor)] == [int, int]
    stream = type(
        "Stream", (), {"to_list": lambda _: pytest.fail("a stream was read to its end")}
    )()
    assert plain(stream) is stream
    assert [known(label) for label in (2.0, 0.5, math.nan, None, "a")] == [2, 0.5, None, None, "a"]


def test_metadata_hold_plain_values_or_are_refused_with_their_key():
    values = {"rate": np.float32(0.5), "at": Path("a/b"), "of": {"sizes": np.arange(2)}}
    assert plain_metadata("test", values) == {"rate": 0.5, "at": "a/b", "of": {"sizes": [0, 1]}}
    for wrong in ({1}, b"x", object()):
        with pytest.raises(InputError, match=r"metadata of kept\[1\]"):
            plain_metadata("test", {"of": {"kept": [0, wrong]}})
    for key in (1, "\ud800"):
        with pytest.raises(InputError, match="key"):
            plain_metadata("test", {"of": {key: "a"}})


def test_values_within_themselves_and_what_no_file_holds_are_refused():
    endless: list[Any] = []
    endless.append({"of": endless})
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    wrong: Any
    for wrong in (endless, deep, "\ud800", np.longdouble(1)):
        with pytest.raises(InputError, match=r"metadata|read values"):
            plain_metadata("test", {"of": wrong})
    for wrong in ("abc", ["a"]):
        with pytest.raises(InputError, match="mapping"):
            plain_metadata("test", wrong)
    with pytest.raises(InputError, match="deep"):
        named_outputs("test", "names", deep)


def test_a_path_begins_at_home_only_if_its_first_part_is_a_tilde(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    pairs = {"~/a/b": "/home/me/a/b", "~": "/home/me", "~b": "~b", "a/~/b": "a/~/b", "/~": "/~"}
    assert {path: str(expanded(path)) for path in pairs} == pairs


def test_the_index_of_a_series_says_which_output_a_name_is_of():
    for series in (
        pd.Series(["neg", "pos"]),
        pd.Series(["pos", "neg"], index=[1, 0]),
        pd.Series([1, 0], index=["pos", "neg"]),
    ):
        assert named_outputs("audit", "class_names", series, 2) == ["neg", "pos"]
    with pytest.raises(InputError):
        named_outputs("audit", "class_names", memoryview(b"ab"), 2)
