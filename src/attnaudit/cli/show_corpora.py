"""How lists and checks of corpora are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attnaudit.cli.show import show_json
from attnaudit.corpora.check import CorpusCheck
from attnaudit.corpora.fetch.fetching import Fetched
from attnaudit.corpora.registry import Listed

SHOWN_CLASSES = 12
WIDTH = 140  # columns where the output is no terminal


def show_listing(corpora: Sequence[Listed], as_json: bool) -> None:
    """One line a corpus."""
    if as_json:
        show_json([asdict(corpus) for corpus in corpora])
        return
    rows = [(one.name, one.task, _classes(one), one.citation, one.licence, one.folder or _how(one)) for one in corpora]
    _print("", ("name", "task", "classes", "citation", "licence", "folder, or how to get it"), rows, whole=("name", "task", "citation"))


def show_check(check: CorpusCheck, as_json: bool) -> None:
    """All tables of a check."""
    if as_json:
        show_json(check.to_json())
        return
    typer.echo(f"{check.name}: {check.task}, vocabulary: words in {check.min_df} or more train rows; fingerprint {check.fingerprint[:16]}")
    _print("rows of each class", *_class_table(check.classes))
    _print("rows per class, compared with the published ones", *_plain(check.published, ("split", "published", "here", "equal")))
    _print("length in words", *_plain(check.lengths, ("split", "of", "min", "median", "95 %", "max")))
    _print("words", *_plain(check.words, ("split", "words", "different", "unknown", "unknown, of different")))
    columns = ("split", "rows", "repeated in the split", "also in train", "also in dev", "with another label elsewhere")
    _print("rows with the same words", *_plain(check.repeated, columns))
    _print("damage", *_plain(check.damage, ("split", "what", "rows", "first instance", "example")))
    _print("rationales", *_plain(check.rationale, ("split", "rows", "with a rationale", "share of their words")))
    _print("skipped rows", *_plain(check.skipped, ("reason", "rows", "file", "first row")))
    _tell("note", check.notes)
    _tell("differs", check.differs)


def show_fetched(fetched: Fetched, check: CorpusCheck | None, as_json: bool) -> None:
    """Where a corpus is now, and what it holds in short."""
    if as_json:
        about = {"name": fetched.name, "folder": str(fetched.folder), "already": fetched.already, "notes": fetched.notes}
        show_json({**about, "check": check and check.to_json()})
        return
    if check is not None:
        _print("rows of each class", *_class_table(check.classes))
        _print("rows per class, compared with the published ones", *_plain(check.published, ("split", "published", "here", "equal")))
        _print("damage", *_plain(check.damage, ("split", "what", "rows", "first instance", "example")))
        _tell("note", check.notes)
    _tell("note", fetched.notes)
    typer.echo(f"{fetched.name}: {'already present' if fetched.already else 'fetched'}: {fetched.folder}")


def _class_table(classes: pl.DataFrame) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """A line for each class, where there are many the largest, and their sum."""
    counts = classes.pivot("split", index="class", values="rows", aggregate_function="sum")
    splits = counts.columns[1:]
    shown = counts
    if counts.height > SHOWN_CLASSES:
        largest = counts.sort(pl.sum_horizontal(splits), descending=True, maintain_order=True)
        others = largest[SHOWN_CLASSES:].select(splits).sum().row(0)
        shown = largest[:SHOWN_CLASSES]
        return ("class", *splits), [*shown.rows(), (f"{counts.height - SHOWN_CLASSES} others", *others), _sum(counts, splits)]
    return ("class", *splits), [*shown.rows(), _sum(counts, splits)]


def _sum(counts: pl.DataFrame, splits: Sequence[str]) -> tuple[Any, ...]:
    return ("all", *counts.select(splits).sum().row(0))


def _plain(table: pl.DataFrame, columns: Sequence[str]) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    return columns, table.rows()


def _print(title: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], whole: Sequence[str] = ()) -> None:
    """A table, if it has rows; cells of the columns that are named are kept on one line."""
    if not rows:
        return
    table = Table(title=title or None, title_justify="left")
    for place, column in enumerate(columns):
        numbers = all(row[place] is None or type(row[place]) in (int, float) for row in rows)
        table.add_column(escape(column), justify="right" if numbers else "left", overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    Console(width=None if Console().is_terminal else WIDTH).print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    text = "–" if value is None else str(value)
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _tell(kind: str, lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(f"{kind}: {line}")


def _classes(corpus: Listed) -> str:
    if not corpus.classes:
        return "–" if corpus.task == "translation" else "those of train"
    return ", ".join(corpus.classes) if len(corpus.classes) <= 3 else f"{len(corpus.classes)}"


def _how(corpus: Listed) -> str:
    return corpus.get if corpus.bytes is None else f"{corpus.get} ({corpus.bytes / 1e6:.1f} MB)"
