"""Copies of texts with words replaced: which words come from where, and what they do not depend on."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Inputs
from attnaudit.trace import Trace, concatenate
from attnaudit.tracing.replacement import Donors, chosen_texts, copies_of, draw_subsets
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.tracing.texts import Replacement, collect_shards
from tests.models.tiny import of_sentences, tiny_model, tiny_split, trace_of
from tests.traces import assert_same_copies

LENGTHS = [5, 1, 17, 3, 9, 30, 2, 8]
SETTINGS = ReplacementSettings(copies=20)


class Places:
    """A model of the texts 100 · row + position: its logit adds 2^position for a word of another text.

    It refuses words that come from another position.
    """

    outputs = 1

    def __init__(self, row):
        self.row = row

    def parameters(self):
        yield torch.zeros(1)

    def __call__(self, batch):
        words = batch.ids[:, 1:-1]
        places = torch.arange(words.shape[1])
        assert (words % 100 == places).all()
        moved = words // 100 != self.row
        return SimpleNamespace(logits=(moved * 2.0**places).sum(dim=1, keepdim=True))

    def probabilities(self, logits):
        return logits


def test_replaced_words_come_from_the_same_position_of_other_texts():
    ids = Ragged.from_rows([100 * row + np.arange(12 + row) for row in range(5)])
    for row in range(4):  # no other text is as long as the last
        replacement = Replacement(
            model=Places(row), inputs=Inputs(ids), donors=Donors(ids, np.arange(5)), budget=4096,
            keys=(np.arange(5),), outputs=1, settings=ReplacementSettings(texts=5, copies=200),
        )  # fmt: skip
        columns = replacement.columns(np.array([row]))
        lost, runs = columns["replaced"][0].to_list(), columns["replaced_prediction"][0].to_list()
        assert len(lost) == 240
        assert [sum(2.0**t for t in copy) for copy in lost] == [run[0] for run in runs]
        # Few words, many, and each of them about half of the time.
        share = np.array([len(copy) for copy in lost]) / (12 + row)
        assert share.min() < 0.2 < 0.8 < share.max()
        counts = np.bincount(np.concatenate(lost), minlength=12 + row)
        assert (np.abs(counts / 240 - 0.5) < 0.15).all()


def test_every_other_text_that_is_long_enough_gives_words():
    words = Ragged.from_rows(
        [np.arange(length) + 100 * row for row, length in enumerate([3, 6, 6, 9])]
    )
    donors = Donors(words, np.arange(4))
    drawn = donors.draw(1, 4000, np.random.default_rng(0))
    assert {*(drawn[:, 0] // 100).tolist()} == {0, 2, 3}
    assert {*(drawn[:, 5] // 100).tolist()} == {2, 3}
    assert (drawn % 100 == np.arange(6)).all()
    last = donors.draw(3, 4000, np.random.default_rng(0))
    # No other text has nine words: any word of any other text may come.
    assert {*(last[:, 8] // 100).tolist()} == {0, 1, 2}


@pytest.mark.parametrize("kind", ["text", "pair", "sentences", "heads"])
def test_nothing_but_the_texts_matters(kind):
    encoder = "han" if kind == "sentences" else "transformer" if kind == "heads" else "bilstm"
    if kind == "sentences":
        split = of_sentences([[4], [3, 1], [2, 9, 5], [1] * 7, [6, 2, 9]], 3)
        model = tiny_model("bigru", "additive", 3, hierarchical=True)
    else:
        split = tiny_split(LENGTHS, 3, has_question=kind == "pair")
        model = tiny_model(encoder, "additive", 3, has_question=kind == "pair")
    whole = trace_of(model, split, replacement=SETTINGS)
    order = np.random.default_rng(0).permutation(len(split))
    for other in (
        trace_of(model, split, replacement=SETTINGS, budget=1, shard_rows=3),
        concatenate(
            [
                trace_of(model, split, replacement=SETTINGS, part=part)
                for part in np.split(np.arange(len(split)), [3])
            ]
        ),
        trace_of(model, split.take(order), replacement=SETTINGS),
    ):
        head = other.array("head") if other.has("head") else np.zeros(len(other))
        same = other.take(np.lexsort((other.instance, head)))
        assert_same_copies(same, whole)


def test_texts_are_drawn_by_their_numbers():
    settings = ReplacementSettings(texts=30)
    instance = np.arange(100)
    chosen = chosen_texts([instance], settings)
    assert chosen.sum() == 30
    order = np.random.default_rng(0).permutation(100)
    assert (chosen_texts([instance[order]], settings) == chosen[order]).all()
    assert not chosen_texts([np.array([7])], settings).any()
    assert [copies_of(n, settings) for n in (20, 50, 100, 200, 500)] == [240, 240, 120, 60, 60]


def test_every_copy_loses_a_word():
    lost = draw_subsets(3, 300, np.random.default_rng(0))
    assert lost.any(axis=1).all()
    assert lost.mean() == pytest.approx(0.55, abs=0.07)


def test_a_text_that_is_not_drawn_has_no_copies(tmp_path):
    model, split = tiny_model("none", "additive"), tiny_split(LENGTHS)
    shards = list(
        collect_shards(model, split, replacement=ReplacementSettings(texts=2), shard_rows=2)
    )
    assert sum(len(shard) - shard.table["replaced"].null_count() for shard in shards) == 2
    aa_trace = Trace.read(shards[0].write(tmp_path).parent)
    assert aa_trace.table.equals(shards[0].table)
    none = trace_of(model, split, replacement=ReplacementSettings(texts=0))
    assert not none.has("replaced")


@pytest.mark.parametrize(("speed", "said"), [(1000, True), (100_000, False)])
def test_long_work_says_its_runs_and_seconds_first(speed, said, monkeypatch):
    """By a clock that counts the words that the model reads, ``speed`` a second."""
    model, split = tiny_model("average", "additive"), tiny_split([12, *[5, 30] * 20])
    words, told = 0, []

    def count(module, given):
        nonlocal words
        words += int((given[0].lengths - 2).sum())

    model.register_forward_pre_hook(count)
    monkeypatch.setattr("attnaudit.tracing.texts.cores", lambda: 1)
    monkeypatch.setattr("attnaudit.tracing.replacement.time.monotonic", lambda: words / speed)
    replacement = Replacement.of(
        model, split, settings=ReplacementSettings(texts=41), budget=4096,
        progress=lambda stage, done, total: told.append(stage),
    )  # fmt: skip
    columns = replacement.columns(np.arange(41))
    runs = sum(len(row) for row in columns["replaced"].to_list())
    cost = f", {runs:,} runs of the model, about {240 * 712 / speed:.0f} s" if said else ""
    assert {*told} == {f"replace words{cost}"}
    assert len(told) > 1, "it is said after a part of the work"
