"""Record the corpora of a finished sweep, and write the tables of docs/reproduction.md from the records of all.

    python docs/reproduction_tables.py --data-dir DIR [--sweep runs/jain2019]

Each corpus leaves a record (`records`) of its means over seeds, so that one can be run again without the others. The page is written once
every corpus that it shows has a record.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
from records import PLACE, load, save

from attnaudit.core.files import atomic, sha256, write_text
from attnaudit.published.compare import SEEDS_SCHEMA
from attnaudit.published.reproduction import all_numbers
from attnaudit.report.reproduction.page import Reproduction, markdown
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord
from attnaudit.runner.cells import found_in
from attnaudit.runner.sweep import not_asked_for, reproduction_of

PAGE = Path(__file__).parent / "reproduction.md"
RECORDS = PLACE / "jain2019"
MARK = "<!-- tables: docs/reproduction_tables.py -->"
SHOWN = ("20news_sports", "ag_news", "babi1", "babi2", "imdb", "snli", "sst")
COMMAND = "attnaudit reproduce jain2019 --corpus {} --data-dir DATA --vectors VECTORS --out runs/jain2019"


def record(sweep: Path) -> None:
    """Record each corpus that the sweep has runs of: ``<corpus>.csv`` are its numbers, ``<corpus>.json`` says what they are of."""
    _, averaged, _ = found_in(sweep)
    for corpus, runs in groupby(averaged, key=lambda run: run.cell.corpus):
        found = reproduction_of(list(runs))
        numbers = RECORDS / f"{corpus}.csv"
        numbers.parent.mkdir(parents=True, exist_ok=True)
        with atomic(numbers) as temporary:
            all_numbers(found.table, found.runs).write_csv(temporary)
        save(
            RECORDS / f"{corpus}.json", COMMAND.format(corpus), [_identity(run.name, run.about) for run in found.runs],
            notes=[note for notes in found.corpus_notes.values() for note in notes], numbers=sha256(numbers),
        )  # fmt: skip


def _identity(name: str, about: About) -> dict[str, Any]:
    """What the page says of a run besides its numbers, as the run's own specification and trace say it."""
    task = about.metadata.get("corpus", {}).get("task")
    return {
        "name": name, "seed": about.seed, "corpus": {"name": about.corpus, "title": about.title, "task": task},
        "model": {"encoder": about.encoder, "attention": about.attention}, "class_names": list(about.class_names),
    }  # fmt: skip


def recorded(data_dir: str) -> Reproduction:
    """What all records say together."""
    records = {corpus: load(RECORDS / f"{corpus}.json") for corpus in SHOWN}
    numbers = pl.concat([_numbers(corpus, record) for corpus, record in records.items()])
    runs = tuple(
        RunRecord(run["name"], pl.DataFrame(schema=SUMMARY_SCHEMA), About.of(run, run))
        for record in records.values()
        for run in record["summary"]
    )
    notes = {corpus: (f"command: {record['command']}; commit {record['commit']}", *record["notes"]) for corpus, record in records.items()}
    return Reproduction(table=numbers, runs=runs, pages={}, corpus_notes=notes, not_run=not_asked_for(SHOWN, data_dir))


def _numbers(corpus: str, record: dict[str, Any]) -> pl.DataFrame:
    """The numbers that a record is of."""
    place = RECORDS / f"{corpus}.csv"
    if sha256(place) != record["numbers"]:
        raise SystemExit(f"{place.name}: changed since it was recorded; run the command of {corpus}.json and record it again")
    return pl.read_csv(place, schema=SEEDS_SCHEMA).with_columns(pl.col("agreement", "note").fill_null(""))


def write_page(data_dir: str) -> None:
    """Write the tables below the page's written part."""
    missing = [corpus for corpus in SHOWN if not (RECORDS / f"{corpus}.json").exists()]
    if missing:
        print(f"{PAGE.name} is left as it is: no record of {', '.join(missing)}")
        return
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    _, _, tables = markdown(recorded(data_dir)).partition("\n")  # without its title
    write_text(PAGE, f"{written}{MARK}\n\n{tables.strip()}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--sweep", type=Path, default=Path("runs/jain2019"))
    options = parser.parse_args()
    if options.sweep.exists():
        record(options.sweep)
    write_page(options.data_dir)


if __name__ == "__main__":
    main()
