"""Phrases that several cards share."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from attnaudit.core import count, thousands
from attnaudit.experiments.findings import UNCLEAR, Finding
from attnaudit.experiments.verdict import rank_scores, replacement_texts
from attnaudit.report.words import figure, name_head, name_heads
from attnaudit.results import SCORES, About, SummaryRows
from attnaudit.results.summary import head_of, texts
from attnaudit.stats.inference import FEWEST
from attnaudit.trace import SHOWN

APART = 0.1  # groups whose means differ by less, or within their intervals, are not listed
REFERENCES = {"loo": "leave-one-out", "gradient": "the gradient"}
MOST_NAMED = 6  # of more groups only the lowest and the highest are named


def undecided(finding: Finding | None, rows: SummaryRows) -> str:
    """Say that there are not enough texts to tell, and how many would do; else nothing."""
    if finding is None or finding.code != UNCLEAR:
        return ""
    if (texts := replacement_texts(finding, rows, rows)) is not None:
        return f" Words were replaced in too few texts; {replacing(texts)}."
    return f" Not enough texts for a conclusion{enough(finding.needed)}."


def enough(needed: int | None) -> str:
    """Say how many texts would do; empty if unknown."""
    if needed is None:
        return ""
    # Two digits: widths of intervals are estimates themselves.
    digits = max(floor(log10(needed)) - 1, 0)
    return f"; about {thousands(round(needed, -digits))} would do"


def replacing(texts: int) -> str:
    """Name the option that replaces words in enough texts."""
    return f"--set replacement.texts={texts} replaces enough"


def of_head(rows: SummaryRows) -> str:
    """Say whose weights are replaced, to be put behind a word; empty without heads."""
    if rows.audited is None and rows.head is None:
        return ""
    return " of this head" if rows.head is not None else " of one head"


def heatmap_shown(about: About) -> str:
    """Say how the heatmap that people are shown is made; empty if the trace does not name one."""
    name, sizes = about.heatmap, about.heads_of_text
    if name == "mean-last" and sizes:
        return f"mean of the {count(sizes[-1], 'head')} of the last layer"
    if name == "mean-all" and sizes:
        return f"mean of all {count(sum(sizes), 'head')}"
    if name.startswith("head:"):
        return name_head(head_of(name))
    measured = name.replace("-", "_")
    size = " (absolute values)" if measured in ("gradient_input", "integrated_gradients") else ""
    return f"{SCORES.get(measured, name)}{size}"


def is_of_weights(about: About) -> bool:
    """Return whether heatmaps are made of the model's attention."""
    made = ("", "mean-last", "mean-all", "rollout", "value-zeroing")
    return about.heatmap in made or about.heatmap.startswith("head:")


def name_score(name: str) -> str:
    """Name a score: ``leave-one-out``."""
    return SCORES.get(name, name.replace("_", " "))


def other_heatmap(rows: SummaryRows) -> str:
    """Say which score is shown to be a better heatmap than the one shown, or that none is."""
    ranking = rank_scores(rows)
    if ranking is None or rows.heatmap != SHOWN:
        return ""
    if ranking.better is None:
        return "no score is shown to be a better heatmap"
    best, own = (figure(ranking.scores[name]["value"]) for name in (ranking.better, SHOWN))
    title = name_score(ranking.better)
    return f"{title} is a better heatmap on these texts: {best} against {own}"


def left_out(rows: SummaryRows) -> str:
    """Count the rows of one word, which no measure of attention uses; else nothing."""
    # The largest weight is defined for all others.
    row = rows.get("permutation", "max_alpha")
    if row is None or not row["undefined"]:
        return ""
    number = count(row["undefined"], rows.unit)
    return f" Left out: {number} of one word, whose attention is 1 by definition."


def heads(rows: SummaryRows) -> str:
    """Count the audited heads: ``4 heads of layer 3``; empty without heads."""
    return "" if rows.audited is None else name_heads(rows.audited.names)


def across(rows: SummaryRows, experiment: str, measure: str) -> str:
    """List the means of predicted classes and of heads that differ; else nothing.

    Args:
        rows: Summary rows.
        experiment: Experiment of the measure.
        measure: The measure.
    """
    by_class = [f"{name} {mean}" for name, mean in _differing(rows.classes(experiment, measure))]
    by_head = [
        f"{mean} ({name_head(head)})" for head, mean in _differing(rows.heads(experiment, measure))
    ]
    text, some = "", f" ({FEWEST} texts or more)"
    if by_class:
        ends = f"{by_class[0]} to {by_class[-1]}, with {len(by_class) - 2} between"
        shown = ", ".join(by_class) if len(by_class) <= MOST_NAMED else ends
        text += f" By predicted class{some}: {shown}."
    if by_head:
        text += f" By head{some}: {by_head[0]} to {by_head[-1]}."
    return text


def _differing(groups: Mapping[Any, dict[str, Any]]) -> Sequence[tuple[Any, str]]:
    """Return the groups in ascending order if the ends differ, with intervals apart."""
    known = [
        (name, row)
        for name, row in groups.items()
        if row["low"] is not None and (texts(row) or 0) >= FEWEST
    ]
    known.sort(key=lambda group: group[1]["value"])
    if len(known) < 2:
        return []
    # A mean over all describes no group if some lie apart; else the list would be noise.
    (_, least), (_, most) = known[0], known[-1]
    differ = most["value"] - least["value"] >= APART and most["low"] > least["high"]
    return [(name, figure(row["value"])) for name, row in known] if differ else []
