"""What is made of the rows of a trace piece by piece, kept until all are done, and joined in their order: collecting, and audits."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import atomic, content_key, read_with_digest, write_with_digest
from attnaudit.core.progress import Progress
from attnaudit.experiments import Experiment, make_experiment
from attnaudit.experiments.replay import network_of
from attnaudit.results.table import table_file, tables_in
from attnaudit.runner.engine import Call, Engine, Here
from attnaudit.runner.store import PIECES, UNFINISHED, digests, versions
from attnaudit.trace import Trace, tail_file, trace_files

DIGESTS = "digests.json"  # of the files of a piece


def pieces_folder(out: Path, key: str) -> Path:
    """Where the pieces of a step of a run are kept until it is done, by the content ``key`` of the step and the version of this package."""
    return out / UNFINISHED / PIECES / content_key(key, versions()["attnaudit"])[:16]


def collected(engine: Engine, calls: Iterable[Call], trace: Path, progress: Progress) -> int:
    """Do ``calls``, each of which writes a folder of shards, and move these into the folder ``trace``; returns their number."""
    listed = list(calls)
    do_missing(engine, listed, progress)
    trace.mkdir(parents=True)
    shards = [shard for call in listed for shard in sorted(call.writes.glob("part-*.parquet"))]
    tail = next((file for call in listed if (file := tail_file(call.writes)) is not None), None)
    if tail is not None:
        shutil.copyfile(tail, trace / tail.name)
    for number, shard in enumerate(shards):
        shutil.copyfile(shard, trace / f"part-{number:05d}.parquet")
    return len(shards)


@dataclass(frozen=True)
class AuditOfPieces:
    """The tables of experiments on a ``trace``, as `attnaudit.experiments.audit` takes them: a call of the ``engine`` for each file.

    Tables of files that are done lie in ``folder``, so that an audit that was stopped resumes. ``replay`` is the folder of the model of a
    trace without a tail of its own.
    """

    engine: Engine
    trace: Path
    folder: Path
    replay: Path | None = None

    def __call__(
        self,
        experiments: Mapping[str, Experiment],
        shards: Iterable[Trace],
        rows: int,
        progress: Progress,
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """The table of every experiment on every file, in their order and in parts; of ``shards`` the first alone is read here."""
        first = next(iter(shards))
        calls = [self._call(file, experiments, first) for file in trace_files(self.trace)]
        do_missing(self.engine, calls, progress)
        for call in calls:
            for name in experiments:
                yield from ((name, rows) for rows in tables_in(_rows(call.writes, name)))

    def _call(self, file: Path, experiments: Mapping[str, Any], first: Trace) -> Call:
        tail = tail_file(file.parent)
        reads = (file, *([tail] if tail else []), *([self.replay] if self.replay else []))
        settings = {name: asdict(experiment) for name, experiment in experiments.items()}
        arguments = {
            "file": file,
            "settings": settings,
            "fixed": first.fixed,
            "folder": self.folder / file.stem,
            "replay": self.replay,
        }
        return Call(
            f"audit {file.name}",
            audit_file,
            self.folder / file.stem,
            arguments,
            reads,
            last=DIGESTS,
        )


def audit_file(
    here: Here, held: None, progress: Progress, *, file: Path, settings: Mapping[str, Mapping[str, Any]], fixed: Mapping[str, Any],
    folder: Path, replay: Path | None,
) -> None:  # fmt: skip
    """Write the table of every experiment on one file of a trace into ``folder``, as the file is read: piece by piece."""
    place, source = here.path(folder), here.path(file)
    model = None if replay is None else _network(source, here.path(replay))
    with whole(place) as made, ExitStack() as files:
        add = {name: files.enter_context(table_file(_rows(made, name))) for name in settings}
        for shard in Trace.shards(source, model, fixed):
            for name, values in settings.items():
                progress(name, 0, 0)
                add[name](make_experiment(name, values)(shard))


def _rows(folder: Path, name: str) -> Path:
    return folder / f"{name}.parquet"


@dataclass(frozen=True)
class KeptTables:
    """The tables of an audit in this process that are done, one folder each in ``folder``, so that an audit that was stopped resumes."""

    folder: Path

    def __call__(self, name: str, number: int, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The table of an experiment on the shard of a ``number``: the one that is kept, else what ``make`` gives."""
        place = self.folder / f"{number:05d}-{name}"
        if is_whole(place):
            return _table(place, name)
        table = make()
        with whole(place) as made:
            _write_table(made, name, table)
        return table


def _write_table(folder: Path, name: str, table: pl.DataFrame) -> None:
    with atomic(folder / f"{name}.arrow") as temporary:
        table.write_ipc(temporary)


def _table(folder: Path, name: str) -> pl.DataFrame:
    with (folder / f"{name}.arrow").open(
        "rb"
    ) as file:  # of a path polars would read [1] as a pattern
        return pl.read_ipc(file)


def do_missing(engine: Engine, calls: Sequence[Call], progress: Progress) -> None:
    """Do those of ``calls`` whose folders are not there whole; a damaged one is made again. Raises InputError."""
    missing = [call for call in calls if not is_whole(call.writes)]
    for done in engine.do(missing, progress, len(missing)):
        done.result()


@contextmanager
def whole(place: Path) -> Iterator[Path]:
    """A folder next to ``place`` that takes its name, with digests, once the block ends without an error. Two processes may make one."""
    made = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    made.mkdir(parents=True)
    try:
        yield made
        write_with_digest(made / DIGESTS, _digests(made))
        if not is_whole(place):  # a damaged one gives way
            shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # one that is there was made of the same
            made.rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def is_whole(place: Path) -> bool:
    """Whether a folder holds what `whole` left there, undamaged."""
    with suppress(RunError):
        return (place / DIGESTS).exists() and read_with_digest(place / DIGESTS) == _digests(place)
    return False


def _digests(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder, (".",)).items() if name != DIGESTS}


@lru_cache(1)
def _network(trace: Path, replay: Path) -> Any:
    """The checked model of a trace, for all of its files that this process audits."""
    return network_of(trace, replay)


def replay_folder(replay: Any) -> Path | None:
    """The folder of a model that workers replay. Raises InputError for a model in memory."""
    if replay is None or isinstance(replay, str | Path):
        return None if replay is None else Path(replay)
    raise InputError(
        "audit",
        "replay",
        "a model in memory",
        "the folder of a model, which workers read",
        "save it first",
    )
