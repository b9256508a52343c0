"""The line on top of a card: what may be claimed where heatmaps are shown, of all predictions or of each predicted class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from attnaudit.results.card import CardRow, Claim, listed

FOR, AGAINST, BOTH = "for", "against", "both"  # what measures say of heatmaps as an explanation
LONGEST = 60  # characters of a class's name
_SAYS = {True: FOR, False: AGAINST}


@dataclass(frozen=True)
class Sides:
    """The claims that speak for heatmaps as an explanation, and those that speak against them, each once.

    ``apart``, of a predicted class: whether the figures show that it differs from all instances, so that it has a line of its own.
    """

    supporting: tuple[Claim, ...] = ()
    against: tuple[Claim, ...] = ()
    apart: bool = False

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Sides:
        each = {claim.clause: claim for claim in claims}.values()
        return cls(
            tuple(claim for claim in each if claim.supports),
            tuple(claim for claim in each if not claim.supports),
        )

    @classmethod
    def of_class(cls, own: Iterable[CardRow], overall: Iterable[CardRow]) -> Sides:
        """Those of a predicted class.

        It is apart where an interval of its figures is apart from that of all instances; of a class whose measures disagree, one that says
        what those of all do not. A class for which all that is measured speaks must answer every measure that speaks against all, and the
        figure that decides must have its interval apart.
        """
        all_rows = {(row.experiment, row.name): row for row in overall}
        rows = {
            (row.experiment, row.name): row
            for row in own
            if row.claim and (row.experiment, row.name) in all_rows
        }
        sides, of_all = (
            cls.of(row.claim for row in found.values() if row.claim) for found in (rows, all_rows)
        )
        telling = {
            key
            for key, row in rows.items()
            if row.claim and (sides.verdict != BOTH or of_all.verdict != _SAYS[row.claim.supports])
        }
        apart = any(
            _disjoint((rows[key].low, rows[key].high), (all_rows[key].low, all_rows[key].high))
            for key in telling
        )
        opposed = {key for key, row in all_rows.items() if row.claim and not row.claim.supports}
        answered = all(
            key in rows and _disjoint(_decided(rows[key]), _decided(all_rows[key]))
            for key in opposed
        )
        return replace(sides, apart=apart and (bool(sides.against) or answered))

    @property
    def verdict(self) -> str:
        """`FOR` or `AGAINST` where all say the same, `BOTH` where they disagree; empty where they say nothing."""
        if self.supporting and self.against:
            return BOTH
        return FOR if self.supporting else AGAINST if self.against else ""

    @property
    def because(self) -> str:
        """The clauses, to be put behind a sentence that says the verdict; empty where there are none."""
        if self.verdict == BOTH:
            return f". For: {_clauses(self.supporting)}. Against: {_clauses(self.against)}"
        return f": {_clauses(self.supporting or self.against)}" if self.verdict else ""

    def shared(self, others: Iterable[Sides]) -> Sides:
        """What is claimed by all of ``others`` too, whatever their figures."""
        general = [
            {claim.general for claim in (*sides.supporting, *sides.against)} for sides in others
        ]
        own = (claim.general for claim in (*self.supporting, *self.against))
        return (
            Sides.of(claim for claim in own if all(claim in other for other in general))
            if general
            else self
        )


def _clauses(claims: Iterable[Claim]) -> str:
    return "; ".join(claim.clause for claim in claims)


def _decided(row: CardRow) -> tuple[float | None, float | None]:
    """The interval of the figure that decides the claim of a row."""
    return (
        (row.low, row.high) if row.claim is None or row.claim.decided is None else row.claim.decided
    )


def _disjoint(
    one: tuple[float | None, float | None], other: tuple[float | None, float | None]
) -> bool:
    """Whether two intervals have no number in common; False where an end is not known."""
    (low, high), (other_low, other_high) = one, other
    if low is None or high is None or other_low is None or other_high is None:
        return False
    return low > other_high or high < other_low


def claimed(
    rows: Iterable[CardRow],
    model: str = "this model",
    of_studies: bool = False,
    classes: Mapping[str, Sides] | None = None,
) -> str:
    """What may be claimed where heatmaps of ``model`` are shown, from the claims of ``rows``; where these disagree each side has a line.

    ``of_studies``: the rows are of studies without an audit, which speak for or against an explanation, and say nothing of the rest.
    ``classes`` has what `Sides.of_class` says of each predicted class: a mean over all may describe none of them.
    """
    found, of_classes = Sides.of(row.claim for row in rows if row.claim), classes or {}
    if divided := _by_class(model, of_classes):
        return divided
    apart = _apart_from(found.verdict, of_classes)
    if found.verdict == BOTH:
        return (
            f"Heatmaps of {model} show where it puts weight; the measures below disagree on whether that explains its predictions.\n"
            f"For: {_clauses(found.supporting)}.\nAgainst: {_clauses(found.against)}.{apart}"
        )
    if of_studies:
        heatmaps = f"heatmaps of {model} as explanations of its predictions"
        says = (
            f"This speaks {found.verdict}"
            if found.verdict
            else "Nothing below speaks for or against"
        )
        return f"{says} {heatmaps}{found.because}."
    if found.verdict == FOR:
        return f"Heatmaps of {model} may be shown as one explanation of its predictions, not as the only one{found.because}.{apart}"
    because = found.because or ": nothing below shows that its predictions depend on it"
    return f"Claim only that heatmaps of {model} show where it puts weight, not why it predicts what it does{because}.{apart}"


def _by_class(model: str, classes: Mapping[str, Sides]) -> str:
    """A line for each verdict, where every class with a verdict is apart from all instances and verdicts differ; else nothing."""
    said = {name: sides for name, sides in classes.items() if sides.verdict}
    verdicts = [
        verdict
        for verdict in (FOR, AGAINST, BOTH)
        if any(sides.verdict == verdict for sides in said.values())
    ]
    if len(verdicts) < 2 or not all(sides.apart for sides in said.values()):
        return ""
    heatmaps, lines = f"heatmaps of {model}", []
    for verdict in verdicts:
        names, because = _of_verdict(verdict, said)
        if verdict == FOR:
            line = f"Heatmaps of {model} may be shown as one explanation of its predictions of {names}, not as the only one"
        elif verdict == AGAINST:
            line = f"For predictions of {names}, claim only that {heatmaps} show where it puts weight, not why it predicts what it does"
        else:
            line = f"For predictions of {names}, the measures disagree on whether heatmaps explain them"
        lines.append(f"{line}{because}.")
        heatmaps = "heatmaps"
    if silent := [_quoted(name) for name in classes if name not in said]:
        lines.append(
            f"For predictions of {listed(silent)}, too little is known: claim only that heatmaps show where it puts weight."
        )
    return "\n".join(lines)


def _apart_from(overall: str, classes: Mapping[str, Sides]) -> str:
    """A line for each verdict that is not the one on all instances, on the classes that it is true of; empty where none is."""
    apart = {
        name: sides for name, sides in classes.items() if sides.apart and sides.verdict != overall
    }
    lines = []
    for verdict in (FOR, AGAINST, BOTH):
        names, because = _of_verdict(verdict, apart)
        says = (
            "disagree on whether heatmaps explain them"
            if verdict == BOTH
            else f"speak {verdict} them"
        )
        lines += (
            [f"\nAmong predictions of {names} alone, the measures {says}{because}."]
            if names
            else []
        )
    return "".join(lines)


def _of_verdict(verdict: str, classes: Mapping[str, Sides]) -> tuple[str, str]:
    """The classes of a verdict, and why: of several the clauses that are true of each; both empty where none is."""
    found = {name: sides for name, sides in classes.items() if sides.verdict == verdict}
    if not found:
        return "", ""
    first, *others = found.values()
    shared = first.shared(others)
    return listed(
        [_quoted(name) for name in found]
    ), shared.because if shared.verdict == verdict else ""


def _quoted(name: str) -> str:
    """A class as its name, on one line and cut where it is long."""
    flat = " ".join(name.split())
    return f"“{flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + '…'}”"
