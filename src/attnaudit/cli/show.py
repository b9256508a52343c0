"""What commands print: cards and tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from attnaudit.core.files import read_json, read_with_digest
from attnaudit.core.numbers import count
from attnaudit.core.printable import as_markup, printable
from attnaudit.corpora.check import CorpusCheck
from attnaudit.corpora.fetch import Fetched
from attnaudit.recipes.translator import DICTIONARY
from attnaudit.report.card import VerdictCard, verdict
from attnaudit.report.copying_page import copying_card
from attnaudit.report.sections.comparison import print_comparison
from attnaudit.report.sections.differences import print_differences
from attnaudit.report.study_page import study_card
from attnaudit.report.words import figure, interval
from attnaudit.results import counted, read_table
from attnaudit.results.about import About
from attnaudit.results.paired import PairedRuns
from attnaudit.results.record import read_record, read_summary
from attnaudit.results.summary import SummaryRows
from attnaudit.steps import Planned
from attnaudit.trace import trace_metadata

if TYPE_CHECKING:
    from attnaudit.hf.gate import Check, Gate
    from attnaudit.recipes.reproduction.sweep import Outcome
    from attnaudit.recipes.settings import Setting
    from attnaudit.report.paper_index import Line

PAGES = {
    "translation.html": "translations",
    "report.html": "report",
    DICTIONARY: "dictionary",
}
SHOWN_SKIPPED, SHOWN_CLASSES, SHOWN_MEASURES = 3, 12, 8
WIDTH = 140  # columns where the output is no terminal


def show_run(folder: Path, as_json: bool, details: bool = False) -> None:
    """Print the verdict card of a run, what the user should know of it, and where its pages are."""
    record, manifest = read_record(folder), read_json(folder / "manifest.json")
    card, left_out = verdict(record.summary, record.about), _left_out(manifest)
    if as_json:
        pages = [str(folder / name) for name in PAGES if (folder / name).exists()]
        said = {"card": card.to_json(), "left_out": left_out, "summary": record.summary.to_dicts()}
        known = {name: manifest[name] for name in ("notes", "skipped")}
        show_json({"run": str(folder), "pages": pages, **known, **said})
        return
    console = _console()
    if card.rows:
        card.print(console)
    else:  # a translator without attention has no audit
        console.print(card.lead, style="bold", markup=False, highlight=False)
    if details:
        console.print(_summary_table(record.summary.to_dicts(), str(folder)))
    lines = [*_bleu(record.summary), *_remarks(manifest)]
    pages = {name.replace(" ", "_"): folder / file for file, name in PAGES.items()}
    _tell(console, lines, **{name: page for name, page in pages.items() if page.exists()})


def show_audit(folder: Path, as_json: bool, details: bool = False) -> None:
    """Print the card of an audit, or its numbers, and where its report is."""
    if as_json:
        show_json(read_json(folder / "summary.json"))
        return
    console, trace = _console(), folder / read_with_digest(folder / "spec.json")["trace"]
    record = read_record(folder, trace)
    card, title = verdict(record.summary, record.about), f"audit of {trace}"
    if card.rows:
        console.print(title, markup=False, highlight=False, soft_wrap=True)
        card.print(console)
    if details or not card.rows:  # no experiment of this audit has a card
        console.print(_summary_table(record.summary.to_dicts(), title))
    _tell(console, _skipped(read_json(folder / "manifest.json")), report=folder / "report.html")


def show_plan(planned: Sequence[Planned], as_json: bool) -> None:
    """Print what a command would make, and what of it is there."""
    if as_json:
        show_json([asdict(one) for one in planned])
        return
    rows = [(one.name, "done" if one.is_done else "missing", one.folder) for one in planned]
    print_rows("", ("what", "state", "folder"), rows, whole=("what", "state"))
    missing = sum(not one.is_done for one in planned)
    typer.echo(f"{missing} of {len(planned)} missing")


def show_study(folder: Path, as_json: bool) -> None:
    """Print the card of a study, its first numbers over all instances, and where its pages are."""
    rows = read_json(folder / "summary.json")
    if as_json:
        show_json(rows)
        return
    console, spec = _console(), read_with_digest(folder / "spec.json")
    name = spec["study"]["name"]
    source, card, pages = (_card_of_copying if name == "copying" else _card_of_trainings)(
        folder, spec
    )
    card.print(console)
    console.print(_summary_table(rows, f"study {name} of {source}", SHOWN_MEASURES))
    _tell(console, (), report=folder / "report.html", **pages)


def show_calibration(folder: Path, as_json: bool) -> None:
    """Print the scores of all measures, the best first, and what the degree reaches."""
    scores = read_table(folder / "scores.parquet").collect()
    degree = read_json(folder / "degree.json")
    if as_json:
        dials = read_table(folder / "dials.parquet").collect()
        show_json({"scores": scores.to_dicts(), "dials": dials.to_dicts(), "degree": degree})
        return
    rows = [
        (
            f"{row['experiment']}: {row['measure']}",
            row["direction"],
            figure(row["auc"]),
            f"{interval(row)} {row['faithful']} × {row['unfaithful']}".strip(),
        )
        for row in scores.filter(pl.col("auc").is_not_null()).iter_rows(named=True)
    ]
    columns = ("measure", "better", "AUC", "over constructions")
    print_rows("", columns, rows, whole=("measure",))
    if held := (degree or {}).get("held"):
        found = f"AUC {figure(held['auc'])} {interval(held)}".rstrip()
        typer.echo(f"degree on the constructions held out: {found}")
    typer.echo(printable(f"page: {folder / 'report.html'}"))


def _card_of_trainings(
    folder: Path, spec: dict[str, Any]
) -> tuple[str, VerdictCard, dict[str, Path]]:
    """Return what a study is of, what it says, and its further pages."""
    training = next(
        iter(read_json(folder / "manifest.json")["trainings"].values())
    )  # any of them names the corpus
    metadata = trace_metadata(folder.parent / "trainings" / training / "trace")
    card = study_card(read_summary(folder / "summary.json"), About.of(spec, metadata))
    return spec["corpus"]["source"], card, {"all_studies": folder.parent / "index.html"}


def _card_of_copying(
    folder: Path, spec: dict[str, Any]
) -> tuple[str, VerdictCard, dict[str, Path]]:
    return (
        spec["study"]["kind"],
        copying_card(read_summary(folder / "summary.json"), spec["study"]),
        {},
    )


def _bleu(summary: pl.DataFrame) -> list[str]:
    row = SummaryRows.of(summary).rows.get(("translation", "bleu"))
    if row is None:
        return []
    return [f"BLEU {figure(row['value'], 1)} {interval(row, 1)} on {count(row['n'], 'test pair')}"]


def _tell(console: Console, lines: Sequence[str], **pages: Path) -> None:
    """Print lines, and where the pages are; an underscore of a name is a space."""
    for line in lines:
        console.print(printable(line), markup=False, highlight=False)
    for name, page in pages.items():
        console.print(
            printable(f"{name.replace('_', ' ')}: {page}"),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _summary_table(rows: list[dict[str, Any]], title: str, most: int | None = None) -> Table:
    """Show what a summary says over all instances, its first ``most`` measures."""
    table = Table(title=as_markup(title), title_justify="left", caption_justify="left")
    for column in ("experiment", "measure", "value", "95 % interval", "n", "undefined"):
        table.add_column(column, justify="left" if column in ("experiment", "measure") else "right")
    overall = [row for row in rows if row["group"] == "all"]
    for row in overall[:most]:
        texts = (
            row["experiment"],
            row["measure"],
            _number(row["value"]),
            _interval(row),
            counted(row),
            row["undefined"],
        )
        table.add_row(*(as_markup(str(text)) for text in texts))
    left_out = len(overall) - len(table.rows)
    table.caption = (
        f"{count(left_out, 'further measure')} in the report and with --json" if left_out else None
    )
    return table


def show_comparison(rows: pl.DataFrame, as_json: bool) -> None:
    """Print our numbers beside the published ones."""
    if as_json:
        show_json(rows.to_dicts())
    else:
        print_comparison(rows, _console())


def show_differences(compared: Sequence[PairedRuns], page: Path | None, as_json: bool) -> None:
    """Print runs compared with the first of them, and where the page is."""
    if as_json:
        show_json([one.to_json() for one in compared])
        return
    console = _console()
    print_differences(compared, console)
    _tell(console, (), **({} if page is None else {"report": page}))


def show_reproduction(outcome: Outcome, as_json: bool) -> None:
    """Print where the page of a paper is, or its whole table and what could not be run."""
    table = outcome.page.parent / "reproduction.csv"
    if as_json:
        rows = pl.read_csv(table, infer_schema_length=None, glob=False).to_dicts()
        show_json(
            {
                "rows": rows,
                "not_run": [asdict(one) for one in outcome.not_run],
                "notes": list(outcome.notes),
            }
        )
    else:
        typer.echo("\n".join(map(printable, (f"table: {table}", f"report: {outcome.page}"))))


def show_index(lines: Sequence[Line], page: Path, as_json: bool) -> None:
    """Print what there is of each paper, and where the page of all is."""
    if as_json:
        show_json([asdict(line) for line in lines])
        return
    for line in lines:
        told = (
            line.title,
            line.question,
            f"cells recorded: {line.recorded}; published numbers: {line.agreement}",
            line.command,
        )
        typer.echo("\n  ".join(map(printable, told)))
    typer.echo(printable(f"report: {page}"))


def show_json(value: Any) -> None:
    """Print JSON, with escapes for characters that do not print."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    typer.echo(
        "\n".join(line if line.isprintable() else _escaped_json(line) for line in text.split("\n"))
    )


