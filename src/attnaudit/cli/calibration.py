"""The command that scores every measure on models of known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress
from attnaudit.core.printable import printable


def _names() -> list[str]:
    from attnaudit.calibration import CONSTRUCTIONS

    return list(CONSTRUCTIONS)


Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="One encoder of each construction, two seeds, planted-prior and sst: 15 minutes on 2 cores.",
    ),
]
Corpora = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        metavar="NAME",
        help="Only this corpus of texts; repeatable. Default: planted-prior, sst and movies_rationales.",
    ),
]
Constructions = Annotated[
    list[str] | None,
    typer.Option(
        "--construction",
        metavar="NAME",
        help="Only this construction; repeatable. Default: all.",
        autocompletion=_names,
    ),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, help="Seeds 0 to N − 1; default: 5, with --quick 2.")
]
Encoders = Annotated[
    int | None,
    typer.Option(
        "--encoders",
        min=1,
        help="At most N encoders of each construction; default: all, with --quick 1.",
    ),
]


def calibrate(
    quick: Quick = False, corpora: Corpora = None, constructions: Constructions = None, seeds: Seeds = None, encoders: Encoders = None,
    data_dir: o.DataDir = None, out: o.Out = None, dry_run: o.DryRun = False, as_json: o.Json = False,
) -> None:  # fmt: skip
    """Score every measure on models whose attention is faithful, or not, by construction.

    Each model is trained on short texts with planted words, checked by replacing words, and audited. DIR (runs/calibration by default)
    holds DIR/trainings, DIR/audits and DIR/calibration: the page, the tables and degree.json. The same command resumes a sweep that was
    stopped.
    docs/calibration.md says why the truth of each construction is known.

    \b
    Examples:
      attnaudit calibrate --quick --data-dir data --dry-run
      attnaudit calibrate --quick --data-dir data
      attnaudit calibrate --corpus planted-prior --construction guided_mixing --construction leak_last --seeds 1
    """
    from attnaudit.cli.plan import show_plan
    from attnaudit.runner.calibration import Calibration, plan_calibration
    from attnaudit.runner.calibration import calibrate as run_calibration

    usual = {"corpora": ("planted-prior", "sst"), "seeds": 2, "encoders": 1} if quick else {}
    given = o.given(
        corpora=corpora and tuple(corpora),
        constructions=constructions and tuple(constructions),
        seeds=seeds,
        encoders=encoders,
    )
    calibration = Calibration(
        out or Path("runs/calibration"), data_dir=data_dir, **{**usual, **given}
    )
    if dry_run:
        with progress() as bar:
            plan = plan_calibration(calibration, bar)
        show_plan(plan, as_json)
        raise typer.Exit
    with progress() as bar:
        folder = run_calibration(
            calibration, bar, lambda line: typer.echo(printable(line), err=True)
        )
    _show(folder, as_json)


def _show(folder: Path, as_json: bool) -> None:
    """The scores of all measures, the best first, and what the degree reaches."""
    import polars as pl

    from attnaudit.cli.show import print_rows, show_json
    from attnaudit.core.files import read_json
    from attnaudit.report.words import figure, interval
    from attnaudit.results import read_table

    scores, degree = (
        read_table(folder / "scores.parquet").collect(),
        read_json(folder / "degree.json"),
    )
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
    print_rows("", ("measure", "better", "AUC", "over constructions"), rows, whole=("measure",))
    held = (degree or {}).get("held")
    if held:
        typer.echo(
            f"degree on the constructions held out: AUC {figure(held['auc'])} {interval(held)}".rstrip()
        )
    typer.echo(printable(f"page: {folder / 'report.html'}"))
