"""The page of a reproduction, with its published numbers and what agrees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from attnaudit.core import atomic, count
from attnaudit.papers import Cell, Declaration, Table
from attnaudit.papers.comparison import (
    AGREEMENTS,
    RULE,
    compare,
    is_other_task,
    legend_of,
    tally,
)
from attnaudit.papers.published import ALL, sources
from attnaudit.report.charts.marks import Scale, point_chart
from attnaudit.report.charts.svg import Drawing, Figure, drawn
from attnaudit.report.models import figure_and_model, model_label
from attnaudit.report.page import Section, figures_section, write_page
from attnaudit.report.sections.numbers import group_label
from attnaudit.studies import EVERY_STUDY

PERCENT = "(%)"
STATISTICS = {"mean": "Means", "share": "shares", "std": "standard deviations", "median": "medians"}
NO_REASON = "no reason is known"
CAPTION = (
    "Every published mean, share and median against ours with its 95 % interval, if both lie in "
    "[−1, 1]. For two published values, their mean is drawn."
)
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Reproduction:
    """The reproduced part of a paper.

    Attributes:
        paper: The paper.
        records: Records by the keys of cells.
        failed: Why cells could not be done, by key.
        notes: What else is to be known.
        pages: Links to the pages of runs, by key and seed.
    """

    paper: Declaration
    records: Mapping[str, Record]
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    pages: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def record(self, cell: Cell) -> tuple[Record | None, str]:
        """Return the record of a cell, else that of ``--quick``, and which one it is."""
        if cell.key in self.records:
            return self.records[cell.key], ""
        return self.records.get(replace(cell, quick=True).key), "--quick"

    def is_compared(self, cell: Cell, record: Record) -> bool:
        """Say whether a record has as many classes as the paper's corpus."""
        names = record.get("class_names", ())
        same = not names or len(names) == self.paper.classes.get(cell.corpus, len(names))
        return same and not is_other_task(self.paper.name, cell.corpus, names)

    def comparison(self, cell: Cell) -> pl.DataFrame:
        """Compare a cell with its published numbers."""
        record, _ = self.record(cell)
        if record is None or not self.is_compared(cell, record):
            record = {"summary": []}
        published = {"corpus": cell.corpus, "study": cell.study, "model": cell.model}
        return compare(self.paper.name, published, record["summary"], record.get("class_names", ()))

    def all_numbers(self) -> pl.DataFrame:
        """Compare all cells."""
        return pl.concat(map(self.comparison, self.paper.cells))


class Filled(NamedTuple):
    """A table with its rows of texts.

    Attributes:
        title: Its title.
        heads: Titles of the columns, each with its class.
        rows: A text for each column.
        tally: How many numbers agree how well.
        reasons: (numbers, reason) of those that are farther off.
    """

    title: str
    heads: list[tuple[str, str]]
    rows: list[list[str]]
    tally: str
    reasons: list[tuple[str, str]]


def write_paper(found: Reproduction, folder: Path) -> Path:
    """Write ``index.html`` and ``reproduction.csv``. Raises RunError."""
    paper, content, numbers = found.paper, content_of(found), found.all_numbers()
    title = f"Reproduction of {paper.paper.citation}"
    with atomic(folder / "reproduction.csv") as temporary:
        numbers.write_csv(temporary)
    tables = enumerate(content["tables"], 1)
    links = [(table.title.partition(" (")[0], f"#table-{k}") for k, table in tables]
    shown = (("Verdict", "#verdict"), *links)
    sections: list[Section | None] = [Section("paper", content, styles=("paper.css",), links=shown)]
    if numbers["ours"].count():
        label = "Our numbers against the published ones"
        panel = drawn("", agreement_chart(numbers), "agreement", label)
        sections.append(figures_section([Figure("agreement", label, CAPTION, (panel,))]))
    return write_page(
        folder / "index.html",
        sections,
        f"Did “{paper.paper.title}” reproduce?",
        paper.question,
        title=title,
    )


