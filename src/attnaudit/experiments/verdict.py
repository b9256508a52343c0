"""Decide what may be claimed when heatmaps of a model are shown: one of four answers.

One figure decides: with words replaced, how well attention foretells the fall of the output, as a
share of how well leave-one-out does (`replacement_share`). It does not depend on the scale of the
logits. The threshold was fitted on models of known truth, and the error rates measured on others
(docs/verdict.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from json import loads
from typing import Any, Literal

import polars as pl

from attnaudit.experiments.findings import (
    AGAINST,
    FEW,
    FOR,
    HIGH,
    NEITHER,
    Finding,
    decide,
    skill,
)
from attnaudit.experiments.replacement import LIMIT, REFERENCES, SHARE
from attnaudit.results.summary import SummaryRows, instances
from attnaudit.stats.inference import wilson_interval

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
        reason: Reason for ``none``: ``no_replacement``, the trace has no copies with words
            replaced; ``no_reference``, no importance measure to compare with; ``no_words``, the
            reference is not shown to find words that decide; ``no_skill``, the model is not shown
            to beat a baseline; ``few`` or ``unclear``, not enough texts.
        score: Share of the reference's correlation that attention reaches.
        low: Lower end of its 95 % interval.
        high: Upper end.
        texts: Number of texts.
        needed: Rough number of texts that would decide; None if unknown.
        classes: The answer of each predicted class.
    """

    code: Code
    reason: str = ""
    score: float | None = None
    low: float | None = None
    high: float | None = None
    texts: int | None = None
    needed: int | None = None
    classes: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def error(self) -> tuple[float, float, float] | None:
        """Share of held-out models of the other truth that get this answer, with its interval."""
        truth = {"show": "unfaithful", "where": "faithful"}.get(self.code)
        counts = held_out().get(truth or "", {})
        total = sum(counts.values())
        if not total:
            return None
        wrong = counts.get(self.code, 0)
        return wrong / total, *wilson_interval(wrong, total)

    def to_json(self) -> dict[str, Any]:
        """Return what ``verdict.json`` holds."""
        plain = asdict(replace(self, classes={})) | {"error": self.error}
        return plain | {"classes": {name: one.to_json() for name, one in self.classes.items()}}


def decide_verdict(summary: pl.DataFrame | SummaryRows) -> Verdict:
    """Decide from a summary.

    Args:
        summary: Rows of an audit.

    Returns:
        The answer, with one for each predicted class. If classes have opposite answers, that over
        all is ``mixed``.
    """
    rows = summary if isinstance(summary, SummaryRows) else SummaryRows.of(summary)
    scores = (skill(rows, name) for name in QUALITY)
    if any(score is not None and not score.shown for score in scores):
        return Verdict("none", "no_skill")
    classes = {name: _of_rows(rows.of_class(name)) for name in sorted(rows.predicted)}
    overall = replace(_of_rows(rows), classes=classes)
    opposite = {"show", "where"} <= {one.code for one in classes.values()}
    return replace(overall, code="mixed", reason="", needed=None) if opposite else overall


def follows(rows: SummaryRows) -> Finding | None:
    """Judge whether the output follows the attended words; None if no words were replaced.

    Codes: those of `decide`; ``no_reference``; ``no_words`` if the reference is not shown to find
    words that decide.
    """
    if rows.get("replacement", "replacement_attention") is None:
        return None
    share = rows.get("replacement", SHARE)
    known = (rows.get("replacement", f"replacement_{name}") for name in REFERENCES)
    reference = next(filter(None, known), None)
    nothing = Finding("replacement", SHARE, NEITHER, "no_reference")
    if reference is None:
        return nothing
    # A share of a correlation that may be 0 says nothing.
    finds = decide(reference, REFERENCE).code
    if share is None or finds != HIGH:
        return replace(nothing, code=FEW if finds == FEW else "no_words")
    return decide(share, LIMIT, FOR, AGAINST)


def _of_rows(rows: SummaryRows) -> Verdict:
    found, share = follows(rows), rows.get("replacement", SHARE) or {}
    if found is None:
        return Verdict("none", "no_replacement")
    code: Code = "show" if found.side == FOR else "where" if found.side == AGAINST else "none"
    reason, ends = "" if found.side else found.code, map(share.get, ("value", "low", "high"))
    return Verdict(code, reason, *ends, texts=instances(share), needed=found.needed)


@cache
def held_out() -> Mapping[str, Mapping[str, int]]:
    """Return the number of held-out models by truth and answer; empty if none are recorded."""
    path = files("attnaudit").joinpath("experiments/verdict.json")
    return loads(path.read_text("utf-8"))["models"] if path.is_file() else {}
