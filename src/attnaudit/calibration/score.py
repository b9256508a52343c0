"""How well every measure tells faithful from unfaithful constructions, how it moves along dials, what it says where nothing was learned.

A table of values has a row per cell and measure: {construction, truth, half, corpus, encoder, seed, strength, confirmed, experiment,
measure, direction, value}. Seeds, encoders and corpora of one construction are not independent: a construction is what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import scipy
from jaxtyping import Float

from attnaudit.calibration.construction import CONSTRUCTIONS
from attnaudit.stats.inference import newcombe_interval, share_interval

LEVEL = 95
LEAST = 3  # constructions on each side, or seeds, that an interval needs
SANITY = ("untrained", "random_labels")
NUMBERS = (
    "auc",
    "low",
    "high",
    "least",
    "most",
    "auc_within",
    *(f"over_{name}" for name in SANITY),
)
KEYS = ("experiment", "measure", "direction")
Measured = tuple[str, str, str]
Matrix = Float[np.ndarray, "F U"]


def scores(values: pl.DataFrame) -> pl.DataFrame:
    """A row per measure: ``auc``, its interval ``low`` to ``high`` over constructions, the least and largest AUC without one construction,
    ``auc_within`` of pairs on one corpus, the AUC of faithful over each of `SANITY`, and of how many constructions it is.

    The AUC is the mean over pairs of a faithful and an unfaithful construction of the share of pairs of cells in which the faithful one
    has the better value, ties half; every construction counts alike. Better is higher, or lower where the measure says so. Cells whose
    truth was not confirmed are excluded.
    """
    rows = [_scored(measured, part) for measured, part in by_measure(values)]
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(NUMBERS, pl.Float64)).sort(
        "auc", descending=True, nulls_last=True
    )


def by_measure(values: pl.DataFrame) -> Iterator[tuple[Measured, pl.DataFrame]]:
    """The values of every measure, higher being better."""
    sign = pl.when(pl.col("direction") == "lower").then(-1.0).otherwise(1.0)
    oriented = values.with_columns(pl.col("value").fill_nan(None) * sign)
    for key, part in oriented.group_by(*KEYS, maintain_order=True):
        yield (str(key[0]), str(key[1]), str(key[2])), part


def _scored(measured: Measured, part: pl.DataFrame) -> dict[str, Any]:
    known = part.filter(pl.col("confirmed"), pl.col("value").is_not_null())
    pairs = preferred(known.filter(truth="faithful"), known.filter(truth="unfaithful"))
    row: dict[str, Any] = dict(zip(KEYS, measured, strict=True))
    row |= dict(zip(("auc", "low", "high", "least", "most"), auc_interval(pairs), strict=True))
    row["auc_within"] = _within(known)
    for name in SANITY:
        row[f"over_{name}"] = _mean(
            preferred(known.filter(truth="faithful"), known.filter(construction=name))
        )
    return row | {
        "faithful": pairs.shape[0],
        "unfaithful": pairs.shape[1],
        "undefined": part.height - part["value"].count(),
    }


def preferred(better: pl.DataFrame, worse: pl.DataFrame) -> Matrix:
    """For every construction of ``better`` and of ``worse`` the share of pairs of their cells in which the first has the larger value."""
    first, second = _values_of(better), _values_of(worse)
    found = np.full((len(first), len(second)), np.nan)
    for i, ours in enumerate(first):
        for j, theirs in enumerate(second):
            found[i, j] = share_larger(ours, theirs)
    return found


def share_larger(ours: Float[np.ndarray, " n"], theirs: Float[np.ndarray, " m"]) -> float:
    """The share of pairs in which ``ours`` is larger, ties half: the area under the ROC curve."""
    ordered = np.sort(theirs)
    below, upto = np.searchsorted(ordered, ours, "left"), np.searchsorted(ordered, ours, "right")
    return float((below + upto).mean() / (2 * len(theirs)))


def _values_of(part: pl.DataFrame) -> list[np.ndarray]:
    return [
        rows["value"].to_numpy() for _, rows in part.group_by("construction", maintain_order=True)
    ]


def auc_interval(pairs: Matrix) -> tuple[float | None, ...]:
    """The mean of ``pairs``, its interval (`newcombe_interval`: a construction is what is drawn), and its least and largest value without
    one construction; None where there are none. No interval (None) with fewer than `LEAST` constructions on a side."""
    if not pairs.size:
        return (None,) * 5
    rows, columns = pairs.shape
    without = [pairs.mean()]
    without += [np.delete(pairs, k, axis=0).mean() for k in range(rows) if rows > 1]
    without += [np.delete(pairs, k, axis=1).mean() for k in range(columns) if columns > 1]
    mean, least, most = float(pairs.mean()), float(min(without)), float(max(without))
    low, high = (
        newcombe_interval(mean, rows, columns) if min(rows, columns) >= LEAST else (None, None)
    )
    return mean, low, high, least, most


def mean_share(values: Float[np.ndarray, " n"]) -> tuple[float | None, float | None, float | None]:
    """The mean of one share a construction with its interval (`share_interval`); None of none, no interval of fewer than `LEAST`."""
    if not len(values):
        return None, None, None
    low, high = (
        share_interval(values, np.arange(len(values))) if len(values) >= LEAST else (None, None)
    )
    return float(values.mean()), low, high


def _within(known: pl.DataFrame) -> float | None:
    """The mean over corpora of the AUC of pairs on one corpus."""
    parts = [part for _, part in known.group_by("corpus", maintain_order=True)]
    found = [
        _mean(preferred(part.filter(truth="faithful"), part.filter(truth="unfaithful")))
        for part in parts
    ]
    known_of = [auc for auc in found if auc is not None]
    return float(np.mean(known_of)) if known_of else None


def _mean(pairs: Matrix) -> float | None:
    return float(pairs.mean()) if pairs.size else None


def dials(values: pl.DataFrame) -> pl.DataFrame:
    """A row per dial and measure: ``tau``, Kendall's τ of the value with the position on the dial, positive where the measure gets worse as
    attention gets less faithful: the mean over seeds of the mean over corpora and encoders, with its interval (`tau_interval`)."""
    rows = []
    for name in (name for name, one in CONSTRUCTIONS.items() if one.is_dial):
        for measured, part in by_measure(values.filter(construction=name)):
            found = _tau_of_series(part, list(CONSTRUCTIONS[name].strengths))
            tau, low, high = tau_interval(found)
            rows.append(
                {
                    "dial": name,
                    **dict(zip(KEYS, measured, strict=True)),
                    "tau": tau,
                    "low": low,
                    "high": high,
                    "series": len(found),
                }
            )
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(("tau", "low", "high"), pl.Float64))


def _tau_of_series(part: pl.DataFrame, order: Sequence[float | None]) -> list[tuple[int, float]]:
    """The seed and the τ of every corpus, encoder and seed; 0 where the measure does not move."""
    found = []
    for (_, _, seed), rows in part.group_by("corpus", "encoder", "seed", maintain_order=True):
        known = rows.filter(pl.col("value").is_not_null())
        if known.height < 3:
            continue
        place = [order.index(strength) for strength in known["strength"].to_list()]
        value = known["value"].to_numpy()
        found.append(
            (
                int(seed),
                0.0
                if np.ptp(value) == 0
                else -float(np.asarray(scipy.stats.kendalltau(place, value))[0]),
            )
        )
    return found


def tau_interval(
    found: Sequence[tuple[int, float]],
) -> tuple[float | None, float | None, float | None]:
    """The mean τ of seeds, each the mean over its series, and the 95 % interval of Student's t over seeds, cut at −1 and 1.

    The interval is None of fewer than `LEAST` seeds; all three are None where there is no series.
    """
    if not found:
        return None, None, None
    means = np.array(
        [
            np.mean([tau for other, tau in found if other == one])
            for one in dict.fromkeys(seed for seed, _ in found)
        ]
    )
    mean = float(means.mean())
    if len(means) < LEAST:
        return mean, None, None
    half = float(
        scipy.stats.t.ppf((100 + LEVEL) / 200, len(means) - 1)
        * means.std(ddof=1)
        / np.sqrt(len(means))
    )
    return mean, max(mean - half, -1.0), min(mean + half, 1.0)


def matrix(values: pl.DataFrame) -> pl.DataFrame:
    """A row per measure and construction, dials aside: the mean ``rank`` of its confirmed cells among the faithful and unfaithful ones, 0
    for the worst value of the measure and 1 for the best, and the mean ``value``."""
    rows = []
    for (experiment, measure, direction), part in by_measure(values):
        known = part.filter(pl.col("confirmed"), pl.col("value").is_not_null())
        scale = np.sort(
            known.filter(pl.col("truth").is_in(["faithful", "unfaithful"]))["value"].to_numpy()
        )
        if not len(scale):
            continue
        sign = -1.0 if direction == "lower" else 1.0
        for (name,), own in known.group_by("construction", maintain_order=True):
            if CONSTRUCTIONS[str(name)].is_dial:
                continue
            value = own["value"].to_numpy()
            rank = (
                np.searchsorted(scale, value, "left") + np.searchsorted(scale, value, "right")
            ).mean() / (2 * len(scale))
            rows.append(
                {
                    "experiment": experiment,
                    "measure": measure,
                    "construction": str(name),
                    "truth": CONSTRUCTIONS[str(name)].truth,
                    "rank": float(rank),
                    "value": float(sign * value.mean()),
                }
            )
    texts = dict.fromkeys(("experiment", "measure", "construction", "truth"), pl.String)
    return pl.DataFrame(rows, schema={**texts, "rank": pl.Float64, "value": pl.Float64})