def content_of(found: Reproduction) -> dict[str, Any]:
    """Return the verdict, tables, notes and commands that every form of the page shows."""
    used = {"unknown", *found.all_numbers().filter(pl.col("ours").is_not_null())["agreement"]}
    filled = (_filled(found, table) for table in found.paper.tables)
    return {
        "tables": [table for table in filled if table.rows],
        "rule": f"{legend_of(used)} {RULE}",
        "verdict": _verdict(found),
        "missing": _missing(found),
        "notes": [*found.notes, *_remarks(found)],
        "commands": [
            (key, record["command"], record["commit"], found.pages.get(key, {}))
            for key, record in found.records.items()
        ],
    }


def _verdict(found: Reproduction) -> list[str]:
    """Say what was measured of what was published."""
    keys = {cell.key for cell in found.paper.cells}
    whole, numbers = len(keys & found.records.keys()), found.all_numbers()
    recorded = f"{whole} of {len(keys)} cells are recorded"
    if quick := len(found.records) - whole:
        recorded += f", and {count(quick, 'cell')} of --quick"
    quoted = (f"{number} from {name}" for name, number in sources(found.paper.name).items())
    known = (
        f"Published numbers that this package has: {', '.join(quoted)}. The paper may give more."
    )
    measured = numbers.filter(pl.col("ours").is_not_null())
    counted = "; ".join(
        f"{STATISTICS[name]} {tally(part['agreement'])}"
        for (name,), part in measured.group_by("statistic", maintain_order=True)
    )
    agree = "No published number can be compared with a record."
    if counted:
        agree = f"Published numbers that are measured here: {measured.height}. {counted}."
    return [f"{recorded}.", known, agree]


def _remarks(found: Reproduction) -> list[str]:
    """Return what is not as the paper says, of each record and of its corpus, each once."""
    remarks: list[str] = []
    for cell in found.paper.every_cell:
        record = found.records.get(cell.key, {})
        if changed := record.get("changed"):
            settings = ", ".join(f"{name} = {value}" for name, value in changed.items())
            remarks.append(
                f"{cell.key} has other settings than those of the paper here: {settings}"
            )
        if record and not found.is_compared(cell, record):
            here = f"{len(record['class_names'])} classes here"
            other = "another number than in the paper: not compared"
            remarks.append(f"{cell.corpus} has {here}, {other}")
        remarks += [f"{cell.corpus}: {note}" for note in record.get("notes", ())]
    return list(dict.fromkeys(remarks))


def _missing(found: Reproduction) -> list[tuple[str, str]]:
    """Return the cells without a record, with reasons; of a missing corpus its name only."""
    paper, reasons = found.paper, dict[str, dict[str, None]]()
    for cell in paper.cells:
        if found.record(cell)[0] is None:
            name, reason = cell.key, f"not run yet: attnaudit reproduce {paper.name}"
            if cell.key in found.failed:
                reason = found.failed[cell.key]
            elif cell.corpus in paper.missing:
                name, reason = cell.corpus, paper.missing[cell.corpus]
            reasons.setdefault(reason, {})[name] = None
    return [(", ".join(names), reason) for reason, names in reasons.items()]


def _filled(found: Reproduction, table: Table) -> Filled:
    of_study = [cell for cell in found.paper.cells if cell.study == table.study]
    cells = [cell for cell in of_study if not table.only or cell.corpus in table.only]
    with_model, of_models = any(cell.model for cell in cells), table.by == "model"
    by = {"delta_alpha": "Δα", "predicted": "texts"}.get(table.by, table.by)
    label = {"model": model_label, "predicted": group_label}.get(table.by)
    labels = dict[str, str]()
    rows, agreements, reasons = list[list[str]](), list[str](), dict[str, list[str]]()
    for cell in cells:
        record, scale = found.record(cell)
        if record is None:
            continue
        chosen = found.comparison(cell).filter(pl.col("statistic") != "std")
        # By measure, and group with its bin.
        theirs = {
            (row["measure"], "@".join(filter(None, (row["group"], row["max_alpha"])))): row
            for row in chosen.to_dicts()
        }
        for group, own in _groups(table, record["summary"]):
            labels["corpus"] = f"{cell.corpus} ({scale})" if scale else cell.corpus
            if with_model:
                labels["variant" if of_models else "model"] = cell.model or "–"
            if by:
                labels[by] = label(group) if label else group.partition(":")[2]
            rows.append([*labels.values()])
            for column, head in table.columns.items():
                text, agreement = _entry(own, theirs, column, head, group)
                rows[-1].append(text)
                agreements.append(agreement)
                if agreement == "farther":
                    measure = f"{column}_{group}" if of_models else column.partition("@")[0]
                    reason = found.paper.reason(cell, measure) or NO_REASON
                    far = ", ".join(part for part in (*labels.values(), head) if part != "–")
                    reasons.setdefault(reason, []).append(f"○ {far}")
            rows[-1].append(record["commit"] or "–")
    heads = [(head, "") for head in labels]
    heads += [(head, "num") for head in table.columns.values()]
    why = [("; ".join(numbers), reason) for reason, numbers in reasons.items()]
    return Filled(table.title, [*heads, ("commit", "muted")], rows, tally(agreements), why)