def _escaped_json(line: str) -> str:
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def _remarks(manifest: dict[str, Any]) -> list[str]:
    lines, skipped = [f"note: {note}" for note in manifest["notes"]], manifest["skipped"]
    if skipped:
        first = [f"{row['file']}: row {row['row']}: {row['reason']}" for row in skipped]
        shown = "; ".join(first[:SHOWN_SKIPPED])
        lines.append(f"skipped {len(skipped)} rows, all listed in manifest.json: {shown}")
    return [*lines, *_skipped(manifest)]


def _left_out(manifest: dict[str, Any]) -> dict[str, str]:
    return manifest["steps"]["audit"]["notes"]["left_out"]


def _skipped(manifest: dict[str, Any]) -> list[str]:
    return [f"skipped: {name}: {reason}" for name, reason in _left_out(manifest).items()]


def _console() -> Console:
    return Console(width=None if Console().is_terminal else WIDTH)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(row: dict[str, Any]) -> str:
    return (
        "–"
        if row["low"] is None or row["high"] is None
        else f"{row['low']:.3f} to {row['high']:.3f}"
    )


def show_settings(sections: Mapping[str, Sequence[Setting]], as_json: bool) -> None:
    """Print a table for each section of settings."""
    if as_json:
        show_json(
            {title: [asdict(one) for one in settings] for title, settings in sections.items()}
        )
        return
    for title, settings in sections.items():
        rows = [
            (one.key, one.values, one.default, one.full or None, one.meaning) for one in settings
        ]
        wide = any(one.full for one in settings)
        columns = ("setting", "values", "default", *(("with --full",) if wide else ()), "meaning")
        print_rows(
            title,
            columns,
            [row if wide else (*row[:3], row[4]) for row in rows],
            whole=("setting",),
        )


