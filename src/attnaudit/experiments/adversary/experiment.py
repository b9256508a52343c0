"""The adversary: the most different attention with nearly the same output.

Source: Jain & Wallace 2019, §4.2.2, Algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import Settings, setting
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import (
    divergence,
    exchange_bound,
    furthest_attention,
    one_logit_decides,
    slab_within,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.relaxed import Search, search_attentions
from attnaudit.experiments.adversary.search import bounded_attention
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.rows import (
    make_table,
    no_single_decision,
    row_streams,
    summarise_measures,
)
from attnaudit.experiments.through_tail import through_network
from attnaudit.results.measures import Measure
from attnaudit.stats.measures import LN2, tvd
from attnaudit.trace import Trace

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
    upper: Float[np.ndarray, " n"]
    prediction: Float[np.ndarray, "n C"]
    own: Float[np.ndarray, "n C"]


@dataclass(frozen=True)
class Adversary(Settings):
    """The largest JSD to the model's attention of any whose output is within ``epsilon``.

    ``method`` "exact" finds it for two classes by the vertices of the attentions allowed. For more
    classes, or behind a tail, a search finds an attention, and a bound is computed beside it:
    from linear programs, or behind a network from the weights only.
    "relaxed" is the paper's gradient search for ``k`` diverse attentions in ``steps`` steps of
    Adam. Of its ends those within ``accept`` count (None: within ``epsilon``, as the paper says;
    the released code used 0.05).

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
    method: Literal["exact", "relaxed"] = setting(
        "exact, or relaxed: the paper's gradient search.", "exact"
    )
    epsilon: float = setting(
        "Largest change of the output that an adversary may cause, in TVD.", 0.01, least=0, most=1
    )
    k: int = setting(
        "relaxed: number of diverse attentions that are searched for together.", 5, least=1
    )
    steps: int = setting("relaxed: steps of Adam.", 500, least=0)
    accept: float | None = setting(
        "relaxed: largest change of the output at which an attention counts; none: epsilon.",
        None,
        least=0,
        most=1,
    )

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        network = through_network(trace) if self.method == "relaxed" else None
        if network is not None:
            return f"method relaxed {network}; use method exact"
        return no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table of a trace."""
        is_relaxed = self.method == "relaxed"
        limit = self.accept if is_relaxed and self.accept is not None else self.epsilon
        found = self.bounded(trace, limit)
        if is_relaxed:
            attention = self._search(trace, found.own, limit)
            found = found._replace(attention=attention, prediction=trace.readout(attention))
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

    def bounded(self, trace: Trace, epsilon: float) -> Furthest:
        """Return for every row the furthest attention found within ``epsilon``, and its bound."""
        readout, alpha = trace.readout, trace.alpha
        own = readout(alpha)
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

    def _search(self, trace: Trace, baseline: Float[np.ndarray, "n C"], limit: float) -> Ragged:
        """Return the best end of the search within ``limit``; the model's own attention if none."""
        readout, alpha = trace.readout, trace.alpha
        search = Search(self.epsilon, self.k, self.steps)
        streams = row_streams(trace, self.seed, self.name)
        ends = search_attentions(readout, alpha, streams, search)
        best, reached = alpha.values.copy(), np.zeros(len(alpha))
        for end in ends.T:
            candidate = alpha.with_values(end)
            value = divergence(candidate, alpha)
            better = (tvd(readout(candidate), baseline) <= limit) & (value > reached)
            best, reached = (
                np.where(alpha.spread(better), end, best),
                np.where(better, value, reached),
            )
        return alpha.with_values(best)