def _groups(table: Table, summary: Sequence[Record]) -> Iterator[tuple[str, dict[str, Record]]]:
    """Yield the groups, or models, that a table has rows of, with summary rows by column."""
    rows: dict[str, dict[str, Record]] = {}
    for row in summary:
        group, _, bin_ = row["group"].partition(" max_alpha:")
        measures = [row["measure"], f"{row['experiment']}/{row['measure']}"]
        if table.by == "model":
            name, group = figure_and_model(row["measure"], EVERY_STUDY[table.study].measures)
            measures = [name] if group and row["group"] == ALL else []
        elif not (group == ALL and table.by in ("", "predicted")):
            measures = measures if table.by and group.startswith(f"{table.by}:") else []
        for measure in measures:
            rows.setdefault(group, {})[f"{measure}@{bin_}" if bin_ else measure] = row
    columns = {column.partition("#")[0] for column in table.columns}
    yield from ((group, own) for group, own in rows.items() if columns & own.keys())


def _entry(
    own: Mapping[str, Record], theirs: Mapping[Any, Record], column: str, head: str, group: str
) -> tuple[str, str]:
    """Return the text of a number, with the published ones, and its agreement if there is one."""
    column, _, counted = column.partition("#")
    row = own.get(column)
    if counted:
        return "–" if row is None else str(row[counted]), ""
    measure, _, bin_ = column.partition("@")
    place = f"{group}@{bin_}" if bin_ else group
    found = theirs.get((f"{measure}_{group}", ALL)) or theirs.get((measure, place))
    percent = 100 if head.endswith(PERCENT) else 1

    def number(value, form="1f" if percent > 1 else "3f"):
        return f"{percent * value:.{form}}"

    shown = ""
    if found is not None:
        values = (found[name] for name in ("paper", "rerun") if found[name] is not None)
        texts = "; ".join(number(value, "3g") for value in values)
        quoted = "" if found["where"] == "result files" else "°"
        shown = f" ({'≈' if found['read_off'] else ''}{texts}{quoted})"
    if row is None or row["value"] is None:
        return f"–{shown}", ""
    text = number(row["value"])
    if row["low"] is not None:
        text += f" [{number(row['low'])}, {number(row['high'])}]"
    if found is None or found["agreement"] == "unknown":
        return text, ""
    return f"{AGREEMENTS[found['agreement']][0]} {text}{shown}", found["agreement"]


MEANS = ("mean", "share", "median")


def agreement_chart(numbers: pl.DataFrame) -> Drawing:
    """Draw our numbers, with intervals, against published ones; on the line both are equal.

    Args:
        numbers: Table of `papers.comparison.compare`; our numbers that are missing, or go beyond
            [−1, 1], are left out.
    """
    chosen = pl.col("statistic").is_in(MEANS), pl.col("ours").is_between(-1, 1)
    points = numbers.filter(*chosen).select(
        pl.concat_str("corpus", "model", "measure", pl.col("group"), separator=", ").alias(
            "number"
        ),
        *("low", "high"),
        group=pl.lit("ours"),
        x=pl.mean_horizontal("paper", "rerun"),
        y="ours",
    )
    low = -1 if points.filter(pl.min_horizontal("x", "y") < 0).height else 0
    published, ours = (Scale(title, 1, low) for title in ("published", "ours"))
    return point_chart(points, published, ours, diagonal=True)
