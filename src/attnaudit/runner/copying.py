"""The copying study done: all seeds trained side by side, their curves summed up, the page.

``OUT/results`` holds ``copying.parquet`` (a row per seed and measured step), ``seeds.parquet`` (a row per seed, on test sequences) and
``attention.parquet`` (that of each seed on one of them). An interrupted study resumes from its last checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from attnaudit.copying.study import NAME, PRESETS, Copying, summarise
from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import content_key, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import override
from attnaudit.core.threads import cores
from attnaudit.corpora.planted.sequences import SYMBOLS
from attnaudit.plans.spec import SCHEMA
from attnaudit.results.table import read_table, table_file
from attnaudit.runner.audits import RESULTS
from attnaudit.runner.store import UNFINISHED, Record, Store, alone, check_place
from attnaudit.runner.tasks.task import refuse_options

if TYPE_CHECKING:
    from attnaudit.copying.training import CopyingConfig

BY_OPTION = {"copying.kind": "CORPUS", "copying.seed": "--seed"}
TIMED = (1, 4)  # optimizer steps
QUICK = {"copying.seeds": 4}  # which two cores finish in minutes
CURVES, FINAL, ATTENTION = "copying", "seeds", "attention"
_NUMBER = {"seed": pl.Int64, "stage": pl.Int64, "step": pl.Int64}
_MEASURES = {
    "loss": pl.Float64, "token": pl.Float64, "attention": pl.Float64, "relevance": pl.Float64,
    "relevance_least": pl.Float64, "attention_symbol": pl.Float64, "relevance_symbol": pl.Float64, "entropy": pl.Float64,
    "agreement": pl.Float64, "attended": pl.Float64, "heads": pl.List(pl.Float64),
}  # fmt: skip


def copying_study(
    kind: str, seed: int = 0, settings: Mapping[str, Any] | None = None, *, full: bool = False, **options: Any
) -> Copying:  # fmt: skip
    """The study of one kind of sequences, with dotted settings such as ``copying.seeds``; with ``full`` the others are as published.

    Raises InputError, for ``options`` too.
    """
    refuse_options(
        "study", NAME, options, (), "the task and its model are set by --set copying.NAME=…"
    )
    if kind not in SYMBOLS:
        raise InputError(
            "study",
            "copying of",
            repr(kind),
            f"one of {', '.join(SYMBOLS)}",
            did_you_mean(kind, SYMBOLS),
        )
    given = ({} if full else QUICK) | dict(settings or {})
    for fixed, option in BY_OPTION.items():
        if fixed in given:
            raise InputError(
                "read settings", f"setting {fixed}", str(given[fixed]), f"to be given as {option}"
            )
    if "training.epochs" in given:  # as --epochs
        do = "give --set copying.steps=N"
        raise InputError(
            "read settings",
            "setting training.epochs",
            str(given["training.epochs"]),
            "no epochs: copying counts steps",
            do,
        )
    return override({NAME: Copying(kind, seed=seed)}, given)[NAME].checked()


def seconds_a_step(study: Copying) -> float:
    """Seconds that one optimizer step of all seeds takes here: the difference of two trainings of a few steps, so that none is measured."""
    from attnaudit.copying.training import Stage, train

    threads = min(cores(), study.seeds)
    config = replace(
        config_of(study), seeds=tuple(range(threads)), every=TIMED[-1], probe=1, test=1
    )

    def timed(steps: int) -> float:
        started = time.perf_counter()
        train(replace(config, stages=(Stage(study.sequences, steps),)), threads)
        return time.perf_counter() - started

    timed(1)  # torch's first calls take longer
    few, more = map(timed, TIMED)
    return max(more - few, 0.0) / (TIMED[1] - TIMED[0]) * math.ceil(study.seeds / threads)


def steps_done(out: Path) -> int:
    """Optimizer steps that the checkpoint of an unfinished study holds, those of the stages before it included."""
    from attnaudit.copying.training import CHECKPOINT
    from attnaudit.training.checkpoint import load_checkpoint

    found = load_checkpoint(out / UNFINISHED / CHECKPOINT)
    if found is None:
        return 0
    _, state = found
    return (
        sum(stage["steps"] for stage in state["course"]["stages"][: state["stage"]])
        + state["steps"]
    )


def specified(study: Copying) -> dict[str, Any]:
    """What `spec.json` says of a study."""
    return {
        "schema": SCHEMA,
        "kind": "study",
        "study": {"name": NAME, **json.loads(json.dumps(asdict(study)))},
    }


def copying_folder(study: Copying) -> Path:
    """The folder of a study that is given none."""
    return Path("runs/studies") / f"{NAME}-{study.kind}"


def run_copying(
    study: Copying, out: str | Path, progress: Progress | None = None, threads: int | None = None
) -> Path:
    """Do what is missing in ``out`` on ``threads`` (None: every core); returns it. Raises InputError, RunError for another study."""
    from attnaudit.report.copying_page import write_copying

    require("train", "study")
    out, progress = Path(out), progress or silent
    plain = specified(study)
    check_place(out, plain)
    with alone(out) as store:
        write_with_digest(out / "spec.json", plain)
        trained = _train_step(store, study, progress, threads or cores())

        def analyse(folder: Path) -> None:
            curves, final = (
                read_table(out / RESULTS[0] / f"{name}.parquet").collect()
                for name in (CURVES, FINAL)
            )
            write_json(folder / RESULTS[1], summarise(curves, final).to_dicts())

        def write_page(folder: Path) -> None:
            progress("write the report", 0, 0)
            write_copying(out, folder / "report.html")

        analysed = store.step(
            "analyse", content_key("analyse", trained.files), RESULTS[1:], analyse
        )
        store.step(
            "report",
            content_key("report", analysed.files, trained.files, plain),
            ("report.html",),
            write_page,
        )
        store.close({"kind": "study"})
    return out


def config_of(study: Copying) -> CopyingConfig:
    """The training that a study asks for."""
    from attnaudit.copying.model import Sizes
    from attnaudit.copying.training import CopyingConfig, Stage

    before = [Stage(study.before, study.pretraining, uniform=True)] if study.before else []
    return CopyingConfig(
        stages=(*before, Stage(study.sequences, study.steps)),
        sizes=Sizes(
            study.sequences.vocabulary, study.hidden, study.embedding, study.heads, study.embedding_scale, study.encoder,
            PRESETS[study.preset].output,
        ),
        seeds=tuple(range(study.seed, study.seed + study.seeds)), batch=study.batch, learning_rate=study.learning_rate,
        every=study.every, probe=study.probe, test=study.test,
    )  # fmt: skip


def _train_step(store: Store, study: Copying, progress: Progress, threads: int) -> Record:
    def work(folder: Path) -> None:
        from attnaudit.copying.training import train
        from attnaudit.models.product import products_of

        with products_of(study.precision):
            trained = train(config_of(study), min(threads, study.seeds), store.scratch, progress)
        places = [
            {"seed": row["seed"], "target": t}
            for row in trained.final
            for t in range(trained.alpha.shape[1])
        ]
        alpha = pl.DataFrame(places).with_columns(
            pl.Series("alpha", trained.alpha.reshape(len(places), -1))
        )
        for name, table in (
            (CURVES, pl.DataFrame(trained.curves, schema={**_NUMBER, **_MEASURES})),
            (FINAL, pl.DataFrame(trained.final, schema={"seed": pl.Int64, **_MEASURES})),
            (ATTENTION, alpha),
        ):
            with table_file(folder / RESULTS[0] / f"{name}.parquet") as add:
                add(table)

    return store.step(
        "train", content_key("train", asdict(study), list(_MEASURES)), RESULTS[:1], work
    )
