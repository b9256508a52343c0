"""How different can attention be while the output stays the same? (Jain & Wallace 2019, §4.2.2, Algorithm 3)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.errors import InputError
from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.branch import bounded_attention
from attnaudit.experiments.adversary.exact import (
    furthest_attention,
    one_logit_decides,
    slab_within,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.relaxed import Search, search_attentions
from attnaudit.experiments.adversary.through_tail import attention_within
from attnaudit.experiments.rows import (
    keys,
    list_column,
    no_single_decision,
    of_kept_words,
    require,
    row_streams,
    vector_column,
)
from attnaudit.experiments.through_tail import has_compiled_tail, through_network
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale, Violins
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.results.words import LN2, difference, figure, interval, percent
from attnaudit.stats.measures import jsd_terms, tvd
from attnaudit.trace import Trace

METHODS = ("exact", "relaxed")
CERTIFIED_GAP = 1e-3
ROUNDING = 1e-9
NEARLY_ALL = 5e-3  # of JSD: where a bound is closer than this to what was found, nothing is said of what a search may have missed
SEEN_GAP = 5e-4  # a bound closer than this to what was found has the same three decimals
WITHIN = 0.05  # mean TVD up to which a retrained model is said to predict the same
CLOSE = 0.25 * LN2  # a divergence below it is of weights that differ a little
_AXIS = Scale("ε-max JSD", 0.7, (0.0, 0.2, 0.4, 0.6))


def _means(rows: pl.DataFrame) -> tuple[float | None, float | None]:
    """The means of the divergence found and of its upper bound."""
    found, upper = (rows[name].fill_nan(None).mean() for name in ("emax_jsd", "emax_jsd_upper"))
    return (found if isinstance(found, float) else None), (
        upper if isinstance(upper, float) else None
    )


def _markers(rows: pl.DataFrame) -> Sequence[Marker]:
    found, upper = _means(rows)
    markers = [Marker(LN2, "ln 2", after=True)]
    if found is not None and upper is not None and upper - found >= SEEN_GAP:
        markers.append(Marker(upper, "mean upper bound", after=upper < LN2 / 2))
    return markers


def _caption(rows: pl.DataFrame) -> str:
    found, upper = _means(rows)
    proven = upper is not None and found is not None and upper - found < SEEN_GAP
    return (
        "Jensen–Shannon divergence from the model's own attention to the most different attention found whose output stays within ε"
        f"{', proven to be the maximum' if proven else ''}. No two attentions differ by more than ln 2. The farther right, the less the "
        "output determines the weights."
    )


_PEAKED = (
    "The same divergence by the largest weight of the instance. Dots are medians, bars quartiles. Low values in the lower rows would mean "
    "that peaked attention cannot be replaced."
)


class Furthest(NamedTuple):
    """For each of n rows an attention, its ``prediction`` (n, C) and the model's ``own``, and the JSD that none exceeds (n,)."""

    attention: Ragged
    upper: Float[np.ndarray, " n"]
    prediction: Float[np.ndarray, "n C"]
    own: Float[np.ndarray, "n C"]


