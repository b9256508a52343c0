"""Decide what may be claimed from an audit: one policy of thresholds, one rule per measure.

A rule reads summary rows and returns a `Finding`: the figure that decides, the side it takes, and
a code for the reason. Cards put findings into words.

An end of an interval decides, never its middle. A figure decides nothing if its interval contains
the threshold, and a difference that is merely not significant is no evidence of equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from attnaudit.results.summary import SummaryRows, instances
from attnaudit.stats.inference import FEWEST
from attnaudit.stats.measures import LN2

FOR, AGAINST, BOTH, NEITHER = "for", "against", "both", ""
"""Sides: figures speak for heatmaps as an explanation, against them, some for and some against."""

HIGH, LOW = "high", "low"
"""Reasons: the interval lies above the threshold, or below it."""
UNCLEAR, FEW = "unclear", "few"
"""Reasons for no conclusion: the interval holds the threshold; no interval, or too few texts."""


@dataclass(frozen=True)
class Policy:
    """Thresholds of meaning. They are conventions, the same for every model.

    Attributes:
        matters: Smallest change of a probability that counts as dependence of the output. It is
            clearly more than the rounding of a displayed percentage or the noise of a seed.
        flat: Mean largest weight below which shuffled attention is much like the model's own, so
            a small change means nothing. It is the end of Jain & Wallace's lowest bin.
        close: JSD below which two attentions differ only a little: a quarter of the maximum.
        different: JSD from which two attentions are quite different: half of the maximum.
        most: Weight from which a token has most of the attention.
        nearly: Share of the possible gain over a random order that counts as nearly all of it.
        agrees: Share of the agreement between two importance measures at which attention agrees
            as well as they do. It is above `nearly`, because the reference is no upper bound.
        reference: Kendall's tau below which two importance measures set no standard.
        hardly: Loss of score of a retrained model that must be excluded by the interval before the
            model is said to lose hardly anything.
        trained: Mean TVD below which a model trained to attend elsewhere predicts the same.
        flips: Share of predictions that some removal must flip. If fewer can flip at all, the
            moment of the flip says which texts are decided narrowly, not which tokens matter.
    """

    matters: float = 0.15
    flat: float = 0.25
    close: float = 0.25 * LN2
    different: float = 0.5 * LN2
    most: float = 0.5
    nearly: float = 0.8
    agrees: float = 0.85
    reference: float = 0.1
    hardly: float = 0.03
    trained: float = 0.05
    flips: float = 0.5


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
    """

    experiment: str
    measure: str
    side: str
    code: str
    low: float | None = None
    high: float | None = None
    needed: int | None = None

    @property
    def figure(self) -> tuple[str, str]:
        """Experiment and measure of the figure that decides."""
        return self.experiment, self.measure


