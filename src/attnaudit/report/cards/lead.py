"""The line on top of a card: what may be claimed of heatmaps."""

from collections.abc import Iterable, Sequence

from attnaudit.core import count
from attnaudit.experiments.findings import AGAINST, BOTH, FEW, FOR, UNCLEAR, side_of
from attnaudit.experiments.verdict import Verdict, held_out
from attnaudit.report.cards.card import CardRow
from attnaudit.report.cards.wording import REFERENCES, enough, replacing
from attnaudit.report.words import percent
from attnaudit.results import TEXT
from attnaudit.stats.inference import FEWEST

_CLAIMS = {
    "show": "heatmaps of {model} may be shown as an explanation of its predictions",
    "where": "heatmaps of {model} show where it puts weight, not why it predicts what it does",
    "mixed": "heatmaps of {model} may be shown as an explanation for some predicted classes, not "
    "for others",
}
_OTHER_CLAIMS = {"where": "heatmaps of {model} do not show why it predicts what it does"}
_REASONS = {
    "no_skill": "the model is not shown to be better than guessing",
    "no_replacement": "weights by themselves show nothing, and no words were replaced",
    "no_reference": "there is no importance measure to compare attention with",
    "no_words": "{reference} finds no words that matter",
}


def headline(verdict: Verdict, model: str, of_weights: bool = True) -> str:
    """Say what may be claimed of a model, in one sentence without figures.

    Args:
        verdict: The answer.
        model: Name of the model.
        of_weights: Whether the heatmaps are made of its attention.
    """
    if verdict.code == "none":
        return f"No conclusion about heatmaps of {model}: {reason(verdict)}."
    said = (_CLAIMS if of_weights else _CLAIMS | _OTHER_CLAIMS)[verdict.code].format(model=model)
    return f"{said[0].upper()}{said[1:]}."


def reason(verdict: Verdict) -> str:
    """Say why nothing is concluded, of an answer with the code ``none``."""
    texts = count(verdict.texts or 0, TEXT)
    if verdict.replacement_texts is not None:
        more = replacing(verdict.replacement_texts)
        return f"words were replaced in only {texts}, too few to tell; {more}"
    if verdict.reason == FEW and (verdict.texts or 0) < FEWEST:
        return f"words were replaced in only {texts}, and {FEWEST} or more are needed"
    if verdict.reason == FEW:
        return f"a few of {texts} decide the score, so it has no interval"
    if verdict.reason == UNCLEAR:
        return f"there are not enough texts to tell{enough(verdict.needed)}"
    return _REASONS[verdict.reason].format(reference=REFERENCES.get(verdict.reference or "", ""))


def how_sure(verdict: Verdict | None) -> str:
    """Say how often an answer was wrong for models of known truth; empty if nothing is claimed."""
    error = None if verdict is None else verdict.error
    if verdict is None or error is None:
        return ""
    share, low, high = error
    truth = "unfaithful" if verdict.code == "show" else "faithful"
    kind = "model" if verdict.models == "classifiers" else "transformer"
    total = count(sum(held_out(verdict.models)[truth].values()), kind)
    return (
        f"How often is this answer wrong? {percent(share)} [{percent(low)}, {percent(high)}] of "
        f"{total} built to have {truth} attention got it (docs/verdict.md)."
    )


def of_studies(rows: Sequence[CardRow], model: str) -> str:
    """Say what studies, which train again, show; empty without any."""
    if not rows:
        return ""
    claims = dict.fromkeys((row.side, row.clause) for row in rows if row.side)
    side = side_of(own for own, _ in claims)
    codes = {row.finding.code for row in rows if row.finding is not None}
    if not claims and codes and codes <= {UNCLEAR, FEW}:
        return f"No conclusion from studies of {model}: there are not enough texts to tell."
    if not side:
        return f"Nothing in the studies speaks for or against heatmaps of {model}."
    if side == BOTH:
        return "\n".join(
            (
                f"Studies disagree on whether heatmaps of {model} explain its predictions.",
                f"For: {_clauses(claims, FOR)}.",
                f"Against: {_clauses(claims, AGAINST)}.",
            )
        )
    return (
        f"Studies speak {side} heatmaps of {model} as explanations of its predictions: "
        f"{_clauses(claims, side)}."
    )


def _clauses(claims: Iterable[tuple[str, str]], side: str) -> str:
    return "; ".join(clause for own, clause in claims if own == side)
