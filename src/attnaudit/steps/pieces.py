"""Folders that are whole or not there: what calls leave until a step joins it."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core import Progress, RunError, read_with_digest, write_with_digest
from attnaudit.steps.folder import digests
from attnaudit.steps.pool import Call, Pool
from attnaudit.trace import tail_file

DIGESTS = "digests.json"  # of the files of a piece


@contextmanager
def whole(place: Path) -> Iterator[Path]:
    """Yield a folder that takes the name ``place``, with digests, if the block ends well.

    Two processes may make the same piece.
    """
    made = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    made.mkdir(parents=True)
    try:
        yield made
        write_with_digest(made / DIGESTS, _digests(made))
        if not is_whole(place):
            shutil.rmtree(place, ignore_errors=True)  # a damaged one gives way
        with suppress(OSError):  # the one that is there was made of the same
            made.rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def is_whole(place: Path) -> bool:
    """Return True if a folder holds what `whole` left there, undamaged."""
    with suppress(RunError):
        return (place / DIGESTS).exists() and read_with_digest(place / DIGESTS) == _digests(place)
    return False


def piece(
    name: str, work: Callable[..., Any], place: Path, held: Any = None, device: str = "cpu"
) -> Call:
    """Return a call that leaves a folder which is whole or not there (`whole`).

    Args:
        name: Label in progress lines.
        work: Function ``work(held, folder, progress, device)`` of a module, or a `partial` of one.
        place: The folder.
        held: Object that many calls read.
        device: Device that the settings of its model ask for.
    """
    return Call(name, partial(_in_whole, work), place, held, device=device, last=DIGESTS)


def _in_whole(
    work: Callable[..., Any], held: Any, place: Path, progress: Progress, device: str | None
) -> None:
    with whole(place) as made:
        work(held, made, progress, device)


def do_missing(pool: Pool, calls: Sequence[Call], progress: Progress) -> None:
    """Do the calls whose folders are not there whole. Raises InputError."""
    missing = [call for call in calls if not is_whole(call.writes)]
    for done in pool.do(missing, progress, len(missing)):
        done.result()


def collected(pool: Pool, calls: Sequence[Call], trace: Path, progress: Progress) -> int:
    """Do calls that write folders of shards, and join these in one; return their number."""
    do_missing(pool, calls, progress)
    trace.mkdir(parents=True)
    shards = [shard for call in calls for shard in sorted(call.writes.glob("part-*.parquet"))]
    tail = next((file for call in calls if (file := tail_file(call.writes)) is not None), None)
    if tail is not None:
        shutil.copyfile(tail, trace / tail.name)
    for number, shard in enumerate(shards):
        shutil.copyfile(shard, trace / f"part-{number:05d}.parquet")
    return len(shards)


def _digests(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder, (".",)).items() if name != DIGESTS}
