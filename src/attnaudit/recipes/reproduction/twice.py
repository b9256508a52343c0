"""What runs found, compared with the numbers of a paper that has them from two runs of its authors: of runs, and of their records.

A record has a corpus: ``<corpus>.csv`` are the means over seeds, ``<corpus>.json`` says what they are of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.files import atomic, sha256
from attnaudit.corpora.registry import CORPORA as REGISTERED
from attnaudit.corpora.registry import corpus_sources
from attnaudit.papers import Cell, Declaration
from attnaudit.published.compare import SEEDS_SCHEMA, over_seeds
from attnaudit.published.reproduction import ATTENTIONS, NotRun, all_numbers
from attnaudit.recipes.reproduction.cells import RUNS, Finished, found_in, settings_notes
from attnaudit.recipes.reproduction.records import load, save
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord, read_record

if TYPE_CHECKING:
    from attnaudit.report.reproduction.page import Reproduction

COMMAND = (
    "attnaudit reproduce {paper} --corpus {corpus} --data-dir DATA {vectors}--out runs/{paper}"
)


def reproduction_of(runs: Sequence[Finished], paper: Declaration) -> Reproduction:
    """What the runs that are averaged (`found_in`) found, compared with the published numbers where the paper has some of their model."""
    from attnaudit.report.reproduction.page import Reproduction

    folders = [one.folder for one in runs]
    compared = [one.folder for one in runs if one.cell.attention in ATTENTIONS]
    return Reproduction(
        table=over_seeds(compared), runs=tuple(replace(read_record(folder), tables={}) for folder in folders),
        pages={folder.name: f"{RUNS}/{folder.name}/report.html" for folder in folders}, corpus_notes=_corpus_notes(runs, paper), not_run=(),
    )  # fmt: skip


def not_asked_for(
    paper: Declaration, known: Collection[str], data_dir: str | None
) -> tuple[NotRun, ...]:
    """The corpora of the paper that are not ``known``, each with the reason why it may be missing."""
    return tuple(
        NotRun(corpus, "", "", _why_not(corpus, data_dir))
        for corpus in paper.corpora
        if corpus not in known
    )


def _corpus_notes(runs: Sequence[Finished], paper: Declaration) -> dict[str, tuple[str, ...]]:
    """What is not as in the paper, or not as usual, by corpus."""
    notes = {}
    for corpus in dict.fromkeys(one.cell.corpus for one in runs):
        same = [one for one in runs if one.cell.corpus == corpus]
        made = [note for one in same for note in one.manifest["notes"]]
        notes[corpus] = tuple(
            dict.fromkeys([*settings_notes(same, paper), *REGISTERED[corpus].differs, *made])
        )
    return notes


def _why_not(corpus: str, data_dir: str | None) -> str:
    try:
        _, sources, _ = corpus_sources(REGISTERED[corpus], data_dir)
    except InputError as error:  # in tables that may be published, the folder is called as in the commands of records
        where = (
            f"DATA{error.where.removeprefix(data_dir)}"
            if data_dir and error.where.startswith(data_dir)
            else error.where
        )
        return str(InputError(error.operation, where, error.got, error.expected, error.do))
    notes = "; ".join(filter(None, dict.fromkeys(source.note for source in sources.values())))
    return f"{notes or 'its files are here'}; it was not asked for: --corpus {corpus}"


def record_corpora(paper: Declaration, out: Path, records: Path) -> None:
    """Record each corpus that a folder has runs of; models that it has not, or with fewer seeds, keep what is recorded of them."""
    _, averaged, _ = found_in(out, paper)
    for corpus, runs in groupby(averaged, key=lambda run: run.cell.corpus):
        _record_corpus(paper, corpus, list(runs), records)


def _record_corpus(
    paper: Declaration, corpus: str, runs: Sequence[Finished], records: Path
) -> None:
    place, numbers = records / f"{corpus}.json", records / f"{corpus}.csv"
    former = load(place) if place.exists() else {"summary": [], "notes": [], "commit": ""}
    before = Counter(map(_model, former["summary"]))
    here = Counter((run.cell.encoder, run.cell.attention) for run in runs)
    fresh = {model for model, seeds in here.items() if seeds >= before[model]}
    found = reproduction_of(
        [run for run in runs if (run.cell.encoder, run.cell.attention) in fresh], paper
    )
    kept = [run for run in former["summary"] if _model(run) not in fresh]
    parts = [all_numbers(found.table, found.runs)] if fresh else []
    if kept:
        is_fresh = pl.struct("encoder", "attention").is_in(
            [{"encoder": encoder, "attention": attention} for encoder, attention in fresh]
        )
        parts.append(_numbers(numbers, former).filter(~is_fresh if fresh else pl.lit(True)))
    numbers.parent.mkdir(parents=True, exist_ok=True)
    with atomic(numbers) as temporary:
        pl.concat(parts).write_csv(temporary)
    made = sorted(
        [*kept, *(_identity(run.name, run.about) for run in found.runs)],
        key=lambda run: (*_model(run), run["seed"]),
    )
    if former.get("numbers") == sha256(numbers) and former["summary"] == made:
        return  # what was recorded, with the commit that it was made by
    notes = [note for notes in found.corpus_notes.values() for note in notes]
    notes = list(dict.fromkeys([*notes, *(former["notes"] if kept else [])]))
    vectors = (
        ""
        if {run.spec["vectors"] for run in runs} <= {"corpus", "random"}
        else "--vectors VECTORS "
    )
    command = COMMAND.format(paper=paper.name, corpus=corpus, vectors=vectors)
    save(
        place, command, made, former["commit"] if kept else "", notes=notes, numbers=sha256(numbers)
    )


def _model(run: dict[str, Any]) -> tuple[str, str]:
    return run["model"]["encoder"], run["model"]["attention"]


def _identity(name: str, about: About) -> dict[str, Any]:
    """What the page says of a run besides its numbers, as the run's own specification and trace say it."""
    task = about.metadata.get("corpus", {}).get("task")
    return {
        "name": name, "seed": about.seed, "corpus": {"name": about.corpus, "title": about.title, "task": task},
        "model": {"encoder": about.encoder, "attention": about.attention}, "class_names": list(about.class_names),
    }  # fmt: skip


