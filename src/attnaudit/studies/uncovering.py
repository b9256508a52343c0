"""How often an audit of a model names what its attention was trained to hide: a mark for every row of a trace, by each measure."""

from __future__ import annotations

import numpy as np
import polars as pl

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.erasure.experiment import MINIMUM, Erasure
from attnaudit.experiments.joint import Joint
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.rows import over_words
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

RANKED = {
    "attention": "alpha",
    "gradient": "gradient",
    "loo": "loo",
}  # columns of a trace whose largest value names a token
_NAMES = {"attention": "attention", "gradient": "gradients", "loo": "leave-one-out"}
UNCOVERING = (
    *(
        Measure(f"found_{name}", f"share where {title} names an impermissible token",
                f"Share of instances whose largest {title} value, special tokens excluded, is on an impermissible token.")
        for name, title in _NAMES.items()
    ),
    Measure("found_change", "share where the largest change names an impermissible token",
            "Share of instances, mean over heads, where all attention on an impermissible token changes the output most."),
    Measure("found_erasure", "share where the smallest set that flips has an impermissible token",
            "Share of instances, mean over heads, where the smallest set of removed weights that flips the prediction has such a token."),
    Measure("found_random", "share of impermissible tokens",
            "Share of an instance's tokens, special ones excluded, that are impermissible: what a random token finds."),
    Measure("max_delta_y", "largest change of output by any attention found, Δŷ",
            "Largest change of the output by any attention found, mean over heads and instances, 0 to 1."),
    Measure("flips", "share that some attention of a head flips", "Share of instances, mean over heads, that some attention found flips."),
    Measure("flips_all", "share that some attention of all heads flips", "Share of instances that weights tried for all heads flip."),
)  # fmt: skip


def uncovering(trace: Trace, marked: Ragged) -> pl.DataFrame:
    """For each row of a trace with scores, whether each measure names a ``marked`` token; null where none, or every word, is marked."""
    words = over_words(
        trace, {"marked": marked, **{name: trace.ragged(column) for name, column in RANKED.items()}}
    )
    of_words = words.pop("marked")
    share = of_words.with_values(of_words.values.astype(np.float64)).sum() / np.maximum(
        of_words.lengths, 1
    )
    change = MaximalChange()(trace)
    smallest = Erasure()(trace)[MINIMUM].to_list()
    found = {
        **{f"found_{name}": _largest(score, of_words) for name, score in words.items()},
        "found_change": [bool(marks[position]) for marks, position in zip(marked, change["position"].to_list(), strict=True)],
        "found_erasure": [bool(marks[positions or []].any()) for marks, positions in zip(marked, smallest, strict=True)],
        "found_random": share, "max_delta_y": change["max_delta_y"].to_numpy(), "flips": change["flips"].to_numpy(),
        "flips_all": _flips_of_all(trace),
    }  # fmt: skip
    known = (share > 0) & (share < 1)
    columns = {
        name: np.where(known, np.asarray(values, dtype=np.float64), np.nan)
        for name, values in found.items()
    }
    return pl.DataFrame(columns).fill_nan(None)


def _largest(score: Ragged, marked: Ragged) -> list[bool]:
    """Whether the largest value of every row is of a marked position, the first of several."""
    return [
        bool(marks[values.argmax()]) if len(values) else False
        for values, marks in zip(score, marked, strict=True)
    ]


def _flips_of_all(trace: Trace) -> np.ndarray:
    """Whether some weights tried for all heads of the layer at once flip a row's decision; unknown of a single head."""
    joint = Joint()
    return (
        np.full(len(trace), np.nan)
        if joint.refuses(trace)
        else joint(trace)["joint_flips"].to_numpy()
    )
