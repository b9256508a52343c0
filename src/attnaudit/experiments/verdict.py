"""Decide what may be claimed when heatmaps of a model are shown: one of four answers.

One figure decides, `replacement_share`: when words are replaced, how well the heatmap predicts the
change of the output, divided by how well leave-one-out does. It does not depend on the scale of the
logits. The threshold was fitted on some models of known truth, and the error rates were measured on
others (docs/verdict.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from json import loads
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from attnaudit.experiments.findings import (
    AGAINST,
    FEW,
    FOR,
    HIGH,
    LOW,
    NEITHER,
    Finding,
    decide,
    skill,
)
from attnaudit.experiments.replacement import LIMIT, REFERENCES, SHARE
from attnaudit.results import TEXT, SummaryRows
from attnaudit.stats.inference import FEWEST, exact_interval, interval_of_several

Code = Literal["show", "mixed", "where", "none"]
REFERENCE = 0.05  # correlation that shows that the reference finds words that decide
QUALITY = ("prediction", "translation")
"""Experiments that measure how well the model predicts."""


@dataclass(frozen=True)
class Verdict:
    """The answer for a model, or for one predicted class.

    Attributes:
        code: ``show``: heatmaps may be shown as an explanation. ``mixed``: that holds for some
            predicted classes and not for others. ``where``: they show where the model puts weight,
            not why it predicts what it does. ``none``: nothing can be concluded.
        reason: Reason for ``none``: ``no_replacement``, no copies with words replaced are
            known; ``no_reference``, no importance measure to compare with; ``no_words``, the
            reference finds no words that decide; ``no_skill``, the model is not shown to beat a
            baseline; ``few`` or ``unclear``, not enough texts.
        reference: The importance measure that attention is compared with: ``loo`` or ``gradient``.
        score: Share of its correlation that attention reaches; None if it is not shown to have one.
        low: Lower end of its 95 % interval.
        high: Upper end.
        texts: Number of texts.
        needed: Rough number of texts that would decide; None if unknown.
        replacement_texts: Value of the setting ``replacement.texts`` that would decide, if words
            were replaced in a part of the texts only; None if the texts themselves are too few.
        classes: The answer of each predicted class.
        models: Kind of the models of known truth that `error` is measured on.
    """

    code: Code
    reason: str = ""
    reference: str | None = None
    score: float | None = None
    low: float | None = None
    high: float | None = None
    texts: int | None = None
    needed: int | None = None
    replacement_texts: int | None = None
    classes: Mapping[str, Verdict] = field(default_factory=dict)
    models: Literal["classifiers", "transformers"] = "classifiers"

    @property
    def error(self) -> tuple[float, float, float] | None:
        """Share of held-out models of the opposite truth that get this answer, with interval."""
        truth = {"show": "unfaithful", "where": "faithful"}.get(self.code)
        counts = held_out(self.models).get(truth or "", {})
        total = sum(counts.values())
        if not total:
            return None
        wrong = counts.get(self.code, 0)
        return wrong / total, *exact_interval(wrong, total)

    def to_json(self) -> dict[str, Any]:
        """Return what ``verdict.json`` holds."""
        plain = asdict(replace(self, classes={})) | {"error": self.error and [*self.error]}
        return plain | {"classes": {name: one.to_json() for name, one in self.classes.items()}}


def decide_verdict(summary: pl.DataFrame | SummaryRows) -> Verdict:
    """Decide from a summary.

    Args:
        summary: Rows of an audit.

    Returns:
        The answer, with one for each predicted class. It is ``mixed`` if two classes, or a class
        and all texts, have opposite answers.
    """
    rows = summary if isinstance(summary, SummaryRows) else SummaryRows.of(summary)
    scores = (skill(rows, name) for name in QUALITY)
    if any(score is not None and not score.shown for score in scores):
        return Verdict("none", "no_skill")
    classes = {name: _of_rows(rows.of_class(name), rows) for name in sorted(rows.predicted)}
    overall = replace(_of_rows(rows, rows), classes=classes)
    opposite = {"show", "where"} <= {one.code for one in (overall, *classes.values())}
    decided: dict[str, Any] = {"reason": "", "needed": None, "replacement_texts": None}
    return replace(overall, code="mixed", **decided) if opposite else overall


def reference_of(rows: SummaryRows) -> str | None:
    """Return the importance measure that attention is compared with; None without any."""
    known = (name for name in REFERENCES if rows.get("replacement", f"replacement_{name}"))
    return next(known, None)


class Ranking(NamedTuple):
    """Scores as heatmaps of the same texts.

    Attributes:
        scores: The summary row of each score's correlation, the highest first.
        better: The best score, if it is shown to be better than the heatmap; else None.
    """

    scores: Mapping[str, dict[str, Any]]
    better: str | None


def rank_scores(rows: SummaryRows) -> Ranking | None:
    """Compare the heatmap that is judged with every other score by the change of the output.

    The best is better if the interval of its lead excludes 0, which is widened for the number of
    scores that it was chosen from. ``random`` is a yardstick and no choice. The heads of a heatmap
    are no heatmaps themselves.

    Returns:
        The ranking; None without other scores.
    """
    leads = rows.family("replacement", f"replacement_{rows.heatmap}_minus_replacement_")
    leads.pop("attention", None)
    known = {
        name: rows.get("replacement", f"replacement_{name}") for name in (rows.heatmap, *leads)
    }
    scores = {name: row for name, row in known.items() if row is not None}
    others = [name for name in leads if name in scores and name != "random"]
    if rows.heatmap not in scores or not others:
        return None
    best, better = max(others, key=lambda name: scores[name]["value"]), False
    lead = leads[best]
    if decide(lead, 0.0).code != FEW:
        ends = (lead[end] for end in ("value", "low", "high"))
        better = interval_of_several(*ends, tests=len(others))[1] < 0.0
    order = sorted(scores, key=lambda name: -scores[name]["value"])
    return Ranking({name: scores[name] for name in order}, best if better else None)


def follows(rows: SummaryRows) -> Finding | None:
    """Judge whether the output follows the attended words; None if no words were replaced.

    Codes: those of `decide`; ``no_reference``; ``no_words`` if the reference finds no words that
    decide; ``mixed``, without a side, if classes have opposite answers.
    """
    found, is_mixed = _follows(rows), decide_verdict(rows).code == "mixed"
    return replace(found, side=NEITHER, code="mixed") if found and is_mixed else found


def _follows(rows: SummaryRows) -> Finding | None:
    """Judge rows without regard to classes."""
    if rows.get("replacement", f"replacement_{rows.heatmap}") is None:
        return None
    name, share = reference_of(rows), rows.get("replacement", SHARE)
    if name is not None:
        # A share of a correlation that may be 0 says nothing.
        finds = decide(rows.rows["replacement", f"replacement_{name}"], REFERENCE)
        if finds.code != HIGH:
            return replace(finds, code="no_words") if finds.code == LOW else finds
    if share is None:
        return Finding("replacement", SHARE, NEITHER, "no_reference")
    return decide(share, LIMIT, FOR, AGAINST)


def replacement_texts(found: Finding, rows: SummaryRows, whole: SummaryRows) -> int | None:
    """Return the number of texts whose words must be replaced for a finding to conclude.

    Args:
        found: A finding of replaced words.
        rows: The rows that it judges.
        whole: Those of all texts, of which ``rows`` may be one class.

    Returns:
        The number; None if the finding concludes, or the trace has too few texts.
    """
    ours = rows.texts(*found.figure)
    needed = FEWEST if found.code == FEW and (ours or 0) < FEWEST else found.needed
    replaced = whole.tested("replacement")
    of_copies = found.experiment == "replacement" and replaced < whole.tested()
    # If a model predicts positions, the setting counts positions; `needed` counts texts.
    if not (of_copies and ours and needed and whole.prediction_unit == TEXT):
        return None
    # The estimate is rough, and short of it a second run would conclude nothing again.
    least = ceil(needed * replaced / ours)
    step = 10 if least < 200 else 100
    rounded = min(ceil(least / step) * step, whole.tested())
    return rounded if least <= rounded else None


def _of_rows(rows: SummaryRows, whole: SummaryRows) -> Verdict:
    found = _follows(rows)
    if found is None:
        return Verdict("none", "no_replacement")
    code: Code = "show" if found.side == FOR else "where" if found.side == AGAINST else "none"
    score = rows.get(*found.figure) if found.measure == SHARE else None
    return Verdict(
        code,
        "" if found.side else found.code,
        reference_of(rows),
        *map((score or {}).get, ("value", "low", "high")),
        texts=rows.texts("replacement", f"replacement_{rows.heatmap}"),
        needed=found.needed,
        replacement_texts=replacement_texts(found, rows, whole),
        models="classifiers" if whole.audited is None else "transformers",
    )


@cache
def held_out(models: str) -> Mapping[str, Mapping[str, int]]:
    """Return the number of held-out models by truth and answer; empty if none are recorded.

    Args:
        models: Kind of the models (`Verdict.models`).
    """
    recorded = loads(Path(__file__).with_name("verdict.json").read_text("utf-8"))
    return recorded.get(models, {}).get("models", {})