def recorded(paper: Declaration, records: Path) -> Reproduction:
    """What all records say together. Raises InputError for numbers that were changed since they were recorded."""
    from attnaudit.report.reproduction.page import Reproduction
    from attnaudit.report.reproduction.tables import reasons_of

    found = {
        corpus: load(place)
        for corpus in sorted(paper.corpora)
        if (place := records / f"{corpus}.json").exists()
    }
    parts = [_numbers(records / f"{corpus}.csv", record) for corpus, record in found.items()]
    runs = tuple(
        RunRecord(run["name"], pl.DataFrame(schema=SUMMARY_SCHEMA), About.of(run, run))
        for record in found.values()
        for run in record["summary"]
    )
    notes = {
        corpus: (
            f"command: {record['command']}; commit {record['commit'] or 'unknown'}", *reasons_of(paper, corpus, part), *record["notes"]
        )
        for (corpus, record), part in zip(found.items(), parts, strict=True)
    }  # fmt: skip
    numbers = pl.concat(parts) if parts else pl.DataFrame(schema=SEEDS_SCHEMA)
    yet = f"not run yet: attnaudit reproduce {paper.name} --corpus "
    not_run = (
        NotRun(corpus, "", "", paper.missing.get(corpus, yet + corpus))
        for corpus in paper.corpora
        if corpus not in found
    )
    return Reproduction(
        table=numbers, runs=runs, pages={}, corpus_notes=notes, not_run=tuple(not_run)
    )


def _numbers(place: Path, record: dict[str, Any]) -> pl.DataFrame:
    """The numbers that a record is of."""
    if not place.exists() or sha256(place) != record["numbers"]:
        got, do = (
            "missing, or changed since it was recorded",
            f"run the command of {place.stem}.json, which records it again",
        )
        raise InputError("reproduce", str(place), got, "the numbers of the record", do)
    return pl.read_csv(place, schema=SEEDS_SCHEMA, glob=False).with_columns(
        pl.col("agreement", "note").fill_null("")
    )


def not_run_of(failed: dict[Cell, str], known: Collection[str]) -> tuple[NotRun, ...]:
    """A line for each cell that could not be run, or for all of a corpus that has no runs."""
    parts = {
        cell: (cell.encoder, cell.attention) if cell.corpus in known else ("", "")
        for cell in failed
    }
    return tuple(
        dict.fromkeys(NotRun(cell.corpus, *parts[cell], reason) for cell, reason in failed.items())
    )
