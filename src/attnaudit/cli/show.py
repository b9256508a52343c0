"""Output of commands: cards and tables for people, JSON for programs.

Functions import what few commands need, so that an audit starts quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import typer
from rich.console import Console

from attnaudit.core import count, printable, read_json, read_with_digest
from attnaudit.recipes.audit import VERDICT
from attnaudit.recipes.job import DICTIONARY
from attnaudit.report.answer import answer
from attnaudit.report.card import verdict
from attnaudit.report.terminal import print_answer, print_table
from attnaudit.report.words import figure, interval
from attnaudit.results import (
    About,
    RunRecord,
    SummaryRows,
    counted,
    read_record,
    read_summary,
    read_table,
)
from attnaudit.steps import Planned
from attnaudit.trace import trace_metadata

if TYPE_CHECKING:
    from attnaudit.corpora.check import CorpusCheck
    from attnaudit.corpora.fetch import Fetched
    from attnaudit.hf.gate import Gate
    from attnaudit.recipes.reproduction.sweep import Outcome
    from attnaudit.recipes.settings import Setting
    from attnaudit.results.paired import PairedRuns

REPORT = "report"
PAGES = {"report.html": REPORT, "translation.html": "texts", DICTIONARY: "words"}
SHOWN_CLASSES, SHOWN_MEASURES = 12, 8
MEANING = "docs/verdict.md"
WIDTH = 140  # columns where the output is no terminal


def show_run(folder: Path, as_json: bool, details: bool = False) -> None:
    """Print the answer of a run, and where its pages are."""
    record, manifest = read_record(folder), read_json(folder / "manifest.json")
    pages = {name: folder / file for file, name in PAGES.items() if (folder / file).exists()}
    if as_json:
        known = {name: manifest[name] for name in ("notes", "skipped")}
        said = {
            "verdict": read_json(folder / VERDICT),
            "card": verdict(record.summary, record.about).to_json(),
            "left_out": _left_out(folder),
            "summary": record.summary.to_dicts(),
        }
        listed = [str(page) for page in pages.values()]
        show_json({"run": str(folder), "pages": listed, **known, **said})
        return
    ending = []
    bleu = SummaryRows.of(record.summary).rows.get(("translation", "bleu"))
    if bleu is not None:
        pairs = count(bleu["n"], "test pair")
        ending = [("BLEU", f"{figure(bleu['value'], 1)} {interval(bleu, 1)} on {pairs}")]
    trace = folder / "trace" if (folder / "trace").exists() else None
    _print_answer(folder, record, trace, details, [*ending, *_listed(pages)])
    if details:
        show_lines("note", manifest["notes"])
        skipped = ("{file}: row {row}: {reason}".format(**row) for row in manifest["skipped"])
        show_lines("skipped", skipped)


def show_audit(folder: Path, as_json: bool, details: bool = False) -> None:
    """Print the answer of an audit, and where its report is."""
    if as_json:
        rows = read_json(folder / "summary.json")
        show_json({"verdict": read_json(folder / VERDICT), "summary": rows})
        return
    trace = folder / read_with_digest(folder / "spec.json")["trace"]
    pages = _listed({REPORT: folder / "report.html"})
    _print_answer(folder, read_record(folder, trace), trace, details, pages)


def _listed(pages: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Return a line for each page; the report's also says where the answer is explained."""
    ends = {REPORT: f"    what this means: {MEANING}"}
    return [(name.upper(), f"{page}{ends.get(name, '')}") for name, page in pages.items()]


def _print_answer(
    folder: Path,
    record: RunRecord,
    trace: Path | None,
    details: bool,
    ending: Sequence[tuple[str, str]],
) -> None:
    """Print the answer, then every measure if asked to or if the answer has no evidence."""
    left_out = _left_out(folder)
    found = answer(record, trace, left_out)
    print_answer(found, _console(), [*ending, ("NEXT", "    ".join(found.next))])
    if details or not found.evidence:
        verdict(record.summary, record.about).print(_console())
        _print_summary(record.summary.to_dicts(), str(folder))
        show_lines("skipped", [f"{name}: {reason}" for name, reason in left_out.items()])


def show_plan(planned: Sequence[Planned], as_json: bool) -> None:
    """Print what a command would make, and what of it is there."""
    if as_json:
        show_json([asdict(one) for one in planned])
        return
    rows = [(one.name, "done" if one.is_done else "missing", one.folder) for one in planned]
    print_rows("", ("what", "state", "folder"), rows)
    say(f"{sum(not one.is_done for one in planned)} of {len(planned)} missing")


