"""How different can attention be while the output stays the same? (Jain & Wallace 2019, §4.2.2, Algorithm 3)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale, Violins
from attnaudit.results.words import LN2, difference, figure, interval, percent

QUESTION = "How different can attention be with nearly the same output?"

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


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
    if row is None:
        return
    loose = upper is not None and upper - row["value"] > SEEN_GAP
    yield card_row(
        QUESTION,
        "mean ε-max JSD, found",
        row,
        f"{f'at most {figure(upper, 3)} (upper bound), ' if loose else ''}ln 2 = 0.693 (maximum of any two attentions)",
        _sentence(row["value"], loose, rows, about),
        mark=upper if loose else LN2,
        scale=(0.0, LN2),
        places=3,
        claim=_claim(row["value"], upper),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
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
    ),
)
