"""Scores of every measure on models of known truth, along dials, and on models without truth.

A table of values has one row per cell and measure: {construction, truth, half, corpus, encoder,
seed, strength, confirmed, experiment, measure, direction, value}. Models of one construction (its
seeds, encoders and corpora) are not independent, so intervals are over constructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy
from jaxtyping import Float

from attnaudit.calibration.construction import CONSTRUCTIONS
from attnaudit.stats.inference import newcombe_interval

LEVEL = 95
# Smallest number of constructions on each side, or of seeds, for an interval. The coverage of
# intervals was tested down to three.
LEAST = 3
# Constructions whose models compute nothing that could be explained (Adebayo et al. 2018).
SANITY = ("untrained", "random_labels")
Matrix = Float[np.ndarray, "F U"]


class Measured(NamedTuple):
    """A measure of an experiment."""

    experiment: str
    measure: str
    direction: str


class AucInterval(NamedTuple):
    """An AUC with its interval, and the smallest and largest AUC without one construction."""

    auc: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None


class MeanInterval(NamedTuple):
    """A mean with its interval."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


NUMBERS = (*AucInterval._fields, "auc_within", *(f"over_{name}" for name in SANITY))


def scores(values: pl.DataFrame) -> pl.DataFrame:
    """Score how well each measure tells faithful from unfaithful constructions.

    For one faithful and one unfaithful construction, the score is the share of pairs of cells in
    which the faithful one has the better value; ties count half. The AUC is the mean over pairs of
    constructions, so each construction counts the same. Better means higher, unless the direction
    of the measure is "lower". Cells whose truth was not confirmed are excluded.

    Args:
        values: A table of values.

    Returns:
        One row per measure: `AucInterval`; ``auc_within``, the AUC over pairs on the same corpus;
        the AUC of faithful constructions over each of `SANITY`; and numbers of constructions.
    """
    rows = [_score(measured, part) for measured, part in by_measure(values)]
    table = pl.DataFrame(rows, schema_overrides=dict.fromkeys(NUMBERS, pl.Float64))
    return table.sort("auc", descending=True, nulls_last=True)


def by_measure(values: pl.DataFrame) -> Iterator[tuple[Measured, pl.DataFrame]]:
    """Yield the values of each measure, oriented so that higher is better."""
    # NaN and null both mean undefined; only null is skipped by the filters that follow.
    sign = pl.when(pl.col("direction") == "lower").then(-1.0).otherwise(1.0)
    oriented = values.with_columns(pl.col("value").fill_nan(None) * sign)
    for key, part in oriented.group_by(*Measured._fields, maintain_order=True):
        yield Measured(*map(str, key)), part


def _score(measured: Measured, part: pl.DataFrame) -> dict[str, Any]:
    known = _confirmed(part)
    faithful, pairs = known.filter(truth="faithful"), truth_pairs(known)
    corpora = [truth_pairs(one) for _, one in known.group_by("corpus", maintain_order=True)]
    within = [pairs.mean() for pairs in corpora if pairs.size]
    sanity = {
        f"over_{name}": preferred(faithful, known.filter(construction=name)) for name in SANITY
    }
    return {
        **measured._asdict(),
        **auc_interval(pairs)._asdict(),
        "auc_within": float(np.mean(within)) if within else None,
        **{name: float(over.mean()) if over.size else None for name, over in sanity.items()},
        "faithful": pairs.shape[0],
        "unfaithful": pairs.shape[1],
        "undefined": part.height - part["value"].count(),
    }


def _confirmed(part: pl.DataFrame) -> pl.DataFrame:
    return part.filter(pl.col("confirmed"), pl.col("value").is_not_null())


def truth_pairs(table: pl.DataFrame) -> Matrix:
    """Compare the faithful constructions of a table with the unfaithful ones (`preferred`)."""
    return preferred(table.filter(truth="faithful"), table.filter(truth="unfaithful"))


def preferred(better: pl.DataFrame, worse: pl.DataFrame) -> Matrix:
    """Compare constructions pair by pair.

    Args:
        better: Cells with ``construction`` and ``value``.
        worse: Cells to compare with.

    Returns:
        For each construction of ``better`` and each of ``worse``, the share of pairs of cells in
        which the first has the larger value.
    """
    first, second = (
        [rows["value"].to_numpy() for _, rows in part.group_by("construction", maintain_order=True)]
        for part in (better, worse)
    )
    shares = [[share_larger(ours, theirs) for theirs in second] for ours in first]
    return np.array(shares).reshape(len(first), len(second))


def share_larger(ours: Float[np.ndarray, " n"], theirs: Float[np.ndarray, " m"]) -> float:
    """Return the share of pairs in which ``ours`` is larger: the area under the ROC curve.

    Args:
        ours: Values that should be larger.
        theirs: Values to compare with.

    Returns:
        The share; ties count half.
    """
    below, upto = (np.searchsorted(np.sort(theirs), ours, side) for side in ("left", "right"))
    return float((below + upto).mean() / (2 * len(theirs)))


