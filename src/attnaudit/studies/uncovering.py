"""Share of audits that name the tokens a model's attention was trained to hide."""

import numpy as np
import polars as pl

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.erasure.experiment import MINIMUM, Erasure
from attnaudit.experiments.joint import Joint
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.rows import over_words
from attnaudit.results import Measure
from attnaudit.trace import Trace

# Column of a trace whose largest value names a token, and its label, by the name of the measure.
RANKED = {
    "attention": ("alpha", "attention"),
    "gradient": ("gradient", "gradients"),
    "loo": ("loo", "leave-one-out"),
}
UNCOVERING = (
    *(
        Measure(
            f"found_{name}",
            f"share where {label} names an impermissible token",
            f"Share of texts whose largest {label} value, special tokens excluded, is on an "
            "impermissible token.",
        )
        for name, (_, label) in RANKED.items()
    ),
    Measure(
        "found_change",
        "share where the largest change names an impermissible token",
        "Share of texts, mean over heads, where all attention on an impermissible token "
        "changes the output most.",
    ),
    Measure(
        "found_erasure",
        "share where the smallest set that flips has an impermissible token",
        "Share of texts, mean over heads, where the smallest set of removed weights that flips "
        "the prediction has such a token.",
    ),
    Measure(
        "found_random",
        "share of impermissible tokens",
        "Share of a text's tokens, special ones excluded, that are impermissible: what a "
        "random token finds.",
    ),
    Measure(
        "max_delta_y",
        "largest change of output by any attention found, Δŷ",
        "Largest change of the output by any attention found, mean over heads and texts, 0 to 1.",
    ),
    Measure(
        "flips",
        "share that some attention of a head flips",
        "Share of texts, mean over heads, that some attention found flips.",
    ),
    Measure(
        "flips_all",
        "share that some attention of all heads flips",
        "Share of texts that weights tried for all heads flip.",
    ),
)


def uncovering(trace: Trace, marked: Ragged) -> pl.DataFrame:
    """Say of each row which measures name a marked token.

    Args:
        trace: Trace with importance scores.
        marked: Whether each position is impermissible.

    Returns:
        A column for each of `UNCOVERING`; null if no word, or every word, is marked.
    """
    scores = {name: trace.ragged(column) for name, (column, _) in RANKED.items()}
    words = over_words(trace, {"marked": marked, **scores})
    of_words = words.pop("marked")
    share = of_words.with_values(of_words.values.astype(np.float64)).sum() / np.maximum(
        of_words.lengths, 1
    )
    change, joint = MaximalChange()(trace), Joint()
    smallest = [
        marks[positions or []].any()
        for marks, positions in zip(marked, Erasure()(trace)[MINIMUM].to_list(), strict=True)
    ]
    largest = marked.offsets[:-1] + change["position"].to_numpy()
    found = {
        **{f"found_{name}": _largest(score, of_words) for name, score in words.items()},
        "found_change": marked.values[largest],
        "found_erasure": smallest,
        "found_random": share,
        "max_delta_y": change["max_delta_y"],
        "flips": change["flips"],
        # No single head has other heads to be changed with.
        "flips_all": [np.nan] * len(trace) if joint.refuses(trace) else joint(trace)["joint_flips"],
    }
    known = (share > 0) & (share < 1)
    return pl.DataFrame(
        {
            name: np.where(known, np.asarray(values, dtype=np.float64), np.nan)
            for name, values in found.items()
        }
    ).fill_nan(None)


def _largest(score: Ragged, marked: Ragged) -> list[bool]:
    """Return whether the largest value of every row, the first of several, is marked."""
    return [
        bool(marks[values.argmax()]) if len(values) else False
        for values, marks in zip(score, marked, strict=True)
    ]
