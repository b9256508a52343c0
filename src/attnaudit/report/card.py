"""The verdict card: one careful sentence for each question of an audit, and what may be claimed."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.core import count
from attnaudit.core.escapes import as_markup
from attnaudit.experiments import EXPERIMENTS
from attnaudit.experiments.verdict import QUALITY, Verdict, decide_verdict
from attnaudit.report.cards import card
from attnaudit.report.cards.card import CardRow, of_enough, without_conclusions
from attnaudit.report.cards.lead import headline, how_sure, of_studies
from attnaudit.report.cards.skill import no_skill_of_run, skill_unknown
from attnaudit.report.cards.wording import (
    across,
    heads,
    heatmap_shown,
    is_of_weights,
    undecided,
)
from attnaudit.report.sections.provenance import corpus_title
from attnaudit.report.words import describe_heads, name_head
from attnaudit.results import TEXT, About, Head, Heads, SummaryRows
from attnaudit.results.about import UNKNOWN
from attnaudit.trace import SHOWN

LINES = (QUALITY, ("replacement",), ("correlation",), ("permutation",), ("adversary", "ranges"))
"""Experiments of the rows of a card; the first of a line with a result takes it."""
LINES_OF_SHOWN = (QUALITY, ("replacement",), ("correlation",), ("joint",))
"""Those of a heatmap of a model with heads. The weights of single heads stand below."""


@dataclass(frozen=True)
class VerdictCard:
    """The card of an audit or of studies.

    Attributes:
        title: Model and corpus.
        subtitle: What was counted, and what intervals draw.
        rows: One question and its answer each.
        verdict: What may be claimed; None for studies without an audit.
        notices: Why nothing is concluded from some rows.
        model: The name of the model whose heatmaps they are, in the line on top.
        scope: What is not known of the model, and what of it the card is not about, a line each.
        unit: Unit of the means.
        drawn: What intervals draw.
        audited: The heads.
        further: Rows of further measures.
        counted: What was counted.
        of_weights: Whether the heatmaps are made of the model's attention.
    """

    title: str
    subtitle: str
    rows: tuple[CardRow, ...]
    verdict: Verdict | None = None
    notices: tuple[str, ...] = ()
    model: str = "this model"
    scope: str = ""
    unit: str = TEXT
    drawn: str = "texts"
    audited: Heads | None = None
    further: tuple[CardRow, ...] = ()
    counted: str = ""
    of_weights: bool = True

    @property
    def lead(self) -> str:
        """Statement on the heatmaps, or the reason for none."""
        said = list(dict.fromkeys(self.notices))
        if self.verdict is not None and not self.notices:
            said.append(headline(self.verdict, self.model, self.of_weights))
        studies = [row for row in self.rows if row.experiment not in EXPERIMENTS]
        if not self.notices or any(row.side for row in studies):
            said.append(of_studies(studies, self.model))
        return "\n".join(filter(None, (*said, self.scope)))

    @property
    def sure(self) -> str:
        """Error rate of the answer on models of known truth; empty if nothing is claimed."""
        return how_sure(self.verdict)

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain values, with the line on top."""
        verdict = None if self.verdict is None else self.verdict.to_json()
        return {**asdict(replace(self, verdict=None)), "verdict": verdict, "lead": self.lead}

    def print(self, console: Console | None = None) -> None:
        """Print the card as a table, the sentences beside their figures."""
        console = console or Console()
        for line in filter(None, self.lead.split("\n")):
            console.print(as_markup(line), style="bold", highlight=False)
        table = Table(
            title=as_markup(self.title),
            caption=as_markup(self.subtitle),
            title_justify="left",
            caption_justify="left",
            show_lines=True,
            expand=True,
        )
        for column in ("question", "this model", "to compare with"):
            table.add_column(column, ratio=2)
        table.add_column("what it says", ratio=5)
        for row in self.rows:
            measure = as_markup(row.measure)
            answer = (
                f"[bold]{as_markup(row.figure)}[/] {as_markup(row.interval)}\n[dim]{measure}[/]"
            )
            question = f"{row.sign} {as_markup(row.question)}".strip()
            table.add_row(question, answer, as_markup(row.yardstick), as_markup(row.sentence))
        nothing = as_markup(f"{self.title}: no experiment gave a number")
        console.print(table if self.rows else nothing)
        if self.sure:
            console.print(as_markup(self.sure), style="dim", highlight=False)