def auc_interval(pairs: Matrix) -> AucInterval:
    """Average over pairs of constructions.

    Args:
        pairs: One share per faithful and unfaithful construction (`preferred`).

    Returns:
        The mean with its interval over constructions (`newcombe_interval`), which needs `LEAST`
        constructions on each side. All fields are None without pairs.
    """
    if not pairs.size:
        return AucInterval()
    # Newcombe's interval rather than a bootstrap, which held the true AUC in 72 % of 3 × 3 draws.
    rows, columns = pairs.shape
    without = [pairs.mean()]
    without += [np.delete(pairs, k, axis=0).mean() for k in range(rows) if rows > 1]
    without += [np.delete(pairs, k, axis=1).mean() for k in range(columns) if columns > 1]
    mean, known = float(pairs.mean()), min(rows, columns) >= LEAST
    low, high = newcombe_interval(mean, rows, columns) if known else (None, None)
    return AucInterval(mean, low, high, float(min(without)), float(max(without)))


def dials(values: pl.DataFrame) -> pl.DataFrame:
    """Score how each measure moves along each dial.

    Args:
        values: A table of values.

    Returns:
        One row per dial and measure. ``tau`` is Kendall's τ of the value with the position on the
        dial, positive if the measure gets worse as attention gets less faithful. It is averaged
        over corpora and encoders, then over seeds, and has an interval over seeds (`tau_interval`).
    """
    rows = []
    for name in (name for name, one in CONSTRUCTIONS.items() if one.is_dial):
        for measured, part in by_measure(values.filter(construction=name)):
            series = _tau_of_series(part, list(CONSTRUCTIONS[name].strengths))
            tau, low, high = tau_interval(series)
            found = {"tau": tau, "low": low, "high": high, "series": len(series)}
            rows.append({"dial": name, **measured._asdict(), **found})
    # Without a schema, an empty table would have no columns.
    texts = dict.fromkeys(("dial", *Measured._fields), pl.String)
    numbers = dict.fromkeys(("tau", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema={**texts, **numbers, "series": pl.Int64})


def _tau_of_series(part: pl.DataFrame, order: Sequence[float | None]) -> list[tuple[int, float]]:
    """Return seed and τ for each corpus, encoder and seed."""
    series = []
    for (_, _, seed), rows in part.group_by("corpus", "encoder", "seed", maintain_order=True):
        known = rows.filter(pl.col("value").is_not_null())
        # τ of two values can only be −1 or 1.
        if known.height < 3:
            continue
        place = [order.index(strength) for strength in known["strength"].to_list()]
        value = known["value"].to_numpy()
        # τ is undefined for a measure that does not move, and counts as 0.
        moves = np.ptp(value) > 0
        # Values are oriented and fall along a dial that works, so the sign is reversed.
        tau = -float(np.asarray(scipy.stats.kendalltau(place, value))[0]) if moves else 0.0
        series.append((int(seed), tau))
    return series


def tau_interval(series: Sequence[tuple[int, float]]) -> MeanInterval:
    """Average τ over seeds.

    Args:
        series: Seed and τ of each series. A seed counts with the mean over its series.

    Returns:
        The mean with the 95 % interval of Student's t, cut off at −1 and 1. The interval needs
        `LEAST` seeds.
    """
    # Student's t held the mean in 95 % of draws of 3 to 10 seeds, a bootstrap in 75 % of 3.
    if not series:
        return MeanInterval()
    seeds = dict.fromkeys(seed for seed, _ in series)
    means = np.array([np.mean([tau for other, tau in series if other == seed]) for seed in seeds])
    mean = float(means.mean())
    if len(means) < LEAST:
        return MeanInterval(mean)
    quantile = scipy.stats.t.ppf((100 + LEVEL) / 200, len(means) - 1)
    half = float(quantile * means.std(ddof=1) / np.sqrt(len(means)))
    return MeanInterval(mean, max(mean - half, -1.0), min(mean + half, 1.0))


def matrix(values: pl.DataFrame) -> pl.DataFrame:
    """Rank the constructions, without dials, by each measure.

    Args:
        values: A table of values.

    Returns:
        One row per measure and construction. ``rank`` is the mean rank of its confirmed cells among
        the faithful and unfaithful ones, from 0 for the worst value to 1 for the best. ``value`` is
        their mean value.
    """
    rows = []
    for measured, part in by_measure(values):
        known = _confirmed(part)
        scale = known.filter(pl.col("truth").is_in(["faithful", "unfaithful"]))["value"].to_numpy()
        # `by_measure` has oriented the values; the table shows the measure itself.
        sign = -1.0 if measured.direction == "lower" else 1.0
        for (name,), own in known.group_by("construction", maintain_order=True):
            construction, value = CONSTRUCTIONS[str(name)], own["value"].to_numpy()
            if not len(scale) or construction.is_dial:
                continue
            rows.append(
                {
                    "experiment": measured.experiment,
                    "measure": measured.measure,
                    "construction": construction.name,
                    "truth": construction.truth,
                    "rank": share_larger(value, scale),
                    "value": float(sign * value.mean()),
                }
            )
    texts = dict.fromkeys(("experiment", "measure", "construction", "truth"), pl.String)
    return pl.DataFrame(rows, schema={**texts, "rank": pl.Float64, "value": pl.Float64})