def show_study(folder: Path, as_json: bool) -> None:
    """Print the card of a study, its first numbers over all instances, and where its pages are."""
    from attnaudit.report.study_page import copying_card, study_card

    rows = read_json(folder / "summary.json")
    if as_json:
        show_json(rows)
        return
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    study, pages = spec["study"], {"report": folder / "report.html"}
    if study["name"] == "copying":
        source, card = study["kind"], copying_card(summary, study)
    else:
        # Any of the trainings names the corpus.
        training, *_ = read_json(folder / "manifest.json")["trainings"].values()
        metadata = trace_metadata(folder.parent / "trainings" / training / "trace")
        source, card = spec["corpus"]["source"], study_card(summary, About.of(spec, metadata))
        pages["all studies"] = folder.parent / "index.html"
    card.print(_console())
    _print_summary(rows, f"study {study['name']} of {source}", SHOWN_MEASURES)
    _end(pages)


def show_calibration(folder: Path, as_json: bool) -> None:
    """Print how often verdicts are right, and the best measures of each half."""
    from attnaudit.calibration.verdicts import confusion

    scores, verdicts = (
        read_table(folder / f"{name}.parquet").collect() for name in ("scores", "verdicts")
    )
    answers = confusion(verdicts)
    if as_json:
        show_json({"verdicts": answers.to_dicts(), "scores": scores.to_dicts()})
        return
    print_rows("verdicts of confirmed models", answers.columns, answers.rows())
    for (half,), part in scores.group_by("half", maintain_order=True):
        rows = [
            (
                f"{row['experiment']}: {row['measure']}",
                row["direction"],
                figure(row["auc"]),
                interval(row),
                f"{row['faithful']} × {row['unfaithful']}",
            )
            for row in part.drop_nulls("auc").head(SHOWN_MEASURES).iter_rows(named=True)
        ]
        columns = ("measure", "better", "AUC", "95 % interval", "constructions")
        print_rows(f"best measures of the half {half}", columns, rows)
    say(f"page, with all measures: {folder / 'report.html'}")


def _left_out(folder: Path) -> dict[str, str]:
    return read_json(folder / "manifest.json")["steps"]["audit"]["notes"]["left_out"]


def _end(pages: Mapping[str, Path]) -> None:
    """Print where the pages are."""
    for name, page in pages.items():
        say(f"{name}: {page}")


def _print_summary(rows: list[dict[str, Any]], title: str, most: int | None = None) -> None:
    """Print what a summary says over all instances, its first ``most`` measures."""
    overall = [row for row in rows if row["group"] == "all"]
    shown = [
        (
            row["experiment"],
            row["measure"],
            figure(row["value"], 3),
            interval(row, 3) or None,
            counted(row),
            row["undefined"],
        )
        for row in overall[:most]
    ]
    columns = ("experiment", "measure", "value", "95 % interval", "n", "undefined")
    print_rows(title, columns, shown)
    if further := len(overall) - len(shown):
        say(f"{count(further, 'further measure')} in the report and with --json")


def show_comparison(rows: pl.DataFrame, as_json: bool) -> None:
    """Print our numbers beside the published ones."""
    from attnaudit.report.sections.comparison import print_comparison

    if as_json:
        show_json(rows.to_dicts())
    else:
        print_comparison(rows, _console())


def show_differences(
    compared: Sequence[PairedRuns], page: Path | None, as_json: bool, every: bool
) -> None:
    """Print runs compared with the first of them, and where the page is."""
    from attnaudit.report.sections.differences import print_differences

    if as_json:
        show_json([one.to_json() for one in compared])
        return
    print_differences(compared, _console(), every)
    _end({} if page is None else {"report": page})


def show_reproduction(outcome: Outcome, as_json: bool) -> None:
    """Print where the page of a paper is, or its whole table and what could not be run."""
    table = outcome.page.parent / "reproduction.csv"
    if as_json:
        rows = pl.read_csv(table, infer_schema_length=None, glob=False).to_dicts()
        not_run = [asdict(one) for one in outcome.not_run]
        show_json({"rows": rows, "not_run": not_run, "notes": list(outcome.notes)})
    else:
        _end({"table": table, "report": outcome.page})


def show_json(value: Any) -> None:
    """Print JSON, with escapes for characters that do not print."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    for line in text.split("\n"):
        typer.echo("".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line))


def _console() -> Console:
    return Console(width=None if Console().is_terminal else WIDTH)


def show_settings(sections: Mapping[str, Sequence[Setting]]) -> None:
    """Print a table for each section of settings."""
    for title, settings in sections.items():
        columns = ("setting", "values", "default", "with --full", "meaning")
        rows = [(one.key, one.values, one.default, one.full, one.meaning) for one in settings]
        print_rows(title, columns, rows)


def show_listing(corpora: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print one line for each of `listed_corpora`."""
    if as_json:
        show_json(corpora)
        return
    columns = ("name", "task", "classes", "citation", "licence", "folder, or how to get it")
    rows = []
    for one in corpora:
        size = "" if one["bytes"] is None else f" ({one['bytes'] / 1e6:.1f} MB)"
        found, names = one["folder"] or f"{one['get']}{size}", one["classes"]
        classes = "–" if one["task"] == "translation" else "those of train"
        if names:
            classes = ", ".join(names) if len(names) <= 3 else f"{len(names)}"
        rows.append((one["name"], one["task"], classes, one["citation"], one["licence"], found))
    print_rows("", columns, rows)


