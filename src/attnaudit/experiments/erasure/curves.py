"""Share of predictions that a ranking flips, by the fraction of tokens removed, and its area.

A prediction that never flips is not excluded: it counts as not flipped, whatever is removed.
"""

import numpy as np
import polars as pl

from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.results import text_number
from attnaudit.stats.inference import share_interval

MINIMUM, RANDOM = "minimum", "random"
ORDERS = (*RANKINGS, MINIMUM)
# The share removed at the first flip of each random order.
BY_ORDER = "by_order"
COLUMNS = (*(f"{kind}_{name}" for name in ORDERS for kind in ("never", "removed")), BY_ORDER)
CURVE = {"name": pl.String, **dict.fromkeys(("x", "value", "low", "high"), pl.Float64)}
# Intervals between the fractions at which a curve is drawn.
STEPS = 50


def area(ranking: str) -> pl.Expr:
    """Return each row's area under the curve of a ranking, the mean over random orders."""
    never, removed = (pl.col(f"{kind}_{ranking}").cast(pl.Float64) for kind in ("never", "removed"))
    return ((1.0 - never) * (1.0 - removed.fill_null(1.0))).alias(f"area_{ranking}")


def flip_curves(rows: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """Compute the curve of each ranking that is known, with its 95 % band over texts.

    Args:
        rows: The columns `COLUMNS` and the keys of the table of the experiment.
        names: Names of the curves, by ranking.

    Returns:
        The columns of `CURVE`.
    """
    numbered = rows.with_columns(text=text_number(rows.columns))
    until, frames = np.arange(STEPS + 1) / STEPS, [pl.DataFrame(schema=CURVE)]
    for ranking, name in names.items():
        known = numbered.drop_nulls(f"never_{ranking}")
        times = known[BY_ORDER].explode() if ranking == RANDOM else known[f"removed_{ranking}"]
        time = times.cast(pl.Float64).fill_null(np.nan).to_numpy()
        if len(time):
            texts = np.repeat(known["text"].to_numpy(), len(time) // known.height)
            for x in until.tolist():
                flipped = (time <= x).astype(np.float64)
                band = share_interval(flipped, texts)
                point = zip(CURVE, (name, x, float(flipped.mean()), *band), strict=True)
                frames.append(pl.DataFrame(dict(point), schema=CURVE))
    return pl.concat(frames)
