"""What commands print: cards and tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attnaudit.core.files import read_json
from attnaudit.report import Card, verdict
from attnaudit.report.copying_page import copying_card
from attnaudit.report.sections.comparison import print_comparison
from attnaudit.report.study_page import study_card
from attnaudit.results.about import About
from attnaudit.results.record import read_record, read_summary
from attnaudit.runner.tasks.pairs import DICTIONARY
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.runner.sweep import Outcome

SHOWN_SKIPPED = 3


def show_run(folder: Path, as_json: bool) -> None:
    """The verdict card of a run, what the user should know of it, and where its report is."""
    record, manifest = read_record(folder), read_json(folder / "manifest.json")
    card = verdict(record.summary, record.about)
    if as_json:
        show_json(
            {
                "run": str(folder), "report": str(folder / "report.html"), "card": asdict(card), "notes": manifest["notes"],
                "skipped": manifest["skipped"], "left_out": manifest["steps"]["audit"]["notes"]["left_out"],
                "summary": record.summary.to_dicts(),
            }
        )  # fmt: skip
        return
    console = _console()
    card.print(console)
    _tell(console, _remarks(manifest), report=folder / "report.html")


def show_summary(folder: Path, as_json: bool) -> None:
    """The summary of an audit over all instances, and where its report is; the JSON has the predicted classes too."""
    rows = read_json(folder / "summary.json")
    if as_json:
        show_json(rows)
        return
    console = _console()
    console.print(_summary_table(rows, f"audit of {read_json(folder / 'spec.json')['trace']}"))
    _tell(console, _skipped(read_json(folder / "manifest.json")), report=folder / "report.html")


def show_study(folder: Path, as_json: bool) -> None:
    """The card of a study, its numbers over all instances, and where its pages are."""
    rows = read_json(folder / "summary.json")
    if as_json:
        show_json(rows)
        return
    console, spec = _console(), read_json(folder / "spec.json")
    name = spec["study"]["name"]
    source, card, pages = _CARDS.get(name, _card_of_trainings)(folder, spec)
    console.print(_summary_table(rows, f"study {name} of {source}"))
    card.print(console)
    _tell(console, (), report=folder / "report.html", **pages)


def _card_of_trainings(folder: Path, spec: dict[str, Any]) -> tuple[str, Card, dict[str, Path]]:
    """What a study is of, what it says, and its further pages."""
    training = next(iter(read_json(folder / "manifest.json")["trainings"].values()))  # any of them names the corpus
    metadata = next(Trace.shards(folder.parent / "trainings" / training / "trace")).metadata
    card = study_card(read_summary(folder / "summary.json"), About.of(spec, metadata))
    return spec["corpus"]["source"], card, {"all_studies": folder.parent / "index.html"}


def _card_of_copying(folder: Path, spec: dict[str, Any]) -> tuple[str, Card, dict[str, Path]]:
    return spec["study"]["kind"], copying_card(read_summary(folder / "summary.json"), spec["study"]), {}


_CARDS = {"copying": _card_of_copying}  # of studies without trainings that leave traces


def show_translation(folder: Path, as_json: bool) -> None:
    """BLEU, what the alignments say, the audit of the attention, and where the pages and the dictionary are."""
    rows, manifest = read_json(folder / "summary.json"), read_json(folder / "manifest.json")
    if as_json:
        show_json({"run": str(folder), "notes": manifest["notes"], "skipped": manifest["skipped"], "summary": rows})
        return
    console = _console()
    console.print(_summary_table(rows, f"translation of {manifest['corpus']['name']}"))
    pages = {"report": folder / "translation.html", "audit_of_the_attention": folder / "report.html", "dictionary": folder / DICTIONARY}
    _tell(console, _remarks(manifest), **{name: page for name, page in pages.items() if page.exists()})


def _tell(console: Console, lines: Sequence[str], **pages: Path) -> None:
    """What is to be known, a line each, and where the pages are; an underscore of a name is a space."""
    for line in lines:
        console.print(line, markup=False, highlight=False)
    for name, page in pages.items():
        console.print(f"{name.replace('_', ' ')}: {page}", markup=False, highlight=False, soft_wrap=True)


def _summary_table(rows: list[dict[str, Any]], title: str) -> Table:
    """What a summary says over all instances."""
    table = Table(title=escape(title), title_justify="left")
    for column in ("experiment", "measure", "value", "95 % interval", "n", "undefined"):
        table.add_column(column, justify="left" if column in ("experiment", "measure") else "right")
    for row in (row for row in rows if row["group"] == "all"):
        texts = (row["experiment"], row["measure"], _number(row["value"]), _interval(row), row["n"], row["undefined"])
        table.add_row(*(escape(str(text)) for text in texts))
    return table


def show_comparison(rows: pl.DataFrame, as_json: bool) -> None:
    """Our numbers compared with the published ones."""
    if as_json:
        show_json(rows.to_dicts())
    else:
        print_comparison(rows, _console())


def show_reproduction(outcome: Outcome, as_json: bool) -> None:
    """Where the page of a sweep is; or its whole table, what could not be run, and what is to be known of the runs."""
    table = outcome.page.parent / "reproduction.csv"
    if as_json:
        rows = pl.read_csv(table, infer_schema_length=None).to_dicts()
        show_json({"rows": rows, "not_run": [asdict(one) for one in outcome.not_run], "notes": list(outcome.notes)})
    else:
        typer.echo(f"table: {table}\nreport: {outcome.page}")


def show_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def _remarks(manifest: dict[str, Any]) -> list[str]:
    notes = [f"note: {note}" for note in manifest["notes"]]
    skipped = [f"{row['file']}: row {row['row']}: {row['reason']}" for row in manifest["skipped"][:SHOWN_SKIPPED]]
    told = [f"skipped {len(manifest['skipped'])} rows, all listed in manifest.json: {'; '.join(skipped)}"] if skipped else []
    return [*notes, *told, *_skipped(manifest)]


def _skipped(manifest: dict[str, Any]) -> list[str]:
    return [f"skipped: {name}: {reason}" for name, reason in manifest["steps"]["audit"]["notes"]["left_out"].items()]


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 140)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(row: dict[str, Any]) -> str:
    return "–" if row["low"] is None or row["high"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