def show_check(check: CorpusCheck, as_json: bool) -> None:
    """Print all tables of a check."""
    if as_json:
        show_json(check.to_json())
        return
    corpus = check.corpus
    words = f"vocabulary: words in {corpus.min_df} or more train rows"
    say(f"{corpus.name}: {corpus.task}, {words}; fingerprint {corpus.fingerprint[:16]}")
    counts = check.tables["classes"].pivot(
        "split", index="class", values="rows", aggregate_function="sum"
    )
    splits = counts.columns[1:]
    largest = counts.sort(pl.sum_horizontal(splits), descending=True, maintain_order=True)
    total = (f"all {counts.height}", *counts.select(splits).sum().row(0))
    lines = [*largest.head(SHOWN_CLASSES).rows(), total]
    print_rows("rows of each class", ("class", *splits), lines)
    for name, (title, columns) in _TABLES.items():
        print_rows(title, columns, check.tables[name].rows())
    show_lines("note", corpus.notes)
    show_lines("differs", check.differs)


def show_gate(gate: Gate, as_json: bool) -> None:
    """Print what was checked of a transformer, and its layers."""
    if as_json:
        show_json(gate.to_json())
        return
    for line in (f"{_audited(gate)}; texts in one batch: {gate.batching}", *gate.notes):
        say(line)
    checks = [
        (
            one.name,
            one.meaning,
            one.reason if one.figure is None else f"{one.figure:.2g}",
            one.wanted,
        )
        for one in gate.checks
    ]
    columns = ("check", "what it measures", "figure", "expected")
    print_rows("", columns, checks)
    layers = [
        (one.stack, one.layer, one.heads, one.width, bool(one.sink), one.way or None, one.path)
        for one in gate.layers
    ]
    columns = ("stack", "layer", "heads", "width of values", "sink", "replayed by", "module")
    print_rows("", columns, layers)


def _audited(gate: Gate) -> str:
    """Say what an audit does with a model that passed."""
    replaced = f"{gate.model}: its attention can be read and replaced"
    if gate.task is None:
        return f"{replaced}; so no audit: it predicts no class, label, next token or translation"
    if gate.reads is None:
        return f"{replaced}; its prediction reads several positions, so no head is audited"
    place = "the last position" if gate.reads == -1 else f"position {gate.reads}"
    labelled = {
        "token-classification": "a word of each text, or all (--set collect.positions=all)",
        "question-answering": "the end that it predicts (--set collect.output=start, or end)",
    }
    return f"{gate.model} can be audited: {gate.task}, read at {labelled.get(gate.task, place)}"


def show_fetched(fetched: Fetched, checks: Sequence[CorpusCheck], as_json: bool) -> None:
    """Print where a corpus is now, and what it holds if it was read."""
    if as_json:
        about = {**asdict(fetched), "folder": str(fetched.folder)}
        show_json({**about, "check": checks[0].to_json() if checks else None})
        return
    for check in checks:
        show_check(check, as_json)
    show_lines("note", fetched.notes)
    state = "already present" if fetched.already else "fetched"
    say(f"{fetched.name}: {state}: {fetched.folder}")


_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
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
    "damage": ("damage", ("split", "what", "rows", "first text", "example")),
    "rationale": ("rationales", ("split", "rows", "with a rationale", "share of their words")),
    "skipped": ("skipped rows", ("reason", "rows", "file", "first row")),
}


def print_rows(title: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Print a table, if it has rows; the first column is not wrapped."""
    if rows:
        kinds = ["name", *[""] * len(columns)]
        for place, values in enumerate(zip(*rows, strict=True)):
            if all(value is None or type(value) in (int, float) for value in values):
                kinds[place] = "num"
        texts = (map(_cell, row) for row in rows)
        print_table(_console(), title, list(zip(columns, kinds, strict=False)), texts)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "–" if value is None else str(value)


def show_lines(kind: str, lines: Iterable[str]) -> None:
    """Print lines of one kind, such as notes."""
    for line in lines:
        say(f"{kind}: {line}")


def say(line: str) -> None:
    """Print one line."""
    typer.echo(printable(line))
