"""AUC of every measure over constructions of known truth.

A table of values has one row per cell and measure: {cell, construction, truth, half, corpus,
encoder, seed, confirmed, experiment, measure, direction, value}. Models of one construction (its
seeds, encoders and corpora) are not independent, so intervals are over constructions.
"""

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.stats.inference import newcombe_interval

# Smallest number of constructions on each side for an interval. Its coverage was tested down to
# three.
LEAST = 3
MEASURE = ("experiment", "measure", "direction")
Matrix = Float[np.ndarray, "F U"]


class AucInterval(NamedTuple):
    """An AUC with its interval."""

    auc: float | None = None
    low: float | None = None
    high: float | None = None


SCHEMA = {
    **dict.fromkeys(("half", *MEASURE), pl.String),
    **dict.fromkeys(AucInterval._fields, pl.Float64),
    **dict.fromkeys(("faithful", "unfaithful", "undefined"), pl.Int64),
}


def scores(values: pl.DataFrame) -> pl.DataFrame:
    """Score how well each measure tells faithful from unfaithful constructions of a half.

    For one faithful and one unfaithful construction, the score is the share of pairs of cells in
    which the faithful one has the better value; ties count half. The AUC is the mean over pairs of
    constructions, so each construction counts the same. Better means higher, unless the direction
    of the measure is "lower". Cells whose truth was not confirmed are excluded.

    Args:
        values: A table of values.

    Returns:
        One row per half and measure: `AucInterval`, the numbers of constructions, and the number of
        cells for which the measure is undefined.
    """
    # NaN and null both mean undefined.
    sign = pl.when(pl.col("direction") == "lower").then(-1.0).otherwise(1.0)
    oriented = values.filter("confirmed", pl.col("truth").is_in(["faithful", "unfaithful"]))
    oriented = oriented.with_columns(pl.col("value").fill_nan(None) * sign)
    rows = []
    for key, part in oriented.group_by("half", *MEASURE, maintain_order=True):
        pairs = truth_pairs(part.drop_nulls("value"))
        rows.append((*key, *auc_interval(pairs), *pairs.shape, part["value"].null_count()))
    table = pl.DataFrame(rows, SCHEMA, orient="row")
    return table.sort("half", "auc", descending=True, nulls_last=True)


def truth_pairs(table: pl.DataFrame) -> Matrix:
    """Compare the faithful constructions of a table with the unfaithful ones.

    Args:
        table: Cells with ``truth``, ``construction`` and ``value``.

    Returns:
        For each faithful construction and each unfaithful one, the share of pairs of cells in which
        the first has the larger value.
    """
    first, second = (
        [
            rows["value"].to_numpy()
            for rows in table.filter(truth=truth).partition_by("construction", maintain_order=True)
        ]
        for truth in ("faithful", "unfaithful")
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
    larger, equal = (test(ours[:, None], theirs).mean() for test in (np.greater, np.equal))
    return float(larger + equal / 2)


def auc_interval(pairs: Matrix) -> AucInterval:
    """Average over pairs of constructions.

    Args:
        pairs: One share per faithful and unfaithful construction (`truth_pairs`).

    Returns:
        The mean with its interval over constructions (`newcombe_interval`), which needs `LEAST`
        constructions on each side. All fields are None without pairs.
    """
    if not pairs.size:
        return AucInterval()
    mean = float(pairs.mean())
    if min(pairs.shape) < LEAST:
        return AucInterval(mean)
    # Newcombe's interval rather than a bootstrap, which held the true AUC in 72 % of 3 × 3 draws.
    return AucInterval(mean, *newcombe_interval(mean, *pairs.shape))
