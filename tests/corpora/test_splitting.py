"""Splits keep proportions, lose nothing, and depend on seed and labels only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora.prepare.gathering import stratified_split

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(
    lambda values: np.array(values, dtype=np.int32)
)
SHARES = {"dev": 0.1, "test": 0.1}


@given(LABELS, st.integers(-5, 5))
def test_every_row_is_in_one_split(label, seed):
    parts = stratified_split(label, SHARES, seed)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(label)))
    assert all((np.diff(rows) > 0).all() for rows in parts.values())
    again = stratified_split(label, SHARES, seed)
    assert all((parts[name] == again[name]).all() for name in parts)


@given(LABELS)
def test_every_class_gives_its_share_within_one_row(label):
    parts = stratified_split(label, SHARES, 0)
    for number in np.unique(label):
        total = int((label == number).sum())
        for name, share in SHARES.items():
            given_ = int((label[parts[name]] == number).sum())
            assert abs(given_ - share * total) < 1
            assert given_ >= (total > 2)
        assert (label[parts["train"]] == number).any()


def test_seeds_differ_and_classes_do_not_disturb_each_other():
    label = np.repeat([0, 1], 100)
    one, two = (stratified_split(label, SHARES, seed)["test"] for seed in (0, 1))
    assert one.tolist() != two.tolist()
    longer = stratified_split(np.concatenate([label, np.ones(50, dtype=np.int64)]), SHARES, 0)[
        "test"
    ]
    assert longer[longer < 100].tolist() == one[one < 100].tolist()
