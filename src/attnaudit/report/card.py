"""The verdict card: what an audit found, in degrees, one careful sentence for each question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.calibration.card import is_of_a_calibrated_kind, standing_row
from attnaudit.calibration.degree import shipped
from attnaudit.calibration.separation import NOTE, UNKNOWN_HERE, Separation, separations
from attnaudit.core.numbers import count
from attnaudit.core.printable import as_markup
from attnaudit.experiments import EXPERIMENTS
from attnaudit.report.cards import card
from attnaudit.report.sections.provenance import corpus_title
from attnaudit.results.about import UNKNOWN, About
from attnaudit.results.card import CardRow, SummaryRows, of_enough, without_conclusions
from attnaudit.results.heads import Head, Heads, named
from attnaudit.results.lead import Sides, claimed
from attnaudit.results.skill import no_skill_of_run, skill_unknown
from attnaudit.results.words import INSTANCE

LINES = 7  # of a card; further measures are listed below it


@dataclass(frozen=True)
class VerdictCard:
    """``title`` names model and corpus, ``subtitle`` what was counted; ``rows`` answer one question each, ``further`` those that separate
    faithful from unfaithful attention less well. ``footnote`` says what that means. ``of_studies``: no row is of an audit.

    ``notices`` say why nothing is concluded from some of them. ``model`` is what the line on top calls the model of the heatmaps, and
    ``scope`` says, a line each, what is not known of the model and which of its attention the card is not about. ``unit`` is what the
    numbers are means over, ``drawn`` what their intervals draw, ``audited`` the heads, ``classes`` what
    is claimed of each predicted class alone (`Sides.of_class`).
    """

    title: str
    subtitle: str
    rows: tuple[CardRow, ...]
    notices: tuple[str, ...] = ()
    model: str = "this model"
    scope: str = ""
    unit: str = INSTANCE
    drawn: str = "instances"
    audited: Heads | None = None
    further: tuple[CardRow, ...] = ()
    footnote: str = ""
    of_studies: bool = False
    classes: Mapping[str, Sides] = field(default_factory=dict)

    @property
    def lead(self) -> str:
        """One line: what may be claimed of these heatmaps, or why nothing."""
        decided = not self.notices or any(row.claim for row in self.rows)
        claims = (
            [claimed(self.rows, self.model, self.of_studies, self.classes)]
            if self.rows and decided
            else []
        )
        said = " ".join([*dict.fromkeys(self.notices), *claims])
        return "\n".join(filter(None, (said, self.scope)))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lead": self.lead}

    def print(self, console: Console | None = None) -> None:
        """Print the card as a table, the sentences below their figures."""
        console = console or Console()
        for line in filter(None, self.lead.split("\n")):
            console.print(as_markup(line), style="bold", highlight=False)
        title, caption = as_markup(self.title), as_markup(self.subtitle)
        table = Table(
            title=title,
            caption=caption,
            title_justify="left",
            caption_justify="left",
            show_lines=True,
            expand=True,
        )
        for column, ratio in (
            ("question", 2),
            ("this model", 2),
            ("to compare with", 2),
            ("what it says", 5),
        ):
            table.add_column(column, ratio=ratio)
        for row in self.rows:
            measure = "\n".join(as_markup(line) for line in (row.measure, row.separates) if line)
            answer = (
                f"[bold]{as_markup(row.figure)}[/] {as_markup(row.interval)}\n[dim]{measure}[/]"
            )
            table.add_row(
                as_markup(row.question), answer, as_markup(row.yardstick), as_markup(row.sentence)
            )
        console.print(
            table if self.rows else as_markup(f"{self.title}: no experiment gave a number")
        )
        if self.further:
            listed = "; ".join(
                f"{row.measure} {row.figure} {row.interval}".rstrip() for row in self.further
            )
            console.print(as_markup(f"Further measures: {listed}."), highlight=False)
        if self.footnote:
            console.print(as_markup(self.footnote), style="dim", highlight=False)


def verdict(summary: pl.DataFrame, about: About | dict[str, Any] | None = None) -> VerdictCard:
    """The card of a summary: rows of experiments whose figures are defined; ``about`` is an `About` or what ``spec.json`` holds."""
    about = about if isinstance(about, About) else About.of(about)
    found = SummaryRows.of(summary)
    notice = no_skill_of_run(found)
    notices = (notice,) if notice else ()
    among = None if notice else standing_row(found, about, shipped())
    rows, further = _first(_rows(found, about, withheld=bool(notice)), LINES - (among is not None))
    drawn = about.drawn if found.audited is None else "texts"
    subtitle, footnote = (
        _subtitle(summary, found, about, drawn),
        _footnote((*rows, *further), found, about),
    )
    rows = (*rows, among) if among else rows
    scope = "\n".join(filter(None, (skill_unknown(found), _scope(found, about))))
    return VerdictCard(
        _title(about), subtitle, rows, notices, _audited_part(found), scope, found.unit, drawn, found.audited, further,
        footnote, classes={} if notice else _of_classes(found, about, rows),
    )  # fmt: skip


def _of_classes(found: SummaryRows, about: About, rows: Iterable[CardRow]) -> dict[str, Sides]:
    """What the measures of these ``rows`` claim of each predicted class."""
    rows = list(rows)
    return {
        name: Sides.of_class(_rows(found.of_class(name), about, withheld=False), rows)
        for name in sorted(found.predicted)
    }


def head_cards(summary: pl.DataFrame, about: About) -> dict[Head, VerdictCard]:
    """The card of every head of a summary, of what is measured of it alone."""
    found = SummaryRows.of(summary)
    withheld = bool(no_skill_of_run(found))
    cards = {}
    for head, own in found.by_head.items():
        rows, further = _first(_rows(own, about, withheld), LINES)
        cards[head] = VerdictCard(named(head), "", rows, unit=own.unit, further=further)
    return cards


def _rows(found: SummaryRows, about: About, withheld: bool) -> Sequence[CardRow]:
    """The model's quality first, then measures in the order in which they separate faithful from unfaithful attention; the unknown last."""
    known = separations()
    rows = [row for name in EXPERIMENTS for row in card(name).rows(found, about)]
    rows = [
        _separating(row, known.get((row.experiment, row.name))) for row in sorted(rows, key=_place)
    ]
    return without_conclusions(rows) if withheld else of_enough(rows, found)


