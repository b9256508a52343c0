"""The line on top of a card: what may be claimed when heatmaps are shown, over all or by class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from attnaudit.experiments.findings import AGAINST, BOTH, FEW, FOR, UNCLEAR, side_of
from attnaudit.report.cards.card import CardRow
from attnaudit.report.words import listed

LONGEST = 60  # characters of a class's name: the line must stay one that people read


class ClassRows(NamedTuple):
    """The card rows of one predicted class.

    Attributes:
        rows: The rows, each with what it claims.
        differs: Whether the figures show that the class differs from all instances.
    """

    rows: tuple[CardRow, ...]
    differs: bool

    @property
    def side(self) -> str:
        """The side that the rows take together."""
        return side_of(row.side for row in self.rows)


Claims = tuple[tuple[str, str], ...]
"""Side and clause of each claim, once."""


def claimed(
    rows: Sequence[CardRow],
    model: str = "this model",
    of_studies: bool = False,
    classes: Mapping[str, ClassRows] | None = None,
) -> str:
    """Say what may be claimed when heatmaps are shown.

    If every class that takes a side differs from all, and they take different ones, there is a
    line for each side; else one on all, and further ones on the classes that differ from it.

    Args:
        rows: The rows of a card.
        model: The name of the model whose heatmaps they are.
        of_studies: Whether the rows are of studies without an audit, which speak for or against an
            explanation and say nothing of the rest.
        classes: The rows of each predicted class, which a mean over all need not describe.
    """
    claims, by_class = _claims(rows), classes or {}
    side, because = side_of(own for own, _ in claims), _because(claims)
    known = {name: own for name, own in by_class.items() if own.side}
    divided = len({own.side for own in known.values()}) > 1
    divided = divided and all(own.differs for own in known.values())
    codes = {row.finding.code for row in rows if row.finding is not None and not row.of_model}
    if divided:
        lines = []
    elif of_studies and side != BOTH:
        says = f"This speaks {side}" if side else "Nothing below speaks for or against"
        lines = [f"{says} heatmaps of {model} as explanations of its predictions{because}."]
    # "Nothing shows that predictions depend on it" would blame the model for few texts.
    elif not claims and codes and codes <= {UNCLEAR, FEW}:
        lines = [f"No conclusion about heatmaps of {model}: there are not enough texts to tell."]
    else:
        because = because or ": nothing below shows that its predictions depend on it"
        lines = [f"{_statement(side, model)}{because}."]
    for one in (FOR, AGAINST, BOTH):
        names, because = _of_side(
            one,
            {
                name: own.rows
                for name, own in known.items()
                if own.side == one and (divided or (own.differs and one != side))
            },
        )
        if names:
            lines.append(f"{_statement(one, model, names)}{because}.")
    if silent := [_quoted(name) for name in by_class if divided and name not in known]:
        lines.append(
            f"For predictions of {listed(silent)}, too little is known: claim only that heatmaps "
            "show where it puts weight."
        )
    return "\n".join(lines)


def _statement(side: str, model: str, names: str = "") -> str:
    """Say what may be claimed of all predictions, or of those of some classes."""
    of, claim = (f" of {names}", f"For predictions of {names}, claim") if names else ("", "Claim")
    if side == FOR:
        return (
            f"Heatmaps of {model} may be shown as one explanation of its predictions{of}, not as "
            "the only one"
        )
    if side == BOTH:
        return (
            f"Heatmaps of {model} show where it puts weight; the measures below disagree on "
            f"whether that explains its predictions{of}"
        )
    return (
        f"{claim} only that heatmaps of {model} show where it puts weight, not why it predicts "
        "what it does"
    )


def _claims(rows: Iterable[CardRow], general: bool = False) -> Claims:
    claims = ((row.side, row.general if general else row.clause) for row in rows if row.side)
    return tuple(dict.fromkeys(claims))


def _because(claims: Claims) -> str:
    """Return the clauses, to be put behind a sentence that says which side they take."""
    by_side = {
        side: "; ".join(clause for own, clause in claims if own == side) for side in (FOR, AGAINST)
    }
    side = side_of(own for own, _ in claims)
    if side == BOTH:
        return f".\nFor: {by_side[FOR]}.\nAgainst: {by_side[AGAINST]}"
    return f": {by_side[side]}" if side else ""


def _of_side(side: str, classes: Mapping[str, Sequence[CardRow]]) -> tuple[str, str]:
    """Name classes that take one side, with the clauses that are true of each of them."""
    # Several classes share a reason only in its general form: their figures differ.
    each = [_claims(rows, len(classes) > 1) for rows in classes.values()]
    shared = tuple(claim for claim in each[0] if all(claim in one for one in each)) if each else ()
    because = _because(shared) if side_of(own for own, _ in shared) == side else ""
    return listed([_quoted(name) for name in classes]), because


def _quoted(name: str) -> str:
    """Quote the name of a class on one line, cut if it is long."""
    flat = " ".join(name.split())
    return f"“{flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + '…'}”"
