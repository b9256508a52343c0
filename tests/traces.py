"""Random realistic traces: what a trained classifier might have left behind, without a model or a corpus."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import Activation, tvd
from attnaudit.trace import Trace
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail, TanhTail

FILLER = (
    "the", "a", "of", "and", "to", "in", "it", "that", "this", "with", "film", "movie", "story", "plot", "scene", "actor", "director",
    "which", "has", "been", "its", "for", "on", "as", "but", "from", "every", "some", "more", "than", "about", "two", "hours", "screen",
    "script", "character", "one", "into", "over", "after", "<unk>", "qqq", ",", ".", "'", "--", "&", "<b>",
)  # fmt: skip
CUES = (
    ("awful", "boring", "dull", "mess", "flat"),
    ("superb", "moving", "charming", "witty", "gem"),
    ("match", "league", "goal", "coach", "season"),
    ("market", "shares", "profit", "bank", "trade"),
    ("orbit", "cell", "virus", "planet", "theory"),
)


def make_trace(
    n=40,
    lengths=(1, 30),
    outputs=1,
    seed=0,
    *,
    sharpness=1.5,
    gradient=True,
    loo=True,
    rationale=True,
    label=True,
    candidates=False,
    split: str | None = "test",
    class_names=None,
    importance=(),
    zeros=0.0,
    hidden=None,
    copies=0,
    first_instance=0,
):
    """A trace of ``n`` rows whose tokens carry cues for their class, with attention that half follows them.

    ``lengths`` is the range of T as a pair (both ends included), or the ``n`` lengths as a list. ``outputs`` is C: 1 for one
    sigmoid, else a softmax. ``sharpness`` scales the attention scores, ``zeros`` is the share of positions whose attention is exactly 0,
    ``importance`` names further ``importance_<name>`` columns, ``hidden`` is P of a tanh tail instead of the identity, ``copies`` the number
    of copies with words replaced, which lose most where leave-one-out is large.
    """
    rng = np.random.default_rng([seed, n, outputs])
    classes = max(outputs, 2)
    counts = (
        rng.integers(lengths[0], lengths[1] + 1, n)
        if isinstance(lengths, tuple)
        else np.asarray(lengths)
    )
    gold = rng.integers(0, classes, n)
    rows = [_row(rng, int(count), int(y), classes) for count, y in zip(counts, gold, strict=True)]
    tokens, cues, relevance = zip(*rows, strict=True)
    cue = Ragged.from_rows(cues, dtype=bool)
    alpha, contribution = _attention(rng, cue, sharpness, zeros), np.concatenate(relevance)
    strength, tail = np.abs(contribution).max(axis=1), None
    if outputs == 1:
        contribution = contribution[:, 1:] - contribution[:, :1]
    if hidden is not None:
        contribution = contribution @ rng.normal(0, 1, (contribution.shape[1], hidden))
        tail = TanhTail(rng.normal(0, 2, (outputs, hidden)), rng.normal(0, 0.1, outputs))
    offset = rng.normal(0, 0.1, (1, contribution.shape[1]))
    names = list(class_names or ("negative", "positive", "sport", "business", "science")[:classes])
    columns: dict[str, Any] = {
        "class_names": names + [f"class {k}" for k in range(len(names), classes)],
        "metadata": {
            "corpus": {"name": "random", "title": "Random trace"}, "seed": seed,
            "model": {"encoder": "none", "attention": "random"}, "versions": {},
        },
        "instance": np.arange(first_instance, first_instance + n), "tokens": list(tokens),
    }  # fmt: skip
    if candidates and outputs > 1:
        allowed = rng.random((n, outputs)) < 0.7
        allowed[np.arange(n), rng.integers(0, outputs, n)] = True
        columns["candidates"] = allowed
    if split is not None:
        columns["split"] = [split] * n
    if label:
        columns["label"] = gold.tolist()
    if rationale:
        columns["rationale"] = [row.tolist() for row in cue]
    effect = _leave_one_out(trace_of(alpha, contribution, offset, tail, **columns))
    if loo:
        columns["loo"] = alpha.with_values(effect.astype(np.float32))
    if gradient:
        columns["gradient"] = _noisy(rng, alpha, strength)
    if copies:
        columns |= _replaced(rng, alpha.with_values(effect), copies, outputs)
    for name in importance:
        columns[f"importance_{name}"] = _noisy(rng, alpha, effect)
    return trace_of(alpha, contribution, offset, tail, **columns)


def _row(rng, length, gold, classes):
    """Tokens, which of them are cues, and what each says for every class."""
    tokens = [FILLER[k] for k in rng.integers(0, len(FILLER), length)]
    relevance = rng.normal(0, 0.4, (length, classes))
    planted = rng.choice(length, size=min(length, 1 + length // 12), replace=False)
    for position in planted:
        kind = gold if rng.random() < 0.85 else int(rng.integers(0, classes))
        tokens[position] = str(rng.choice(CUES[kind % len(CUES)]))
        relevance[position, kind] += rng.uniform(2, 5)
    return tokens, np.isin(np.arange(length), planted), relevance


def _attention(rng, cue, sharpness, zeros):
    scores = np.exp(sharpness * (rng.normal(size=len(cue.values)) + 1.5 * cue.values))
    dead = rng.random(len(scores)) < zeros
    dead[cue.offsets[:-1]] = False
    weights = cue.with_values(np.where(dead, 0.0, scores))
    return weights.with_values(weights.values / weights.spread(weights.sum()))


def _replaced(rng, effect, copies, outputs):
    """Copies that lose random positions, and predictions that follow what these do, with noise."""
    lost, runs = [], []
    for own in effect:
        chosen = rng.random((copies, len(own))) < rng.random((copies, 1))
        logits = rng.normal(0, 0.3, (copies, outputs))
        logits[:, 0] -= chosen @ own
        odds = np.exp(logits)
        runs.append(odds / (1 + odds) if outputs == 1 else odds / odds.sum(axis=1, keepdims=True))
        lost.append([np.flatnonzero(copy).tolist() for copy in chosen])
    return {"replaced": lost, "replaced_prediction": runs}


def _rounded(alpha):
    """What a reader of the float32 column sees."""
    values = alpha.values.astype(np.float32).astype(np.float64)
    return alpha.with_values(values / alpha.spread(alpha.with_values(values).sum()))


def _leave_one_out(trace):
    """TVD after removing each position and rescaling the others: what deletion does to a model with no context."""
    alpha, prediction = trace.alpha, trace.readout(trace.alpha)
    effect = np.zeros(len(alpha.values))
    for t in range(int(alpha.lengths.max())):
        rows = np.flatnonzero(alpha.lengths > t)
        values = alpha.values.copy()
        values[alpha.offsets[rows] + t] = 0.0
        total = alpha.with_values(values).sum()
        left = alpha.with_values(values / np.maximum(alpha.spread(total), 1e-12))
        effect[alpha.offsets[rows] + t] = tvd(trace.readout(left), prediction)[rows]
    return effect


def _noisy(rng, alpha, values):
    return alpha.with_values((values * np.exp(rng.normal(0, 0.5, len(values)))).astype(np.float32))


def random_attention(alpha, seed=0):
    """Other weights for the same positions, unevenly large."""
    values = alpha.with_values(np.random.default_rng(seed).random(len(alpha.values)) ** 3)
    return values.with_values(values.values / values.spread(values.sum()))


def with_columns(trace, **columns):
    """The same trace with further or other columns, as lists, series or ragged rows."""
    table = trace.table
    for name, values in columns.items():
        rows = [row.tolist() for row in values] if isinstance(values, Ragged) else values
        table = table.with_columns(pl.Series(name, rows))
    return Trace(table, trace.metadata, trace.tail)


def gaps(one, other, names):
    """The largest difference in each of these columns of lists."""
    return [np.abs(one.ragged(name).values - other.ragged(name).values).max() for name in names]


def assert_copies(table, lost, predictions):
    """Every row has copies that lose these positions, with these predictions."""
    places = [np.flatnonzero(copy).tolist() for copy in lost]
    for replaced, found in table.select("replaced", "replaced_prediction").rows():
        assert replaced == places
        np.testing.assert_allclose(found, predictions, atol=1e-6)


def assert_same_copies(one, other, tolerance=1e-6):
    """Copies lose the same positions, and are predicted alike."""
    tables = one.table, other.table
    assert tables[0]["replaced"].equals(tables[1]["replaced"])
    found = (table["replaced_prediction"].explode().drop_nulls().to_numpy() for table in tables)
    np.testing.assert_allclose(*found, atol=tolerance)


def known(value, tolerance=1e-12):
    """A number as a table holds it: null where it is undefined."""
    return None if value is None or np.isnan(value) else pytest.approx(value, abs=tolerance)


def trace_of(alpha, readout, offset: Any = 0.0, tail=None, **columns):
    """A trace of known attention and contributions, with the prediction that they give.

    ``alpha`` is n rows, ``readout`` (N, P), or (N,) for one number a position; one output is a sigmoid, several are a softmax.
    """
    alpha = alpha if isinstance(alpha, Ragged) else Ragged.from_rows(alpha)
    alpha = alpha.with_values(alpha.values.astype(np.float32))
    parts = np.asarray(readout, np.float32).reshape(len(alpha.values), -1)
    bias = np.broadcast_to(offset, (len(alpha), parts.shape[1])).astype(np.float32)
    tail, rows = tail or IdentityTail(), np.arange(len(alpha))
    outputs = tail(bias.astype(np.float64), rows).shape[1]
    activation: Activation = "sigmoid" if outputs == 1 else "softmax"
    single = alpha.with_values(parts.astype(np.float64))
    allowed = columns.get("candidates")
    model = Readout(single, bias.astype(np.float64), activation, tail, allowed)
    made = {
        "class_names": ["no", "yes"] if outputs == 1 else [f"class {c}" for c in range(outputs)],
        "instance": rows,
        "tokens": [[f"w{t}" for t in range(length)] for length in alpha.lengths],
        "alpha": alpha,
        "readout": alpha.with_values(parts),
        "offset": bias,
        "prediction": model(_rounded(alpha)).astype(np.float32),
    }
    return Trace.from_arrays(activation=activation, tail=tail, **(made | columns))


def trace_of_scores(n=40, lengths=(2, 12), **options):
    """The trace of `make_trace` without attention, which is the heatmap that is judged."""
    made = make_trace(n, lengths, importance=("lime",), copies=60, **options)
    table = made.table.drop("readout", "offset", "gradient").rename({"alpha": "importance_shown"})
    columns: dict[str, Any] = table.to_dict()
    metadata, activation = {"heatmap": "attention"}, made.metadata["activation"]
    return Trace.from_arrays(activation=activation, class_names=made.class_names, metadata=metadata, **columns)  # fmt: skip