def _separating(row: CardRow, known: Separation | None) -> CardRow:
    return row if row.of_model or known is None else replace(row, separates=str(known))


def _place(row: CardRow) -> tuple[bool, float]:
    known = separations().get((row.experiment, row.name))
    return (not row.of_model, -known.auc if known is not None and known.auc is not None else 0.0)


def _first(rows: Iterable[CardRow], lines: int) -> tuple[tuple[CardRow, ...], tuple[CardRow, ...]]:
    rows = tuple(rows)
    return rows[:lines], rows[lines:]


def _footnote(rows: Iterable[CardRow], found: SummaryRows, about: About) -> str:
    """What the separation of the rows means, and whether it was measured on models like this one."""
    if not any(row.separates for row in rows):
        return ""
    return NOTE if is_of_a_calibrated_kind(found, about) else f"{NOTE} {UNKNOWN_HERE}"


def _audited_part(found: SummaryRows) -> str:
    """What heatmaps of a card are of: the model, or its only layer that was audited."""
    layers = set() if found.audited is None else {layer for layer, _ in found.audited.names}
    return f"layer {next(iter(layers))} of this model" if len(layers) == 1 else VerdictCard.model


def _scope(found: SummaryRows, about: About) -> str:
    """Which heads the card is not about; empty where all of the model's are audited."""
    if found.audited is None:
        return ""
    total, known = about.heads, len(found.audited.names)
    if total == known:
        return ""
    others = (
        "the others" if total is None else f"the other {count(total - known, 'head')} of the model"
    )
    return f"Audited: {found.heads}. Nothing here is about {others}."


def _title(about: About) -> str:
    """Model and corpus, after the name that the trace gives itself."""
    model = (
        " + ".join(name for name in (about.encoder, about.attention) if name != UNKNOWN)
        or about.model
    )
    corpus = corpus_title(about) if about.corpus != UNKNOWN else ""
    if about.name and not (model or corpus):
        return about.name
    known = (
        model
        if about.name and not corpus
        else f"{model or 'this model'} on {corpus or 'this trace'}"
    )
    return f"{about.name}: {known}" if about.name else known


def _subtitle(summary: pl.DataFrame, found: SummaryRows, about: About, drawn: str) -> str:
    audited = summary.filter(
        pl.col("group") == "all", pl.col("experiment").is_in(list(EXPERIMENTS))
    )
    total = (
        audited["n"] + audited["undefined"]
    ).first()  # every experiment has a row per trace row
    rows = count(total, "instance") if isinstance(total, int) else ""
    rows += f" ({about.tokens})" if rows and about.translates else ""
    rows = rows if found.audited is None else str(found.audited)
    seed = f"seed {about.seed}" if about.seed is not None else ""
    return ", ".join(
        [
            *filter(None, (rows, seed, about.assumed_classes)),
            f"brackets: 95 % interval over {drawn}",
        ]
    )
