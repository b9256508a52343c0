"""Decide what may be claimed from an audit: one policy of thresholds, one rule per measure.

A rule reads summary rows and returns a `Finding`: the figure that decides, the side it takes, and
a code for the reason. Cards put findings into words.

An end of an interval decides, never its middle. A figure decides nothing if its interval contains
the threshold, and a difference that is merely not significant is no evidence of equality.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.results import Row, SummaryRows
from attnaudit.results.summary import texts
from attnaudit.stats.inference import FEWEST
from attnaudit.stats.measures import LN2

FOR, AGAINST, BOTH, NEITHER = "for", "against", "both", ""
"""Sides: for heatmaps as an explanation, against them, some for and some against, or neither."""

HIGH, LOW = "high", "low"
"""Reasons: the interval lies above the threshold, or below it."""
UNCLEAR, FEW = "unclear", "few"
"""Reasons for no conclusion: the interval contains the threshold; no interval or too few texts."""


@dataclass(frozen=True)
class Policy:
    """Thresholds of meaning. They are conventions, the same for every model.

    Attributes:
        matters: Smallest change of a probability of 0.9 that counts as dependence of the output:
            half of the way to a tie.
        flat: Mean TVD from uniform weights below which shuffled attention is much like the model's
            own, so a small change means nothing.
        close: JSD below which two attentions differ only a little: a quarter of the maximum.
        different: JSD from which two attentions are quite different: half of the maximum.
        agrees: Share of the agreement between two importance measures at which attention agrees
            as well as they do.
        reference: Kendall's tau below which two importance measures set no standard.
        hardly: Loss of score of a retrained model that must be excluded by the interval before the
            model is said to lose hardly anything.
        trained: Mean TVD below which a model trained to attend elsewhere predicts the same.
    """

    matters: float = 0.2
    flat: float = 0.25
    close: float = 0.25 * LN2
    different: float = 0.5 * LN2
    agrees: float = 0.85
    reference: float = 0.1
    hardly: float = 0.03
    trained: float = 0.05


POLICY = Policy()
# A larger estimate of the texts needed is not reported: the value is practically the threshold.
MOST_TEXTS = 1_000_000


@dataclass(frozen=True)
class Finding:
    """Decision of one figure.

    Attributes:
        experiment: Experiment of the figure.
        measure: Measure of the figure.
        side: FOR or AGAINST heatmaps; NEITHER for no conclusion.
        code: The reason.
        low: Lower end of the figure's interval.
        high: Upper end of the figure's interval.
        needed: Rough number of texts that would decide if the value stayed; None if unknown.
        place: Where the figure lies between the sides, in units of the threshold: -1 speaks
            against heatmaps, 0 is the threshold, 1 speaks for them; None without sides.
    """

    experiment: str
    measure: str
    side: str
    code: str
    low: float | None = None
    high: float | None = None
    needed: int | None = None
    place: float | None = None

    @property
    def figure(self) -> tuple[str, str]:
        """Experiment and measure of the figure that decides."""
        return self.experiment, self.measure


def decide(
    row: Row,
    limit: float,
    above: str = NEITHER,
    below: str = NEITHER,
    fewest: int = FEWEST,
) -> Finding:
    """Compare the interval of a summary row with a threshold.

    Args:
        row: The summary row.
        limit: The threshold.
        above: Side of the figure if its whole interval is at or above the threshold.
        below: Side of the figure if its whole interval is below the threshold.
        fewest: Number of texts, or seeds, below which nothing is decided.
    """
    value, low, high, number = row["value"], row["low"], row["high"], texts(row)
    direction = (above == FOR or below == AGAINST) - (above == AGAINST or below == FOR)
    place = (
        max(-1.0, min(direction * (value - limit) / limit, 1.0)) if direction and limit else None
    )
    found = Finding(row["experiment"], row["measure"], NEITHER, FEW, low, high, place=place)
    # Without an interval the error is unknown, and intervals of few texts are too narrow.
    if low is None or high is None or (number is not None and number < fewest):
        return found
    if low >= limit:
        return replace(found, side=above, code=HIGH)
    if high < limit:
        return replace(found, side=below, code=LOW)
    half = value - low if value > limit else high - value
    needed = None
    if number is not None and value != limit:
        # Widths of intervals shrink as 1/sqrt(n).
        estimate = ceil(number * (half / (value - limit)) ** 2)
        needed = estimate if estimate <= MOST_TEXTS else None
    return replace(found, code=UNCLEAR, needed=needed)


def shuffling(rows: SummaryRows) -> Finding | None:
    """Judge shuffled weights by the change of the output at matched confidence.

    Code ``flat``: the attention is so flat that a small change proves nothing.
    """
    row, uneven = (
        rows.get("permutation", name) for name in ("matched_delta_y", "alpha_from_uniform")
    )
    if row is None:
        return None
    found = decide(row, POLICY.matters, FOR, AGAINST)
    # Nearly equal weights stay nearly equal when they are shuffled.
    if found.side == AGAINST and uneven is not None and decide(uneven, POLICY.flat).code != HIGH:
        return replace(found, side=NEITHER, code="flat")
    return found


def agreement(rows: SummaryRows, score: str) -> Finding | None:
    """Judge attention's agreement with an importance score against that of two such scores.

    The paired difference decides: it must be clearly small, or clearly not small, compared with
    the reference. Codes: ``no_reference``, ``weak_reference``; ``none`` for no agreement at all.
    """
    tau = rows.get("correlation", f"tau_{score}")
    if tau is None:
        return None
    measure = f"tau_gradient_loo_minus_tau_{score}"
    nothing = Finding("correlation", measure, NEITHER, "no_reference")
    reference = rows.get("correlation", "tau_gradient_loo")
    if reference is None:
        return nothing
    if decide(reference, POLICY.reference).code != HIGH:
        return replace(nothing, code="weak_reference")
    gap = rows.get("correlation", measure)
    if gap is None:
        return replace(nothing, code=FEW)
    missing = 1.0 - POLICY.agrees
    # The reference has an interval too: its lower end for a small gap, its upper for a large one.
    as_well = decide(gap, missing * reference["low"], NEITHER, FOR)
    if as_well.side:
        return as_well
    less_well = decide(gap, missing * reference["high"], AGAINST)
    none = less_well.side and tau["high"] is not None and tau["high"] <= 0
    return replace(less_well, code="none") if none else less_well


def largest_change(rows: SummaryRows) -> Finding | None:
    """Judge the largest change by its upper bound: only that can show that no weights matter."""
    upper = rows.get("maximal_change", "matched_max_delta_y_upper")
    return None if upper is None else decide(upper, POLICY.matters, NEITHER, AGAINST)


def furthest(rows: SummaryRows) -> Finding | None:
    """Judge the adversary at matched confidence.

    It speaks against attention if other attention with nearly the same output is clearly farther
    than exchanging the attended words explains, and for attention if none is far at all.
    """
    row = rows.get("adversary", "matched_emax_jsd")
    beyond = rows.get("adversary", "matched_emax_jsd_minus_exchange_jsd")
    if row is None or beyond is None:
        return None
    near = decide(row, POLICY.close, NEITHER, FOR)
    return near if near.side else decide(beyond, POLICY.close, AGAINST)


def comprehensiveness(rows: SummaryRows) -> Finding | None:
    """Judge the most attended tokens by how much more the output falls without them.

    The fall is at matched confidence, and is compared with that of random tokens. Code ``small``:
    the difference matters little.
    """
    name = "matched_comprehensiveness"
    gap = rows.get("comprehensiveness", f"{name}_attention_minus_{name}_random")
    if gap is None:
        return None
    found = decide(gap, POLICY.matters, FOR)
    if found.code == LOW:
        worse = gap["high"] < -TOLERANCE.rounding
        return replace(found, side=AGAINST) if worse else replace(found, code="small")
    return found


def side_of(sides: Iterable[str]) -> str:
    """Combine the sides of findings: FOR, AGAINST, BOTH or NEITHER."""
    taken = set(sides) - {NEITHER}
    return BOTH if len(taken) == 2 else next(iter(taken), NEITHER)


class Skill(NamedTuple):
    """Score of a model, with the best baseline that learns nothing.

    Attributes:
        score: Summary row of the score.
        measure: Name of the score, without prefix.
        baseline: Score of the baseline.
        against: Name of the baseline, without prefix.
        shown: Whether the score's interval lies above the baseline.
    """

    score: Mapping[str, Any]
    measure: str
    baseline: float
    against: str
    shown: bool


def skill(rows: SummaryRows, experiment: str, prefix: str = "") -> Skill | None:
    """Judge whether a model beats a baseline that learns nothing; None if unknown.

    Accuracy is compared with the share of the most frequent label: a model may rank texts well
    and yet decide like a constant. Translations are compared by BLEU. Only the first score in the
    summary decides, because testing several would add chances of a false positive.

    Args:
        rows: Summary rows.
        experiment: Experiment or study whose rows are read.
        prefix: Prefix of the measures' names.
    """
    for measure, names in (("accuracy", ("majority",)), ("bleu", ("bleu_copy", "bleu_other"))):
        score = rows.get(experiment, prefix + measure)
        values = {name: rows.value(experiment, prefix + name) for name in names}
        known = {name: value for name, value in values.items() if value is not None}
        if score is not None and known:
            against = max(known, key=lambda name: (known[name], name))
            # Without an interval the value is all that is known of a score.
            least = score["value"] if score["low"] is None else score["low"]
            return Skill(score, measure, known[against], against, least > known[against])
    return None