def verdict(summary: pl.DataFrame, about: About | dict[str, Any] | None = None) -> VerdictCard:
    """Make the card of a summary.

    Args:
        summary: Summary rows; those of undefined figures are left out.
        about: Names of model and corpus, or what ``spec.json`` holds.
    """
    about = about if isinstance(about, About) else About.of(about)
    found = SummaryRows.of(summary)
    notice = no_skill_of_run(found)
    rows, further = _rows(found, about, withheld=bool(notice))
    drawn, model, scope = about.drawn, VerdictCard.model, ""
    ours = pl.col("experiment").is_in(list(EXPERIMENTS))
    overall = summary.filter(pl.col("group") == "all", ours)
    # Experiments have a row per trace row, but some measure only a part of them.
    total = (overall["n"] + overall["undefined"]).max()
    number = count(total, found.unit) if isinstance(total, int) else ""
    if number and about.translates:
        number += f" ({about.tokens})"
    if found.audited is not None:
        drawn, number = "texts", describe_heads(found.audited)
        if len(found.audited.layers) == 1:
            model = f"layer {min(found.audited.layers)} of this model"
        known, others = len(found.audited.names), "the others"
        if about.heads is not None:
            others = f"the other {count(about.heads - known, 'head')} of the model"
        if about.heads != known:
            scope = f"Audited: {heads(found)}. Nothing here is about {others}."
    if found.heatmap == SHOWN:
        made, scope = heatmap_shown(about), ""
        model = f"this model ({made})" if made else "this model"
        number += f", heatmap shown: {made}" if made else ""
    seed = f"seed {about.seed}" if about.seed is not None else ""
    counted = ", ".join(filter(None, (number, seed, about.assumed_classes)))
    return VerdictCard(
        _title(about),
        f"{counted}, brackets: 95 % interval over {drawn}".removeprefix(", "),
        rows,
        decide_verdict(found),
        (notice,) if notice else (),
        model,
        "\n".join(filter(None, (skill_unknown(found), scope))),
        found.unit,
        drawn,
        found.audited,
        further,
        counted,
        is_of_weights(about),
    )


def head_cards(summary: pl.DataFrame, about: About) -> dict[Head, VerdictCard]:
    """Make the card of every head of a summary, of what is measured of it alone."""
    found = SummaryRows.of(summary)
    withheld = bool(no_skill_of_run(found))
    cards = {}
    for head, own in found.by_head.items():
        rows, further = _rows(own, about, withheld)
        cards[head] = VerdictCard(name_head(head), "", rows, unit=own.unit, further=further)
    return cards


def class_rows(summary: pl.DataFrame, about: About) -> dict[str, tuple[CardRow, ...]]:
    """Make the first rows of the card of every predicted class, of its texts only."""
    found = SummaryRows.of(summary)
    withheld = bool(no_skill_of_run(found))
    return {name: _rows(found.of_class(name), about, withheld)[0] for name in found.predicted}


Rows = tuple[CardRow, ...]


def _rows(found: SummaryRows, about: About, withheld: bool) -> tuple[Rows, Rows]:
    """Return the rows of a card, and further ones."""
    rows = [row for name in EXPERIMENTS for row in card(name).rows(found, about)]
    remarks = (
        undecided(row.finding, found) + across(found, row.experiment, row.name) for row in rows
    )
    rows = [
        replace(row, sentence=row.sentence + remark)
        for row, remark in zip(rows, remarks, strict=True)
    ]
    rows = without_conclusions(rows) if withheld else of_enough(rows, found)
    is_shown = found.heatmap == SHOWN and found.audited is not None
    lines = [
        next((row for name in names for row in rows if row.experiment == name), None)
        for names in (LINES_OF_SHOWN if is_shown else LINES)
    ]
    first = [row for row in lines if row is not None]
    every = (*first, *(row for row in rows if row not in first))
    size = len(first) if is_shown else len(LINES)
    return every[:size], every[size:]


def _title(about: About) -> str:
    """Name model and corpus, after the name that the trace gives itself."""
    names = (name for name in (about.encoder, about.attention) if name != UNKNOWN)
    model = " + ".join(names) or about.model
    corpus = corpus_title(about) if about.corpus != UNKNOWN else ""
    if about.name and not (model or corpus):
        return about.name
    known = f"{model or 'this model'} on {corpus or 'this trace'}"
    if about.name:
        return f"{about.name}: {known if corpus else model}"
    return known
