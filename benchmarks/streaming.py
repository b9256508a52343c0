"""An audit's memory and time against the number of instances: made-up traces of 10,000 to 1,000,000 instances of about 20 tokens.

    python benchmarks/streaming.py [--largest 1000000]

Every audit is a process of its own, with all experiments and the report; its peak memory is what the system says at its end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.trace import Trace, write_shards

SHARD, WORDS, MEAN = 50_000, 5_000, 20


def shards(count: int) -> Iterator[Trace]:
    """A trace of ``count`` instances, `SHARD` at a time: random lengths around `MEAN`, words, attention and readouts."""
    for start in range(0, count, SHARD):
        random = np.random.default_rng([0, start])
        yield made_up(random, np.arange(start, min(start + SHARD, count)))


def made_up(random: np.random.Generator, instance: np.ndarray) -> Trace:
    lengths = random.integers(1, 2 * MEAN, len(instance))
    rows = Ragged.from_lengths(np.exp(2.0 * random.standard_normal(lengths.sum())), lengths)
    alpha = rows.with_values(rows.values / rows.spread(rows.sum()))
    readout = 2.0 * random.standard_normal(len(rows.values))
    offset = 0.1 * random.standard_normal(len(rows))
    logit = alpha.with_values(alpha.values * readout).sum() + offset
    words = np.array([f"word{k}" for k in range(WORDS)])[
        random.integers(0, WORDS, len(rows.values))
    ].tolist()
    return Trace.from_arrays(
        activation="sigmoid", class_names=["negative", "positive"], instance=instance, label=random.integers(0, 2, len(rows)),
        tokens=[words[start:stop] for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)],
        alpha=alpha.with_values(alpha.values.astype(np.float32)), readout=rows.with_values(readout[:, None].astype(np.float32)),
        offset=offset[:, None].astype(np.float32), prediction=(1.0 / (1.0 + np.exp(-logit)))[:, None].astype(np.float32),
        gradient=rows.with_values(random.random(len(rows.values), np.float32)),
        loo=rows.with_values(random.random(len(rows.values), np.float32)),
    )  # fmt: skip


def audited(trace: Path, out: Path) -> tuple[float, float]:
    """Seconds and peak GiB of an audit."""
    command = [
        str(Path(sys.executable).with_name("attnaudit")),
        "audit",
        str(trace),
        "--out",
        str(out),
    ]
    begun = time.perf_counter()
    process = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return time.perf_counter() - begun, usage.ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=1_000_000)
    options = parser.parse_args()
    print(
        "| instances | trace on disk (MiB) | audit and report (s) | µs an instance | peak memory (GiB) | report (MiB) |"
    )
    print("| --- " * 6 + "|")
    for count in (options.largest // 100, options.largest // 10, options.largest):
        with tempfile.TemporaryDirectory() as place:
            trace, out = Path(place) / "trace", Path(place) / "audit"
            size = sum(path.stat().st_size for path in write_shards(trace, shards(count))) / 2**20
            seconds, memory = audited(trace, out)
            page = (out / "report.html").stat().st_size / 2**20
        print(
            f"| {count:,} | {size:.0f} | {seconds:.1f} | {1e6 * seconds / count:.0f} | {memory:.2f} | {page:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