@dataclass(frozen=True)
class Adversary:
    """The largest JSD to the model's attention among attentions whose output is within TVD ``epsilon`` (ε-max JSD).

    ``method`` "exact" finds it for two classes by the vertices of the attentions allowed, and for more, or behind a tanh tail, draws an
    attention and a bound together by branch and bound; through any other tail a search finds an attention, and the bound is that of the
    weights alone. "relaxed" is the paper's gradient search for ``k`` diverse attentions in ``steps``
    steps of Adam. Of what that search ends with, attentions within ``accept`` count (None: within ``epsilon``, as the paper says; the
    released code used 0.05 for every epsilon).

    The table has ``emax_jsd`` (best found, at least 0), ``emax_jsd_upper`` (no attention allowed exceeds it), ``certified`` (the two
    meet to 1e-3), ``delta_y`` (TVD of the best), its ``alpha`` and its ``prediction``.
    """

    name = "adversary"
    needs = ()
    question = "How different can attention be with nearly the same output?"
    papers = (JAIN2019, WIEGREFFE2019)  # the caution that goes with the divergence is the second's
    measures = (
        Measure(
            "emax_jsd",
            "ε-max JSD, best found",
            "Largest Jensen–Shannon divergence found from the model's attention to one whose output stays within ε, 0 to ln 2; 0 for a "
            "text of one token.",
            "lower",
        ),
        Measure(
            "emax_jsd_upper",
            "ε-max JSD, upper bound",
            "Divergence that no attention with an output within ε exceeds, 0 to ln 2.",
            "lower",
        ),
        Measure(
            "certified",
            "share where the divergence found meets its bound",
            "Share of instances whose divergence is proven maximal to 1e-3.",
        ),
        Measure(
            "delta_y",
            "change of output under the adversary, Δŷ",
            "Total variation distance between the output and the output under the attention found, at most ε.",
        ),
    )
    figures = (
        FigureSpec(
            "emax",
            question,
            (Histogram("emax_jsd", _AXIS, bins=35, markers=_markers),),
            _caption,
            reads=("emax_jsd_upper",),
        ),
        FigureSpec(
            "emax-by-weight",
            "… and does peaked attention resist?",
            (Violins("emax_jsd", _AXIS, markers=lambda rows: (Marker(LN2, ""),)),),
            _PEAKED,
        ),
    )
    seed: int = 0
    method: str = setting("exact, or relaxed: the paper's gradient search.", "exact")
    epsilon: float = setting(
        "Largest change of the output that an adversary may cause, in TVD.", 0.01
    )
    k: int = setting("relaxed: number of diverse attentions that are searched for together.", 5)
    steps: int = setting("relaxed: steps of Adam.", 500)
    learning_rate: float = setting("relaxed: learning rate of Adam.", 0.01)
    penalty: float = setting("relaxed: weight λ of the change of the output.", 500.0)
    accept: float | None = setting(
        "relaxed: largest change of the output at which an attention counts; none: epsilon.", None
    )

    def refuses(self, trace: Trace) -> str | None:
        network = through_network(trace) if self.method == "relaxed" else None
        if network is not None:
            return f"method relaxed {network}; use method exact"
        return no_single_decision(trace)

    def __post_init__(self) -> None:
        require(self, "method", self.method in METHODS, f"one of {', '.join(METHODS)}", METHODS)
        require(self, "epsilon", 0 <= self.epsilon <= 1, "a distance from 0 to 1")
        require(
            self,
            "accept",
            self.accept is None or 0 <= self.accept <= 1,
            "a distance from 0 to 1, or none for epsilon",
        )
        if not self.learning_rate > 0 or not self.penalty >= 0:
            got = f"{self.learning_rate:g} and {self.penalty:g}"
            raise InputError(
                "audit",
                "settings adversary.learning_rate and adversary.penalty",
                got,
                "a rate above 0, a penalty of 0 or more",
            )
        if self.k < 1 or self.steps < 0:
            raise InputError(
                "audit",
                "settings adversary.k and adversary.steps",
                f"{self.k} and {self.steps}",
                "k ≥ 1 and steps ≥ 0",
            )

    def __call__(self, trace: Trace) -> pl.DataFrame:
        found = self.bounded(trace, self.epsilon if self.method == "exact" else self._limit)
        if self.method == "relaxed":
            attention = self._search(trace, found.own)
            found = found._replace(attention=attention, prediction=trace.readout(attention))
        reached = divergence(found.attention, trace.alpha)
        upper = np.maximum(found.upper, reached)
        return keys(trace).with_columns(
            pl.Series("emax_jsd", reached),
            pl.Series("emax_jsd_upper", upper),
            pl.Series("certified", upper - reached <= CERTIFIED_GAP),
            pl.Series("delta_y", tvd(found.prediction, found.own)),
            list_column("alpha", found.attention),
            vector_column("prediction", found.prediction),
        )

    @property
    def _limit(self) -> float:
        """The TVD within which the search's attentions count."""
        return self.epsilon if self.accept is None else self.accept

    @property
    def _settings(self) -> Search:
        return Search(self.epsilon, self.k, self.steps, self.learning_rate, self.penalty)

    def bounded(self, trace: Trace, epsilon: float) -> Furthest:
        """For every row the furthest attention found with an output within ``epsilon``, and what the JSD of none of them exceeds."""
        readout, alpha = trace.readout, trace.alpha
        own = readout(alpha)
        if one_logit_decides(readout):
            found = furthest_attention(alpha, slab_within(readout, alpha, epsilon))
            return Furthest(found, divergence(found, alpha), readout(found), own)
        if has_compiled_tail(readout):
            found, upper = bounded_attention(
                readout, alpha, epsilon, row_streams(trace, self.seed, self.name), self._settings
            )
        else:
            found, upper = attention_within(readout, alpha, epsilon), unconstrained_bound(alpha)
        prediction = readout(found)
        within = tvd(prediction, own) <= epsilon + ROUNDING
        attention = alpha.with_values(np.where(alpha.spread(within), found.values, alpha.values))
        return Furthest(
            attention,
            np.minimum(upper, unconstrained_bound(alpha)),
            np.where(within[:, None], prediction, own),
            own,
        )

    def _search(self, trace: Trace, baseline: Float[np.ndarray, "n C"]) -> Ragged:
        """Of the attentions that the search ends with, the best one accepted; the model's own where none is."""
        readout, alpha = trace.readout, trace.alpha
        ends = search_attentions(
            readout, alpha, row_streams(trace, self.seed, self.name), self._settings
        )
        best, reached = alpha.values.copy(), np.zeros(len(alpha))
        for end in ends.T:
            candidate = alpha.with_values(end)
            value = divergence(candidate, alpha)
            better = (tvd(readout(candidate), baseline) <= self._limit) & (value > reached)
            best, reached = (
                np.where(alpha.spread(better), end, best),
                np.where(better, value, reached),
            )
        return alpha.with_values(best)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        measures = ("emax_jsd", "emax_jsd_upper", "certified", "delta_y")
        return summarise_means(
            self.name, by_group(table, lambda rows: rows.select(measures)), self.seed
        )

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
        if row is None:
            return
        loose = upper is not None and upper - row["value"] > SEEN_GAP
        yield card_row(
            Adversary.question,
            "mean ε-max JSD, found",
            row,
            f"{f'at most {figure(upper, 3)} (upper bound), ' if loose else ''}ln 2 = 0.693 (maximum of any two attentions)",
            _sentence(row["value"], loose, rows, about),
            mark=upper if loose else LN2,
            scale=(0.0, LN2),
            places=3,
            claim=_claim(row["value"], upper),
        )


