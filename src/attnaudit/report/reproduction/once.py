"""The page of a paper whose numbers were published once: tables of ours with intervals, the published numbers and marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import write_text
from attnaudit.core.numbers import count
from attnaudit.core.papers import Paper
from attnaudit.papers import Cell, Declaration, Table
from attnaudit.published.numbers import (
    AGREEMENTS,
    RULE,
    Agreement,
    Number,
    judged,
    numbers,
    numbers_of,
    sources,
)
from attnaudit.report.models import figure_and_model, model_label
from attnaudit.report.page import Section, write_page
from attnaudit.report.reproduction.tables import markdown_table, plain
from attnaudit.studies import EVERY_STUDY

PERCENT = "(%)"
NO_REASON = "no reason is known"
Rows = Mapping[str, Mapping[str, Any]]  # summary rows by column


@dataclass(frozen=True)
class Once:
    """The records of a paper by the keys of its cells, why cells could not be done, and what else is to be known."""

    paper: Declaration
    records: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """``text`` is our number with its interval and the published one; ``agreement`` is empty where none was published."""

    text: str
    agreement: Agreement | str = ""

    @property
    def mark(self) -> str:
        return AGREEMENTS[self.agreement][0] if self.agreement in AGREEMENTS else ""  # type: ignore[index]


@dataclass(frozen=True)
class Row:
    """Words that say what the row is of, and an entry for each column."""

    labels: tuple[str, ...]
    entries: tuple[Entry, ...]
    commit: str


@dataclass(frozen=True)
class Filled:
    """A table with its rows; ``reasons`` are (what, reason) of each number that is farther off, or was not measured."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    reasons: tuple[tuple[str, str], ...]


def write_once(found: Once, folder: Path) -> Path:
    """Write ``index.html``, ``reproduction.csv`` and ``reproduction.md`` into ``folder`` and return the page. Raises RunError."""
    paper = found.paper
    content = _content(found)
    write_text(
        folder / "reproduction.md",
        f"# Reproduction of {paper.paper.citation}\n\n{markdown_of(found)}",
    )
    comparison(found).write_csv(folder / "reproduction.csv")
    links = [
        ("Verdict", "#verdict"),
        *(
            (table.title.partition(" (")[0], f"#table-{k}")
            for k, table in enumerate(content["tables"], 1)
        ),
    ]
    return write_page(
        folder / "index.html", [Section("reproduction_once", content, tuple(links))], f"Did “{paper.paper.title}” reproduce?",
        paper.question, title=f"Reproduction of {paper.paper.citation}", styles=("report.css", "reproduction.css"),
    )  # fmt: skip


