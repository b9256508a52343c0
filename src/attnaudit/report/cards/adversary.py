"""How different can attention be while the output stays the same? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from attnaudit.experiments.verdict import FOR, POLICY, furthest
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.cards.wording import across, heads, kept_words, undecided
from attnaudit.report.charts.specs import FigureSpec, Histogram, Marker, Scale, Violins
from attnaudit.report.words import difference, figure, percent, with_interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.measures import LN2

QUESTION = "How different can attention be with nearly the same output?"
NEARLY_ALL = 5e-3  # of JSD: with a bound this close nothing is said of what a search missed
SEEN_GAP = 5e-4  # a bound closer than this has the same three decimals as the figure


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the divergence of the most different attention found."""
    row, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
    if row is None:
        return
    finding, value = furthest(rows), row["value"]
    loose = upper is not None and upper - value > SEEN_GAP
    possible = "nearly the same output is possible"
    claim = Claim(
        finding,
        f"{possible} with weights that differ from its own {difference(value)}",
        f"{possible} with quite different weights",
    )
    if finding is not None and finding.side == FOR:
        claim = Claim(finding, f"{possible} only with weights close to its own")
    yield card_row(
        QUESTION,
        "mean ε-max JSD, found",
        row,
        (f"at most {figure(upper, 3)} (upper bound), " if loose else "")
        + "ln 2 = 0.693 (maximum of any two attentions)",
        _sentence(value, upper, rows, about) + undecided(finding, "whether that is very different"),
        axis=Axis(mark=upper if loose else LN2, ends=(0.0, LN2), places=3),
        claim=claim,
    )


def within_epsilon(about: About, experiment: str) -> str:
    """Say how much the output may change: ``within ε = 0.01``."""
    epsilon = about.setting(experiment, "epsilon")
    return f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"


def _sentence(value: float, upper: float | None, rows: SummaryRows, about: About) -> str:
    certified = rows.value("adversary", "certified")
    loose = upper is not None and upper - value > SEEN_GAP
    missed = loose and (upper is None or upper - value >= NEARLY_ALL)
    reached, seed = furthest_trained(rows), rows.value("seeds", "jsd")
    trained = []
    if reached:
        jsd, change = figure(reached[1]), figure(reached[0], 3)
        trained.append(f"models trained to do so reach JSD {jsd} at TVD {change}")
    if seed is not None:
        trained.append(f"another seed alone gives JSD {figure(seed)}")
    by_training = f" ({'; '.join(trained)})" if trained else ""
    text = (
        f"On average {'a search found' if loose else 'there are'} attention weights that differ "
        f"from the model's own {difference(value)} and keep the output "
        f"{within_epsilon(about, 'adversary')} of the original"
        f"{'; others may differ more' if missed else ''}. That they exist does not mean that "
        f"training would find them (Wiegreffe & Pinter 2019){by_training}."
    )
    if certified is not None:
        text += (
            f" The weights found are proven to be the most different for {percent(certified)} of "
            f"{rows.unit}s."
        )
    text += _by_head(rows) + across(rows, "adversary", "emax_jsd", "Mean divergence found", 3)
    return text + kept_words(rows) + _over_all_words(rows)


def _by_head(rows: SummaryRows) -> str:
    """Count the heads whose weights can be exchanged; only the bound says that none can."""
    found, upper = (rows.heads("adversary", f"emax_jsd{end}") for end in ("", "_upper"))
    if not found:
        return ""
    if len(upper) == len(found) and all(
        (row["value"] if row["high"] is None else row["high"]) < POLICY.close
        for row in upper.values()
    ):
        return (
            " No head's weights can be exchanged for very different ones without a larger change "
            "of the output."
        )
    free = [
        row["value"]
        for row in found.values()
        if (row["value"] if row["low"] is None else row["low"]) >= POLICY.close
    ]
    if free:
        return (
            f" In {len(free)} of {heads(rows)} the weights found differ {difference(min(free))}: "
            f"the mean JSD of each of these heads is {figure(min(free), 3)} or more."
        )
    # The search starts from the weights that `identifiability` finds: they are never further away.
    same = rows.value("identifiability", "max_tvd_alpha")
    included = ", those with exactly the same output included" if same else ""
    return (
        f" In none of {heads(rows)} do the weights found differ much from its own on average"
        f"{included}; the bound does not rule such weights out."
    )


def _over_all_words(rows: SummaryRows) -> str:
    """Say what the weights found do to a translator's distribution over its whole vocabulary."""
    change = rows.get("translation", "adversary_change")
    within = rows.value("translation", "adversary_within")
    if change is None or within is None:
        return ""
    return (
        f" Over the whole vocabulary the weights found change the output by {with_interval(change)}"
        f" on average, and by at most ε in {percent(within)} of the rows."
    )


def furthest_trained(rows: SummaryRows) -> tuple[float, float] | None:
    """Return mean TVD and JSD of the trained model that differs most and predicts the same."""
    points = ((change["value"], jsd["value"]) for change, jsd in trained_adversaries(rows))
    near = (point for point in points if point[0] < POLICY.trained)
    return max(near, key=lambda point: point[1], default=None)


def trained_adversaries(rows: SummaryRows) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the rows of TVD and JSD of models trained to attend elsewhere, for each λ."""
    return [
        (rows.rows["adversary", measure.replace("jsd", "tvd", 1)], row)
        for (study, measure), row in rows.rows.items()
        if study == "adversary" and measure.startswith("jsd_adversary_")
    ]


def _means(rows: pl.DataFrame) -> tuple[float | None, float | None]:
    """Return the means of the divergence found and of its upper bound."""
    found, upper = (rows[name].fill_nan(None).mean() for name in ("emax_jsd", "emax_jsd_upper"))
    number = (float, int)
    return (
        found if isinstance(found, number) else None,
        upper if isinstance(upper, number) else None,
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
        "Jensen–Shannon divergence from the model's own attention to the most different attention "
        f"found whose output stays within ε{', proven to be the maximum' if proven else ''}. No "
        "two attentions differ by more than ln 2. The farther right, the less the output "
        "determines the weights."
    )


_PEAKED = (
    "The same divergence by the largest weight of the instance. "
    "Low values in the lower rows would mean that peaked attention cannot be replaced."
)
_AXIS = Scale("ε-max JSD", 0.7, (0.0, 0.2, 0.4, 0.6))
_FIGURES = (
    FigureSpec(
        "emax",
        QUESTION,
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
CARD = Card(QUESTION, card_rows, _FIGURES)