def _claim(value: float, upper: float | None) -> Claim | None:
    """Closeness is claimed by the bound, difference by what was found: a search that finds nothing far shows nothing."""
    if upper is not None and upper < CLOSE:
        return Claim(True, "nearly the same output is possible only with weights close to its own")
    if value < CLOSE:
        return None
    possible = "nearly the same output is possible with"
    return Claim(
        False,
        f"{possible} weights that differ from its own {difference(value)}",
        f"{possible} quite different weights",
    )


def _sentence(value: float, loose: bool, rows: SummaryRows, about: About) -> str:
    certified, epsilon = rows.value("adversary", "certified"), about.setting("adversary", "epsilon")
    within = f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"
    reached, seed = furthest_trained(rows), rows.value("seeds", "jsd")
    trained = (
        [f"models trained to do so reach JSD {figure(reached[1])} at TVD {figure(reached[0], 3)}"]
        if reached
        else []
    )
    trained += [f"another seed alone gives JSD {figure(seed)}"] if seed is not None else []
    by_training = f" ({'; '.join(trained)})" if trained else ""
    upper = rows.value("adversary", "emax_jsd_upper")
    further = (
        "; others may differ more"
        if loose and (upper is None or upper - value >= NEARLY_ALL)
        else ""
    )
    shown = (
        ""
        if certified is None
        else f" The weights found are proven to be the most different for {percent(certified)} of {rows.unit}s."
    )
    return (
        f"On average {'a search found' if loose else 'there are'} attention weights that differ from the model's own {difference(value)} "
        f"and keep the output {within} of the original{further}. That they exist does not mean that "
        f"training would find them (Wiegreffe & Pinter 2019){by_training}.{shown}"
        f"{_in_heads(rows)}{rows.apart('adversary', 'emax_jsd', 'Mean divergence found', 3)}{_over_all_words(rows)}"
    )


def _in_heads(rows: SummaryRows) -> str:
    """In how many heads the weights can be exchanged; that they cannot is said by the bound alone."""
    found, upper = (rows.of_heads("adversary", name) for name in ("emax_jsd", "emax_jsd_upper"))
    if not found:
        return ""
    if len(upper) == len(found) and all(row["value"] < CLOSE for row in upper.values()):
        return " No head's weights can be exchanged for very different ones without a larger change of the output."
    free = [
        row["value"]
        for row in found.values()
        if (row["value"] if row["low"] is None else row["low"]) >= CLOSE
    ]
    if not free:
        included = _same_output(rows)
        return f" In none of {rows.heads} do the weights found differ much from its own{included}; the bound does not rule such weights out."
    least = min(free)
    return (
        f" In {len(free)} of {rows.heads} the weights found differ {difference(least)}: the mean JSD of each of these heads is "
        f"{figure(least, 3)} or more."
    )


def _same_output(rows: SummaryRows) -> str:
    """The search starts from the weights that `identifiability` finds, so that those are never further from the model's own."""
    return (
        " on average, those with exactly the same output included"
        if rows.value("identifiability", "max_tvd_alpha")
        else " on average"
    )


def _over_all_words(rows: SummaryRows) -> str:
    """For a translator: what these weights do to the distribution over its whole vocabulary."""
    change, within = (rows.get("translation", f"adversary_{name}") for name in ("change", "within"))
    if change is None or within is None:
        return of_kept_words(rows)
    return (
        f"{of_kept_words(rows)} Over the whole vocabulary the weights found change the output by {figure(change['value'])} "
        f"{interval(change)} on average, and by at most ε in {percent(within['value'])} of the rows."
    )


def furthest_trained(rows: SummaryRows) -> tuple[float, float] | None:
    """Mean TVD and mean JSD of the model that differs most in attention, of those trained to, within a mean TVD of `WITHIN`."""
    return max(
        (point for point in trained_adversaries(rows) if point[0] < WITHIN),
        key=lambda point: point[1],
        default=None,
    )


def trained_adversaries(rows: SummaryRows) -> list[tuple[float, float]]:
    """Mean TVD and mean JSD of the models trained to attend elsewhere, one for each λ of the study of adversaries."""
    return [
        (float(rows.rows["adversary", f"tvd_{name}"]["value"]), float(found["value"]))
        for (study, measure), found in rows.rows.items()
        if study == "adversary"
        and measure.startswith("jsd_adversary_")
        and (name := measure.removeprefix("jsd_"))
    ]


def divergence(one: Ragged, other: Ragged) -> Float[np.ndarray, " n"]:
    """JSD of every row of ``one`` to the same row of ``other``, in nats."""
    return np.maximum(one.with_values(jsd_terms(one.values, other.values)).sum(), 0.0)
