"""Check that a model matches its construction, text by text and class by class.

No audited measure is used, since measures are what the calibration judges. The dependence on words
comes from predictions on changed texts (`interventions`), the rest from the weights on the
deciding words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.calibration.construction import Construction
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.planting import masked, reworded, swapped
from attnaudit.stats.measures import predicted_class, two_classes
from attnaudit.trace import Trace

# These were fixed before any measure was looked at (docs/research/calibration.md).
# Smallest share of decisions that change when the deciding words are replaced, and that follow them
# into another text.
DEPENDS = 0.9
# Largest share of decisions that change when all other words are replaced.
IGNORES = 0.1
# Smallest mean weight that faithful attention has on the deciding words.
MARKED = 0.75
# Largest mean weight that unfaithful attention has on the deciding words.
UNMARKED = 0.25
# Bounds of a class's mean probability without its deciding words, relative to an even chance:
# 0.25 and 0.75 with two classes. A class inferred from the absence of words is near 1.
NEUTRAL = (0.5, 1.5)


def interventions(
    split: Split, predict: Callable[[Split], Float[np.ndarray, "n K"]]
) -> dict[str, list[Any]]:
    """Predict planted texts before and after replacing some of their words.

    Attention is not used.

    Args:
        split: The texts.
        predict: Function of texts that returns their probabilities.

    Returns:
        A value for each text, by name.
    """

    def predicted(tokens: list[list[str]]) -> np.ndarray:
        return predict(replace(split, tokens=tokens))

    own, others = (predicted_class(predicted(one)) for one in (split.tokens, reworded(split)))
    found = {
        "instance": split.instance,
        "label": split.label,
        "accuracy": own == split.label,
        "masked": two_classes(predicted(masked(split)))[range(len(split)), split.label],
        # The deciding words are inserted among the words of another text.
        "inserted": others == split.label,
        "changed_by_decisive": predicted_class(predicted(swapped(split))) != own,
        "changed_by_others": others != own,
    }
    return {name: column.tolist() for name, column in found.items()}


def checked(
    construction: Construction,
    interventions: Mapping[str, Sequence[Any]],
    trace: Trace,
    shown: Trace,
) -> dict[str, Any]:
    """Check one model.

    Args:
        construction: Construction of the model.
        interventions: Effects of replacing words in each text.
        trace: Trace of the model, whose rationale marks the deciding words.
        shown: The trace with the attention that a user sees.

    Returns:
        Means over texts: the ``interventions``; ``mass``, the weight on the deciding words; and
        ``top``, the share of texts whose largest weight is on one of them. ``classes`` has the same
        for each class. ``texts`` says whether each text is ``confirmed``, that is, fits the truth
        of the construction. A model is confirmed if all its classes are.
    """
    rows = list(zip(shown.shown, trace.ragged("rationale"), strict=True))
    weights = pl.DataFrame(
        {
            "instance": trace.instance,
            "mass": [float(alpha[marked].sum()) for alpha, marked in rows],
            "top": [bool(marked[alpha.argmax()]) for alpha, marked in rows],
        }
    ).unique("instance", keep="first", maintain_order=True)  # heads share their text's heatmap
    even = 1.0 / max(trace.prediction.shape[1], 2)
    attention = {
        "faithful": pl.min_horizontal("mass", "top") >= MARKED,
        "unfaithful": pl.max_horizontal("mass", "top") <= UNMARKED,
    }
    # A construction without a known truth has nothing to fail.
    confirmed = pl.lit(construction.truth not in attention) | (
        (pl.min_horizontal("changed_by_decisive", "inserted") >= DEPENDS)
        & (pl.col("changed_by_others") <= IGNORES)
        & pl.col("masked").is_between(*(even * part for part in NEUTRAL))
        & attention.get(construction.truth, True)
    )
    found = pl.DataFrame(interventions).join(weights, on="instance").cast({pl.Boolean: pl.Float64})
    means = found.group_by("label").mean().sort("label").drop("instance")
    classes = means.with_columns(confirmed=confirmed)
    return {
        **found.drop("instance", "label", "masked").mean().row(0, named=True),
        "masked_least": classes["masked"].min(),
        "masked_most": classes["masked"].max(),
        "confirmed": classes["confirmed"].all(),
        "classes": classes.to_dicts(),
        "texts": found.select("instance", confirmed=confirmed).to_dicts(),
    }
