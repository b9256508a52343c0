"""The line on top of a card: what may be claimed when heatmaps are shown, over all or by class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from attnaudit.experiments.verdict import AGAINST, BOTH, FEW, FOR, UNCLEAR, side_of
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


def _claims(rows: Iterable[CardRow], general: bool = False) -> Claims:
    claims = ((row.side, row.general if general else row.clause) for row in rows if row.side)
    return tuple(dict.fromkeys(claims))


def _clauses(claims: Claims, side: str) -> str:
    return "; ".join(clause for own, clause in claims if own == side)


def _because(claims: Claims) -> str:
    """Return the clauses, to be put behind a sentence that says which side they take."""
    side = side_of(own for own, _ in claims)
    if side == BOTH:
        return f". For: {_clauses(claims, FOR)}. Against: {_clauses(claims, AGAINST)}"
    return f": {_clauses(claims, side)}" if side else ""


def claimed(
    rows: Sequence[CardRow],
    model: str = "this model",
    of_studies: bool = False,
    classes: Mapping[str, ClassRows] | None = None,
) -> str:
    """Say what may be claimed when heatmaps are shown.

    Args:
        rows: The rows of a card.
        model: The name of the model whose heatmaps they are.
        of_studies: Whether the rows are of studies without an audit, which speak for or against an
            explanation and say nothing of the rest.
        classes: The rows of each predicted class, which a mean over all need not describe.
    """
    claims, by_class = _claims(rows), classes or {}
    side = side_of(own for own, _ in claims)
    if divided := _by_class(model, by_class):
        return divided
    exceptions = _exceptions(side, by_class)
    because = _because(claims)
    if side == BOTH:
        return (
            f"Heatmaps of {model} show where it puts weight; the measures below disagree on "
            f"whether that explains its predictions.\nFor: {_clauses(claims, FOR)}.\n"
            f"Against: {_clauses(claims, AGAINST)}.{exceptions}"
        )
    if of_studies:
        says = f"This speaks {side}" if side else "Nothing below speaks for or against"
        return f"{says} heatmaps of {model} as explanations of its predictions{because}."
    if side == FOR:
        return (
            f"Heatmaps of {model} may be shown as one explanation of its predictions, not as the "
            f"only one{because}.{exceptions}"
        )
    codes = {row.finding.code for row in rows if row.finding is not None and not row.of_model}
    # "Nothing shows that predictions depend on it" would blame the model for few texts.
    if not claims and codes and codes <= {UNCLEAR, FEW}:
        return (
            f"No conclusion about heatmaps of {model}: there are not enough texts to tell."
            f"{exceptions}"
        )
    because = because or ": nothing below shows that its predictions depend on it"
    return (
        f"Claim only that heatmaps of {model} show where it puts weight, not why it predicts what "
        f"it does{because}.{exceptions}"
    )


def _by_class(model: str, classes: Mapping[str, ClassRows]) -> str:
    """Return a line for each side if every class that takes one differs from all, else nothing."""
    known = {name: own for name, own in classes.items() if own.side}
    sides = [one for one in (FOR, AGAINST, BOTH) if any(own.side == one for own in known.values())]
    if len(sides) < 2 or not all(own.differs for own in known.values()):
        return ""
    heatmaps, lines = f"heatmaps of {model}", []
    for side in sides:
        names, because = _of_side(side, known)
        if side == FOR:
            line = (
                f"Heatmaps of {model} may be shown as one explanation of its predictions of "
                f"{names}, not as the only one"
            )
        elif side == AGAINST:
            line = (
                f"For predictions of {names}, claim only that {heatmaps} show where it puts "
                "weight, not why it predicts what it does"
            )
        else:
            line = (
                f"For predictions of {names}, the measures disagree on whether heatmaps explain "
                "them"
            )
        lines.append(f"{line}{because}.")
        heatmaps = "heatmaps"  # the model is named once
    if silent := [_quoted(name) for name in classes if name not in known]:
        lines.append(
            f"For predictions of {listed(silent)}, too little is known: claim only that heatmaps "
            "show where it puts weight."
        )
    return "\n".join(lines)


def _exceptions(overall: str, classes: Mapping[str, ClassRows]) -> str:
    """Return a line for each side, other than that of all, which some class takes."""
    apart = {name: own for name, own in classes.items() if own.differs and own.side != overall}
    lines = []
    for side in (FOR, AGAINST, BOTH):
        names, because = _of_side(side, apart)
        disagree = "disagree on whether heatmaps explain them"
        says = disagree if side == BOTH else f"speak {side} them"
        if names:
            lines.append(f"\nAmong predictions of {names} alone, the measures {says}{because}.")
    return "".join(lines)


def _of_side(side: str, classes: Mapping[str, ClassRows]) -> tuple[str, str]:
    """Name the classes that take a side, with the clauses that are true of each of them."""
    known = {name: own.rows for name, own in classes.items() if own.side == side}
    if not known:
        return "", ""
    # Several classes share a reason only in its general form: their figures differ.
    shared = _claims(next(iter(known.values())), general=len(known) > 1)
    for rows in known.values():
        shared = tuple(claim for claim in shared if claim in _claims(rows, len(known) > 1))
    because = _because(shared) if side_of(own for own, _ in shared) == side else ""
    return listed([_quoted(name) for name in known]), because


def _quoted(name: str) -> str:
    """Quote the name of a class on one line, cut if it is long."""
    flat = " ".join(name.split())
    return f"“{flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + '…'}”"