def show_listing(corpora: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print one line for each of `listed_corpora`."""
    if as_json:
        show_json(corpora)
        return
    rows = [
        (
            one["name"],
            one["task"],
            _classes(one),
            one["citation"],
            one["licence"],
            one["folder"] or _how(one),
        )
        for one in corpora
    ]
    print_rows(
        "",
        ("name", "task", "classes", "citation", "licence", "folder, or how to get it"),
        rows,
        whole=("name", "task", "citation"),
    )


def show_check(check: CorpusCheck, as_json: bool) -> None:
    """Print all tables of a check."""
    if as_json:
        show_json(check.to_json())
        return
    words = f"vocabulary: words in {check.min_df} or more train rows"
    title = f"{check.name}: {check.task}, {words}; fingerprint {check.fingerprint[:16]}"
    typer.echo(printable(title))
    _show_tables(check, *_TABLES)
    show_lines("note", check.notes)
    show_lines("differs", check.differs)


def show_gate(gate: Gate, as_json: bool) -> None:
    """Print what was checked of a transformer, and its layers."""
    if as_json:
        show_json(gate.to_json())
        return
    typer.echo(printable(f"{_audited(gate)}; texts in one batch: {gate.batching}"))
    for note in gate.notes:
        typer.echo(printable(note))
    checks = [(check.name, check.meaning, _measured(check), check.wanted) for check in gate.checks]
    print_rows(
        "", ("check", "what it measures", "figure", "expected"), checks, whole=("check", "expected")
    )
    layers = [
        (
            one.stack,
            one.layer,
            one.heads,
            one.width,
            "yes" if one.sink else "no",
            one.way or "–",
            one.path,
        )
        for one in gate.layers
    ]
    print_rows(
        "", ("stack", "layer", "heads", "width of values", "sink", "replayed by", "module"), layers
    )


def _audited(gate: Gate) -> str:
    """Say what an audit does with a model that passed."""
    replaced = f"{gate.model}: its attention can be read and replaced"
    if gate.task is None:
        return f"{replaced}; what it predicts is no class, next token or translation, so no audit"
    if gate.reads is None:
        return f"{replaced}; its prediction reads several positions, so no head is audited"
    place = "the last position" if gate.reads == -1 else f"position {gate.reads}"
    return f"{gate.model} can be audited: {gate.task}, read at {place}"


def _measured(check: Check) -> str:
    return check.reason if check.figure is None else f"{check.figure:.2g}"


def show_fetched(fetched: Fetched, check: CorpusCheck | None, as_json: bool) -> None:
    """Print where a corpus is now, and what it holds in short."""
    if as_json:
        about = {
            "name": fetched.name,
            "folder": str(fetched.folder),
            "already": fetched.already,
            "notes": fetched.notes,
        }
        show_json({**about, "check": check and check.to_json()})
        return
    if check is not None:
        _show_tables(check, "classes", "published", "damage")
        show_lines("note", check.notes)
    show_lines("note", fetched.notes)
    state = "already present" if fetched.already else "fetched"
    typer.echo(printable(f"{fetched.name}: {state}: {fetched.folder}"))


_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "classes": ("rows of each class", ()),
    "published": (
        "rows per class, compared with the published ones",
        ("split", "published", "here", "equal"),
    ),
    "lengths": ("length in words", ("split", "of", "min", "median", "95 %", "max")),
    "words": ("words", ("split", "words", "different", "unknown", "unknown, of different")),
    "repeated": (
        "rows with the same words",
        (
            "split",
            "rows",
            "repeated in the split",
            "also in train",
            "also in dev",
            "with another label elsewhere",
        ),
    ),
    "damage": ("damage", ("split", "what", "rows", "first instance", "example")),
    "rationale": ("rationales", ("split", "rows", "with a rationale", "share of their words")),
    "skipped": ("skipped rows", ("reason", "rows", "file", "first row")),
}


def _show_tables(check: CorpusCheck, *names: str) -> None:
    for name in names:
        title, columns = _TABLES[name]
        print_rows(
            title,
            *(
                _class_table(check.classes)
                if name == "classes"
                else (columns, getattr(check, name).rows())
            ),
        )


def _class_table(classes: pl.DataFrame) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return a line for each class, of many the largest, and their sum."""
    counts = classes.pivot("split", index="class", values="rows", aggregate_function="sum")
    splits = counts.columns[1:]
    rows = counts.rows()
    if counts.height > SHOWN_CLASSES:
        largest = counts.sort(pl.sum_horizontal(splits), descending=True, maintain_order=True)
        others = largest[SHOWN_CLASSES:].select(splits).sum().row(0)
        rows = [
            *largest[:SHOWN_CLASSES].rows(),
            (f"{counts.height - SHOWN_CLASSES} others", *others),
        ]
    return ("class", *splits), [*rows, ("all", *counts.select(splits).sum().row(0))]


def print_rows(
    title: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], whole: Sequence[str] = ()
) -> None:
    """Print a table, if it has rows; cells of the columns named are kept on one line."""
    if not rows:
        return
    table = Table(title=title or None, title_justify="left")
    for place, column in enumerate(columns):
        numbers = all(row[place] is None or type(row[place]) in (int, float) for row in rows)
        table.add_column(
            as_markup(column),
            justify="right" if numbers else "left",
            overflow="fold",
            no_wrap=column in whole,
        )
    for row in rows:
        table.add_row(*(as_markup(_cell(value)) for value in row))
    _console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "–" if value is None else str(value)


def show_lines(kind: str, lines: Iterable[str]) -> None:
    """Print lines of one kind, such as notes."""
    for line in lines:
        typer.echo(printable(f"{kind}: {line}"))


def _classes(corpus: dict[str, Any]) -> str:
    names = corpus["classes"]
    if not names:
        return "–" if corpus["task"] == "translation" else "those of train"
    return ", ".join(names) if len(names) <= 3 else f"{len(names)}"


def _how(corpus: dict[str, Any]) -> str:
    return (
        corpus["get"]
        if corpus["bytes"] is None
        else f"{corpus['get']} ({corpus['bytes'] / 1e6:.1f} MB)"
    )