def markdown_of(found: Once) -> str:
    """The page as Markdown, without its title."""
    content = _content(found)
    parts = [
        f"{paper_of(found.paper.paper)}: {found.paper.question}",
        *content["verdict"],
        content["rule"],
        *(f"- {note}" for note in content["notes"]),
    ]
    for table in content["tables"]:
        rows = [
            [
                *row.labels,
                *(" ".join(filter(None, (entry.mark, entry.text))) for entry in row.entries),
                row.commit,
            ]
            for row in table.rows
        ]
        reasons = "\n".join(f"- {plain(what)}: {plain(reason)}" for what, reason in table.reasons)
        parts += [f"### {table.title}", markdown_table([*table.heads, "commit"], rows), reasons]
    parts += [
        content["missing"] and "Without a record:",
        "\n".join(f"- {plain(what)}: {plain(reason)}" for what, reason in content["missing"]),
    ]
    parts += (
        [
            "Commands:",
            "\n".join(f"- `{key}`: `{record['command']}`" for key, record in found.records.items()),
        ]
        if found.records
        else []
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def paper_of(paper: Paper) -> str:
    """``Serrano & Smith 2019, Is Attention Interpretable?``."""
    return f"{paper.citation}, {paper.title}"


def _content(found: Once) -> dict[str, Any]:
    tables = [
        table for table in (_filled(found, table) for table in found.paper.tables) if table.rows
    ]
    return {
        "tables": tables, "rule": RULE, "verdict": verdict(found), "agreements": AGREEMENTS, "missing": list(_missing(found)),
        "notes": [*found.notes, *_changed(found), *_other_tasks(found)],
        "commands": [(key, record["command"], record["commit"]) for key, record in found.records.items()],
    }  # fmt: skip


def _changed(found: Once) -> Iterator[str]:
    """A line for each record that was made with other settings than those declared."""
    for key, record in found.records.items():
        if changed := record.get("changed"):
            settings = ", ".join(f"{name} = {value}" for name, value in changed.items())
            yield f"{key} has other settings than those of the paper here: {settings}"


def tally(found: Once) -> Counter[str]:
    """How many published numbers are in each degree of `AGREEMENTS`."""
    return Counter(comparison(found)["agreement"].to_list())


def verdict(found: Once) -> list[str]:
    """What was measured of what was published, in words."""
    counts, cells = tally(found), len({cell.key for cell in found.paper.cells})
    whole = len({cell.key for cell in found.paper.cells} & found.records.keys())
    quick = len(found.records) - whole
    done = f"{whole} of {cells} cells are recorded" + (
        f", and {count(quick, 'cell')} of --quick." if quick else "."
    )
    measured = sum(counts.values()) - counts["unknown"]
    if not counts:
        return [done, "No numbers were published in tables."]
    quoted = ", ".join(
        f"{number} from {name}" for name, number in sources(found.paper.name).items()
    )
    known = f"Published numbers that this package has: {quoted}. The paper may give more."
    if not measured:
        return [done, known, "No published number can be compared with a record."]
    missing = f" Not measured: {counts['unknown']}." if counts["unknown"] else ""
    return [
        done,
        known,
        f"Published numbers that are measured here: {measured}. In our 95 % interval: {counts['inside']}; outside it by at most a "
        f"twentieth of the measure's range: {counts['near']}; farther off: {counts['farther']}.{missing}",
    ]


def comparison(found: Once) -> pl.DataFrame:
    """Every published number with ours: a row each."""
    rows = []
    for theirs in numbers(found.paper.name).iter_rows(named=True):
        cell = next(
            (
                one
                for one in found.paper.cells
                if (one.corpus, one.study, one.model)
                == (theirs["corpus"], theirs["study"], theirs["model"])
            ),
            None,
        )
        record = None if cell is None else _record(found, cell)[0]
        same = cell is not None and record is not None and is_same_task(found.paper, cell, record)
        own = (
            {_column(row): row for row in record["summary"] if row["group"] == "all"}
            if same and record
            else {}
        )
        row = own.get(theirs["measure"])
        agreement = judged(row, Number(theirs["value"], theirs["where"], theirs["read_off"]))
        ours = {name: None if row is None else row[name] for name in ("value", "low", "high", "n")}
        rows.append(
            {
                **theirs,
                **{f"our_{name}": value for name, value in ours.items()},
                "agreement": agreement,
            }
        )
    known = numbers(found.paper.name).schema
    ours = {
        "our_value": pl.Float64,
        "our_low": pl.Float64,
        "our_high": pl.Float64,
        "our_n": pl.Int64,
        "agreement": pl.String,
    }
    return pl.DataFrame(rows, schema={**known, **ours})


def is_same_task(paper: Declaration, cell: Cell, record: Mapping[str, Any]) -> bool:
    """Whether a record is of as many classes as the paper has."""
    return record.get("classes") in (None, paper.classes.get(cell.corpus, record.get("classes")))


def _column(row: Mapping[str, Any]) -> str:
    """The column of a summary row: ``erasure/delta_js`` of a run, ``f1_base`` of a study."""
    return (
        row["measure"]
        if row["experiment"] in (*EVERY_STUDY, "copying")
        else f"{row['experiment']}/{row['measure']}"
    )


def _record(found: Once, cell: Cell) -> tuple[Mapping[str, Any] | None, str]:
    """The record of a cell, or else that of ``--quick``, and what the row says of it."""
    if cell.key in found.records:
        return found.records[cell.key], ""
    return found.records.get(replace(cell, quick=True).key), "--quick"


def _other_tasks(found: Once) -> list[str]:
    """A line for each corpus that has another number of classes here than in the paper."""
    shown = {
        cell: record
        for cell in found.paper.cells
        if (record := _record(found, cell)[0]) is not None
    }
    return list(dict.fromkeys(
        f"{cell.corpus} has {record['classes']} classes here and {found.paper.classes[cell.corpus]} in the paper: not compared"
        for cell, record in shown.items()
        if not is_same_task(found.paper, cell, record)
    ))  # fmt: skip


def _missing(found: Once) -> Iterator[tuple[str, str]]:
    """The cells without a record, each with the reason; those of a corpus that is not here are one line."""
    absent = {
        cell.key: cell.corpus for cell in found.paper.cells if _record(found, cell)[0] is None
    }
    for key, corpus in absent.items():
        if key in found.failed and corpus not in found.paper.missing:
            yield key, found.failed[key]
    others = [
        key
        for key, corpus in absent.items()
        if key not in found.failed and corpus not in found.paper.missing
    ]
    if others:
        yield ", ".join(others), f"not run yet: attnaudit reproduce {found.paper.name}"
    yield from (
        (corpus, reason)
        for corpus, reason in found.paper.missing.items()
        if corpus in absent.values()
    )


def _filled(found: Once, table: Table) -> Filled:
    paper, cells = (
        found.paper,
        [
            cell
            for cell in found.paper.cells
            if cell.study == table.study and (not table.only or cell.corpus in table.only)
        ],
    )
    shown = [(cell, *_record(found, cell)) for cell in cells]
    with_model = any(cell.model for cell, _, _ in shown)
    rows: list[Row] = []
    reasons: dict[str, list[str]] = {}
    for cell, record, scale in shown:
        if record is None:
            continue
        theirs = (
            numbers_of(paper.name, cell.corpus, cell.study, cell.model)
            if is_same_task(paper, cell, record)
            else {}
        )
        for label, own in _rows_of(table, record["summary"]):
            entries = tuple(
                _entry(own, measure, head, theirs, label) for measure, head in table.columns.items()
            )
            labels = (
                cell.corpus,
                *([cell.model or "–"] if with_model else []),
                *([label[1]] if table.by else []),
            )
            rows.append(
                Row(
                    (" ".join(filter(None, (labels[0], scale and f"({scale})"))), *labels[1:]),
                    entries,
                    str(record["commit"] or "–"),
                )
            )
            for entry, (measure, head) in zip(entries, table.columns.items(), strict=True):
                if entry.agreement == "farther":
                    why = (
                        paper.reason(
                            cell, f"{measure}_{label[0]}" if table.by == "model" else measure
                        )
                        or NO_REASON
                    )
                    reasons.setdefault(why, []).append(
                        f"○ {', '.join(filter(None, (*labels[:1], *labels[2:], head)))}"
                    )
    heads = (
        "corpus",
        *(["variant" if table.by == "model" else "model"] if with_model else []),
        *([table.by.replace("delta_alpha", "Δα")] if table.by else []),
        *table.columns.values(),
    )
    return Filled(
        table.title,
        heads,
        tuple(rows),
        tuple(("; ".join(what), why) for why, what in reasons.items()),
    )


def _rows_of(
    table: Table, summary: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[tuple[str, str], Rows]]:
    """((name, label), rows by column) of each row that the table has of a summary; the name ends the measures of a model."""
    if table.by == "model":
        known = EVERY_STUDY[table.study].measures
        split = [
            (*figure_and_model(row["measure"], known), row)
            for row in summary
            if row["group"] == "all"
        ]
        for model in dict.fromkeys(
            model for figure, model, _ in split if model and figure in table.columns
        ):
            yield (
                (model, model_label(model)),
                {figure: row for figure, of, row in split if of == model},
            )
    elif table.by:
        groups = dict.fromkeys(
            row["group"] for row in summary if row["group"].startswith(f"{table.by}:")
        )
        for group in groups:
            yield (
                (group, group.partition(":")[2]),
                {_column(row): row for row in summary if row["group"] == group},
            )
    else:
        yield ("", ""), {_column(row): row for row in summary if row["group"] == "all"}


def _entry(
    own: Rows, column: str, head: str, theirs: Mapping[str, Number], label: tuple[str, str]
) -> Entry:
    measure, _, counted = column.partition("#")
    row = own.get(measure)
    if counted:
        return Entry("–" if row is None else str(row[counted]))
    published = (
        None if ":" in label[0] else theirs.get(f"{measure}_{label[0]}" if label[0] else measure)
    )
    shown = (
        ""
        if published is None
        else f" ({'≈' if published.read_off else ''}{_number(published.value, head, short=True)}°)"
    )
    if row is None or row["value"] is None:
        return Entry(f"–{shown}")
    interval = (
        ""
        if row["low"] is None
        else f" [{_number(row['low'], head)}, {_number(row['high'], head)}]"
    )
    return Entry(
        f"{_number(row['value'], head)}{interval}{shown}",
        "" if published is None else judged(row, published),
    )


def _number(value: float, head: str, short: bool = False) -> str:
    if head.endswith(PERCENT):
        return f"{100 * value:.3g}" if short else f"{100 * value:.1f}"
    return f"{value:g}" if short else f"{value:.3f}"