def decide(
    row: Mapping[str, Any],
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
        fewest: Number of instances, or seeds, below which nothing is decided.
    """
    value, low, high, number = row["value"], row["low"], row["high"], instances(row)
    found = Finding(row["experiment"], row["measure"], NEITHER, FEW, low, high)
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
    """Judge shuffled weights by the change of the output.

    Code ``flat``: the attention is so flat that a small change proves nothing.
    """
    row, peak = rows.get("permutation", "median_delta_y"), rows.get("permutation", "max_alpha")
    if row is None:
        return None
    found = decide(row, POLICY.matters, FOR, AGAINST)
    # Nearly equal weights stay nearly equal when they are shuffled.
    if found.side == AGAINST and peak is not None and decide(peak, POLICY.flat).code != HIGH:
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
    upper = rows.get("maximal_change", "max_delta_y_upper")
    return None if upper is None else decide(upper, POLICY.matters, NEITHER, AGAINST)


def all_heads(rows: SummaryRows) -> Finding | None:
    """Judge uniform weights in all heads of a layer by the change of the output."""
    row = rows.get("joint", "joint_uniform")
    return None if row is None else decide(row, POLICY.matters, FOR, AGAINST)


def furthest(rows: SummaryRows) -> Finding | None:
    """Judge the adversary: closeness by the bound, difference by the weights found.

    Code ``open``: no distant attention was found, but the bound does not exclude one.
    """
    row, upper = (rows.get("adversary", f"emax_jsd{end}") for end in ("", "_upper"))
    if row is None:
        return None
    if upper is not None and (close := decide(upper, POLICY.close, NEITHER, FOR)).side:
        return close
    # A search that finds no distant attention proves nothing; only the bound shows closeness.
    found = decide(row, POLICY.close, AGAINST)
    return replace(found, code="open") if found.code == LOW else found


def ranges(rows: SummaryRows) -> Finding | None:
    """Judge necessary weights by their lower bound, and possible weights by those found."""
    possible, kept = rows.get("ranges", "mean_possible"), rows.get("ranges", "top_necessary_lower")
    if possible is None:
        return None
    if kept is not None and (must := decide(kept, POLICY.most, FOR)).side:
        return must
    return decide(possible, POLICY.most, AGAINST)


def removal(rows: SummaryRows) -> Finding | None:
    """Judge removal in the order of attention by its share of the possible gain over random.

    Codes: ``few_flip`` if too few predictions can flip; ``no_sooner`` if attention flips them no
    sooner than a random order.
    """
    gain, never = rows.get("erasure", "gain_attention"), rows.get("erasure", "never_minimum")
    if never is None or gain is None:
        return None
    found = decide(gain, POLICY.nearly, FOR, AGAINST)
    # If hardly anything flips, all areas are near 0 and the gain is a ratio of small numbers.
    if decide(never, 1.0 - POLICY.flips).code != LOW:
        return replace(found, side=NEITHER, code="few_flip", needed=None)
    better = rows.get("erasure", "area_attention_minus_area_random")
    if found.side == AGAINST and better is not None and decide(better, 0.0).code == LOW:
        return replace(found, code="no_sooner")
    return found


def comprehensiveness(rows: SummaryRows) -> Finding | None:
    """Judge the most attended tokens by the fall of the output without them.

    Attention is supported if its fall is near the largest that as many tokens can cause, and
    contradicted if its fall is no larger than that of random tokens. Codes: ``nothing_falls`` if no
    ranking finds tokens that matter; ``small`` if attention's fall is too small to matter;
    ``partly`` if its fall is more than chance but less than nearly all.
    """
    name = "comprehensiveness"
    fall, gap = (rows.get(name, f"{name}_attention{end}") for end in ("", f"_minus_{name}_random"))
    if fall is None or gap is None:
        return None
    falls = {
        measure: row
        for (experiment, measure), row in rows.rows.items()
        if experiment == name and measure.startswith(f"{name}_") and "_minus_" not in measure
    }
    others = falls.keys() - {f"{name}_attention", f"{name}_random"}
    largest = max(falls.values(), key=lambda row: row["value"])
    # If no ranking finds tokens that matter, nothing says which ones attention should find.
    # Attention and a random order alone cannot show that: another ranking might.
    if others and decide(largest, POLICY.matters).code != HIGH:
        return replace(decide(fall, POLICY.matters), code="nothing_falls", needed=None)
    random = decide(gap, 0.0)
    if random.code != FEW and gap["high"] <= 0:
        return replace(random, side=AGAINST, code=LOW)
    # A good place in a narrow range is worth little: the fall itself must matter too.
    matters = decide(fall, POLICY.matters)
    if matters.code != HIGH:
        return replace(matters, code="small") if matters.code == LOW else matters
    place = rows.get(name, f"normalised_{name}_attention")
    if place is None:
        return replace(matters, code="partly")
    found = decide(place, POLICY.nearly, FOR)
    return replace(found, code="partly") if found.code == LOW else found


def side_of(sides: Iterable[str]) -> str:
    """Combine the sides of findings: FOR, AGAINST, BOTH or NEITHER."""
    taken = set(sides) - {NEITHER}
    return BOTH if len(taken) == 2 else next(iter(taken), NEITHER)


class Skill(NamedTuple):
    """A model's score, and the best baseline that learns nothing.

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

    Accuracy is compared with the share of the most frequent label: a model may rank instances well
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
