"""The command `reproduce`: a paper, or the index of all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress, show_plan_and_end
from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable

PAPER_NAMES = "jain2019, serrano2019, wiegreffe2019, pruthi2020 or snell2021"


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(metavar="[PAPER]", show_default=False, help=f"{PAPER_NAMES}; without it, the index of all papers.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A representative subset: under 20 minutes on 2 cores. Says what it leaves out.")
    ] = False,
    corpora: o.CellCorpora = None,
    encoders: o.CellEncoders = None,
    attentions: o.CellAttentions = None,
    studies: o.CellStudies = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Seeds 0 to N − 1 for runs; default: as declared for the paper; not with --quick.")
    ] = None,
    vectors: o.Vectors = None,
    data_dir: o.DataDir = None,
    settings: o.Settings = None,
    out: o.Out = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Run nothing: write the tables of all records into FILE.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(
            "--records", metavar="DIR",
            help="Records are in DIR/PAPER; default: the folder records next to FILE or above it, else in the folder of --out.",
        )
    ] = None,
    engine: o.Engine = None,
    address: o.Address = None,
    unshared: o.Unshared = False,
    dry_run: o.DryRun = False,
    as_json: o.Json = False,
) -> None:  # fmt: skip
    """Rerun a paper's experiments on your data, and compare every published number with ours on one page.

    A paper is a list of cells: runs and studies, each with its corpus, model and seeds. They are made in DIR (runs/PAPER by default);
    each leaves a small record, and the page is written from all records. The same command resumes one that was stopped, and calls with
    different --corpus add to one page. A corpus whose files are missing is skipped and reported; the exit status is then 2 where
    --corpus named it, or nothing could be done. The index of all papers is DIR/reproduction.html (DIR is runs by default).

    \b
    Examples:
      attnaudit reproduce jain2019 --quick --data-dir data --dry-run
      attnaudit reproduce jain2019 --corpus sst --corpus babi1 --vectors glove.6B.300d.txt --data-dir data
      attnaudit reproduce serrano2019 --quick --data-dir data
      attnaudit reproduce snell2021 --study copying
      attnaudit reproduce jain2019 --data-dir data --engine ray --address 10.0.0.1:6379
      attnaudit reproduce serrano2019 --markdown docs/experiments/erasure.md
      attnaudit reproduce
    """
    from attnaudit.cli.show import show_reproduction
    from attnaudit.papers import declaration
    from attnaudit.runner import Sweep, plan_reproduction, write_markdown
    from attnaudit.runner import reproduce as run_sweep
    from attnaudit.runner.records import beside

    _check_tables(markdown, records, "--quick" * quick or "--dry-run" * dry_run)
    root = records or (markdown and beside(markdown))
    if paper is None:
        if quick or dry_run or corpora or encoders or attentions or studies or seeds:
            raise InputError(
                "reproduce", "PAPER", "none, with options that choose cells", PAPER_NAMES
            )
        _index(markdown, root, out or Path("runs"), as_json)
        return
    declared = declaration(paper)
    cells = declared.plan(
        quick=quick,
        corpora=corpora or (),
        encoders=encoders or (),
        attentions=attentions or (),
        studies=studies or (),
        seeds=seeds,
    )
    sweep = Sweep(
        out or Path("runs") / paper,
        cells,
        data_dir,
        vectors,
        o.assigned(settings),
        declared,
        root / paper if root is not None else None,
    )
    if markdown is not None:
        write_markdown(sweep, markdown)
        typer.echo(printable(f"tables: {markdown}"))
        return
    if quick:
        typer.echo(printable(declared.left_out(corpora or ())), err=True)
    if dry_run:
        show_plan_and_end(as_json, plan_reproduction, sweep)
    on = o.engine(engine, address, unshared)
    with progress() as bar:
        outcome = run_sweep(sweep, bar, lambda line: typer.echo(printable(line), err=True), **on)
    show_reproduction(outcome, as_json)
    missing = ", ".join(sorted({one.corpus for one in outcome.not_run} & set(corpora or ())))
    if missing or not outcome.done:
        got = (
            f"not all requested cells of {missing}"
            if outcome.done
            else f"none of the {len(cells)} requested cells"
        )
        do = "see the reasons on the page"
        raise InputError(
            "reproduce",
            str(sweep.out),
            f"{got} could be done",
            "readable data and word vectors",
            do,
        )


def _check_tables(markdown: Path | None, records: Path | None, option: str) -> None:
    """Raise InputError for tables with an option of runs, which they are not of, and for records that are not there."""
    if markdown is not None and option:
        raise InputError(
            "reproduce",
            f"--markdown {markdown}",
            f"with {option}",
            "tables of what is recorded",
            f"leave out {option}",
        )
    if records is not None and not records.is_dir():
        raise InputError(
            "reproduce", f"--records {records}", "no such folder", "a folder of records"
        )


def _index(markdown: Path | None, records: Path | None, out: Path, as_json: bool) -> None:
    """Show the index of all papers, or write it into a file."""
    from attnaudit.cli.show import show_index
    from attnaudit.runner.index import index, index_into

    if markdown is None:
        show_index(index(out, records), out / "reproduction.html", as_json)
    elif records is None:
        raise InputError(
            "reproduce",
            f"--markdown {markdown}",
            "no folder records next to it or above",
            "records",
            "--records DIR",
        )
    else:
        index_into(markdown, records)
