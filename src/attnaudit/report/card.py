"""The verdict card: what an audit found, in degrees, one careful sentence for each question."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.calibration.card import standing_row
from attnaudit.calibration.degree import shipped
from attnaudit.core.printable import as_markup
from attnaudit.experiments import EXPERIMENTS, facts
from attnaudit.report.sections.provenance import corpus_title
from attnaudit.results.about import UNKNOWN, About
from attnaudit.results.card import CardRow, SummaryRows, claimed, without_conclusions
from attnaudit.results.heads import Head, Heads, named
from attnaudit.results.skill import no_skill_of_run
from attnaudit.results.words import INSTANCE, count


@dataclass(frozen=True)
class Card:
    """``title`` names model and corpus, ``subtitle`` what was counted; ``rows`` answer one question each.

    ``notices`` say why nothing is concluded from some of them. ``model`` is what the line on top calls the model of the heatmaps, and
    ``scope`` says which attention of it the card is not about. ``unit`` is what the numbers are means over, ``drawn`` what their
    intervals draw, ``audited`` the heads.
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

    @property
    def lead(self) -> str:
        """One line: what may be claimed of these heatmaps, or why nothing."""
        decided = not self.notices or any(row.claim for row in self.rows)
        claims = [claimed(self.rows, self.model)] if self.rows and decided else []
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
        table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", show_lines=True, expand=True)
        for column, ratio in (("question", 2), ("this model", 2), ("to compare with", 2), ("what it says", 5)):
            table.add_column(column, ratio=ratio)
        for row in self.rows:
            answer = f"[bold]{as_markup(row.figure)}[/] {as_markup(row.interval)}\n[dim]{as_markup(row.measure)}[/]"
            table.add_row(as_markup(row.question), answer, as_markup(row.yardstick), as_markup(row.sentence))
        console.print(table if self.rows else as_markup(f"{self.title}: no experiment gave a figure"))


def verdict(summary: pl.DataFrame, about: About | dict[str, Any] | None = None) -> Card:
    """The card of a summary: rows of experiments whose figures are defined; ``about`` is an `About` or what ``spec.json`` holds."""
    about = about if isinstance(about, About) else About.of(about)
    found = SummaryRows.of(summary)
    notice = no_skill_of_run(found)
    rows, notices = _rows(found, about, withheld=bool(notice)), (notice,) if notice else ()
    among = None if notice else standing_row(found, about, shipped())
    rows = (*rows, among) if among else rows
    drawn = about.drawn if found.audited is None else "texts"
    subtitle = _subtitle(summary, found, about, drawn)
    return Card(_title(about), subtitle, rows, notices, _audited_part(found), _scope(found, about), found.unit, drawn, found.audited)


def head_cards(summary: pl.DataFrame, about: About) -> dict[Head, Card]:
    """The card of every head of a summary, of what is measured of it alone."""
    found = SummaryRows.of(summary)
    withheld = bool(no_skill_of_run(found))
    return {head: Card(named(head), "", _rows(rows, about, withheld), unit=rows.unit) for head, rows in found.by_head.items()}


def _rows(found: SummaryRows, about: About, withheld: bool) -> tuple[CardRow, ...]:
    rows = [row for name in EXPERIMENTS for row in facts(name).card_rows(found, about)]
    return tuple(without_conclusions(rows) if withheld else rows)


def _audited_part(found: SummaryRows) -> str:
    """What heatmaps of a card are of: the model, or its only layer that was audited."""
    layers = set() if found.audited is None else {layer for layer, _ in found.audited.names}
    return f"layer {next(iter(layers))} of this model" if len(layers) == 1 else Card.model


def _scope(found: SummaryRows, about: About) -> str:
    """Which heads the card is not about; empty where all of the model's are audited."""
    if found.audited is None:
        return ""
    total, known = about.heads, len(found.audited.names)
    if total == known:
        return ""
    others = "the others" if total is None else f"the other {count(total - known, 'head')} of the model"
    return f"Audited: {found.heads}. Nothing here is about {others}."


def _title(about: About) -> str:
    """Model and corpus, after the name that the trace gives itself."""
    model = " + ".join(name for name in (about.encoder, about.attention) if name != UNKNOWN) or about.model
    corpus = corpus_title(about) if about.corpus != UNKNOWN else ""
    if about.name and not (model or corpus):
        return about.name
    known = model if about.name and not corpus else f"{model or 'this model'} on {corpus or 'this trace'}"
    return f"{about.name}: {known}" if about.name else known


def _subtitle(summary: pl.DataFrame, found: SummaryRows, about: About, drawn: str) -> str:
    audited = summary.filter(pl.col("group") == "all", pl.col("experiment").is_in(list(EXPERIMENTS)))
    total = (audited["n"] + audited["undefined"]).first()  # every experiment has a row per trace row
    rows = count(total, "instance") if isinstance(total, int) else ""
    rows += f" ({about.tokens})" if rows and about.translates else ""
    rows = rows if found.audited is None else str(found.audited)
    seed = f"seed {about.seed}" if about.seed is not None else ""
    return ", ".join([*filter(None, (rows, seed, about.assumed_classes)), f"brackets: 95 % interval over {drawn}"])
