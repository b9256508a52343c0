"""The adversary: the most different attention with nearly the same output.

Source: Jain & Wallace 2019, §4.2.2, Algorithm 3.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import Settings, setting
from attnaudit.core.shapes import PerClass, PerRow, RowInts
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import (
    divergence,
    exchange_bound,
    furthest_attention,
    one_logit_decides,
    slab_within,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.search import bounded_attention
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.rows import make_table, no_single_decision, summarise_measures
from attnaudit.results import Measure
from attnaudit.stats.measures import LN2, tvd
from attnaudit.trace import Readout, Trace

CERTIFIED_GAP = 1e-3


class Furthest(NamedTuple):
    """The furthest attention of each of n rows.

    Attributes:
        attention: The attention.
        upper: JSD that no attention within ε exceeds, ``(n,)``.
        prediction: Predictions under the attention.
        own: Predictions under the model's own attention.
    """

    attention: Ragged
    upper: PerRow
    prediction: PerClass
    own: PerClass


@dataclass(frozen=True)
class Adversary(Settings):
    """The largest JSD to the model's attention of any whose output is within ``epsilon``.

    The vertices of the attentions allowed give it for two classes. For more classes, or behind a
    tail, a search finds an attention, and a bound is computed beside it: from linear programs, or
    behind a network from the weights only. The paper's gradient search never finds more.

    The table has ``emax_jsd`` (best found, at least 0), ``emax_jsd_upper`` (no attention allowed
    exceeds it), ``certified`` (the two meet to 1e-3), ``delta_y`` (TVD of the best), its ``alpha``
    and its ``prediction``.

    ``exchange_jsd`` is the largest JSD to all weight on one token that has at least average weight:
    equally good reasons can be exchanged. With two classes ``matched_emax_jsd`` is the exact
    ``emax_jsd`` if the logits of each row are scaled until the predicted class has probability 0.9,
    so that it does not depend on how confident the model is.
    """

    name = "adversary"
    needs = ()
    papers = (JAIN2019, WIEGREFFE2019)  # the caution that goes with the divergence is the second's
    measures = (
        Measure(
            "emax_jsd",
            "ε-max JSD, best found",
            "Largest Jensen–Shannon divergence found from the model's attention to one whose "
            "output stays within ε, 0 to ln 2.",
            "lower",
            range=(0.0, LN2),
        ),
        Measure(
            "emax_jsd_upper",
            "ε-max JSD, upper bound",
            "Divergence that no attention with an output within ε exceeds, 0 to ln 2.",
            "lower",
            range=(0.0, LN2),
        ),
        Measure(
            "matched_emax_jsd",
            "ε-max JSD at 90 % confidence",
            "Largest divergence of an attention whose output stays within ε, with the logits of "
            "each text scaled until the predicted class has probability 0.9; for two classes.",
            "lower",
            range=(0.0, LN2),
        ),
        Measure(
            "exchange_jsd",
            "divergence that exchanging the attended words explains",
            "Largest divergence from the model's attention to all weight on one token of at least "
            "average weight, 0 to ln 2.",
            range=(0.0, LN2),
        ),
        Measure(
            "matched_emax_jsd_minus_exchange_jsd",
            "ε-max JSD at 90 % confidence minus what exchanging the attended words explains",
            "How much farther attention with nearly the same output is than one attended word is "
            "from all of them.",
            "lower",
            range=(-LN2, LN2),
        ),
        Measure(
            "certified",
            "share where the divergence found meets its bound",
            "Share of texts whose divergence is proven maximal to 1e-3.",
        ),
        Measure(
            "delta_y",
            "change of output under the adversary, Δŷ",
            "Total variation distance between the output and the output under the attention "
            "found, at most ε.",
            range=None,
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    epsilon: float = setting(
        "Largest change of the output that an adversary may cause, in TVD.", 0.01, least=0, most=1
    )
    refuses = staticmethod(no_single_decision)

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return 3.5 * tokens  # of most heads every attention is within ε, and few are read

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table of a trace."""
        found = self.bounded(trace.readout, trace.alpha)
        reached = divergence(found.attention, trace.alpha)
        # A bound is computed apart from what is found, and may be lower by rounding.
        upper = np.maximum(found.upper, reached)
        columns = {
            "emax_jsd": reached,
            "emax_jsd_upper": upper,
            "certified": upper - reached <= CERTIFIED_GAP,
            "delta_y": tvd(found.prediction, found.own),
            "alpha": found.attention,
            "prediction": found.prediction,
        }
        matched = at_same_confidence(trace) if one_logit_decides(trace.readout) else None
        if matched is not None:
            alpha, slab = trace.alpha, slab_within(matched.readout, trace.alpha, self.epsilon)
            furthest = matched.of_decided(divergence(furthest_attention(alpha, slab), alpha))
            exchange = exchange_bound(alpha)
            columns |= {
                "matched_emax_jsd": furthest,
                "exchange_jsd": exchange,
                "matched_emax_jsd_minus_exchange_jsd": furthest - exchange,
            }
        return make_table(trace, columns)

    def bounded(self, readout: Readout, alpha: Ragged) -> Furthest:
        """Return for every row the furthest attention found within ``epsilon``, and its bound."""
        own, epsilon = readout(alpha), self.epsilon
        if one_logit_decides(readout):
            found = furthest_attention(alpha, slab_within(readout, alpha, epsilon))
            return Furthest(found, divergence(found, alpha), readout(found), own)
        found, upper = bounded_attention(readout, alpha, epsilon)
        # Networks give other last digits in another batch: what is reported is read once more.
        prediction = readout(found)
        within = tvd(prediction, own) <= epsilon + TOLERANCE.solver
        attention = alpha.with_values(np.where(alpha.spread(within), found.values, alpha.values))
        return Furthest(
            attention,
            np.minimum(upper, unconstrained_bound(alpha)),
            np.where(within[:, None], prediction, own),
            own,
        )
