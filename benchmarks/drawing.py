"""Memory and time of drawing 500 texts from a file of many: made-up texts of about 20 words, as jsonl and as parquet.

    python benchmarks/drawing.py [--largest 5000000] [--kinds jsonl parquet]

Every reading is a process of its own; its peak memory is what it says at its end. *nothing* is the interpreter with the library.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PART, WORDS = 100_000, 5_000
PEAK = "DRAWING_PEAK"  # the file that a process writes its peak to: what wait4 says begins with that of the process that started it


def parts(rows: int) -> Iterator[pa.Table]:
    """``rows`` texts with labels, `PART` at a time."""
    words = np.array([f"word{k}" for k in range(WORDS)])
    for start in range(0, rows, PART):
        random = np.random.default_rng([1, start])
        count = min(PART, rows - start)
        lengths = random.integers(1, 40, count)
        picked, ends = (
            words[random.integers(0, WORDS, lengths.sum())].tolist(),
            [0, *np.cumsum(lengths).tolist()],
        )
        texts = [" ".join(picked[first:last]) for first, last in pairwise(ends)]
        yield pa.table({"text": texts, "label": random.integers(0, 2, count).astype(str)})


def write(path: Path, rows: int) -> None:
    if path.suffix == ".parquet":
        with pq.ParquetWriter(
            path, pa.schema({"text": pa.string(), "label": pa.string()})
        ) as writer:
            for part in parts(rows):
                writer.write_table(part)
        return
    with path.open("w") as file:
        for part in parts(rows):
            columns = zip(part["text"].to_pylist(), part["label"].to_pylist(), strict=True)
            file.writelines(
                f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in columns
            )


def peak() -> int:
    """Largest resident size of this process, in bytes."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return 1024 * int(line.split()[1])


def drawn(path: str | None) -> None:
    """Draw from ``path`` and end."""
    from attnaudit.corpora.own import Draw, draw_own
    from attnaudit.corpora.spec import CorpusSpec

    if path is not None:
        _, _, read = draw_own(CorpusSpec(path), Draw(500, 0), labelled=True)
        assert sum(read.labels.values()) == read.texts
    Path(os.environ[PEAK]).write_text(str(peak()))


def measured(path: Path | None) -> tuple[float, float]:
    """CPU seconds and peak GiB of a process that draws."""
    with tempfile.NamedTemporaryFile() as said:
        environment = {**os.environ, PEAK: said.name}
        process = os.posix_spawn(
            sys.executable, [sys.executable, __file__, "--draw", str(path or "")], environment
        )
        _, status, usage = os.wait4(process, 0)
        memory = float(Path(said.name).read_text() or "nan")
    if status:
        raise SystemExit(f"drawing from {path} ended with status {status}")
    return usage.ru_utime + usage.ru_stime, memory / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=5_000_000)
    parser.add_argument("--kinds", nargs="+", default=("jsonl", "parquet"))
    parser.add_argument("--draw", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw is not None:
        drawn(options.draw or None)
        return
    print("| file | rows | MiB | CPU seconds | µs a row | peak memory (GiB) |")
    print("| --- " * 6 + "|")
    print("| nothing | 0 | 0 | {:.1f} | – | {:.2f} |".format(*measured(None)))
    for kind in options.kinds:
        for rows in (options.largest // 50, options.largest // 5, options.largest):
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / f"texts.{kind}"
                write(path, rows)
                seconds, memory = measured(path)
                size = path.stat().st_size / 2**20
            print(
                f"| {kind} | {rows:,} | {size:.0f} | {seconds:.1f} | {1e6 * seconds / rows:.1f} | {memory:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
