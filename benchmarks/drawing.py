"""Memory and time of drawing 500 texts from a file of many, as jsonl and as parquet.

    python -m benchmarks.drawing [--largest 5000000] [--kinds jsonl parquet]

The texts are made up and have about 20 words. Every reading is a process of its own; *nothing* is
the interpreter with the library. Print a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cost import cost_of
from benchmarks.output import print_header, print_row

PART, WORDS = 100_000, 5_000


def parts(rows: int) -> Iterator[pa.Table]:
    """Generate texts with labels, `PART` at a time."""
    words = np.array([f"word{k}" for k in range(WORDS)])
    for start in range(0, rows, PART):
        random = np.random.default_rng([1, start])
        lengths = random.integers(1, 40, min(PART, rows - start))
        picked = words[random.integers(0, WORDS, lengths.sum())].tolist()
        ends = [0, *np.cumsum(lengths).tolist()]
        texts = [" ".join(picked[first:last]) for first, last in pairwise(ends)]
        labels = random.integers(0, 2, len(texts)).astype(str)
        yield pa.table({"text": texts, "label": labels})


def write(path: Path, rows: int) -> None:
    """Write a file in parts, each a row group of Parquet."""
    if path.suffix == ".parquet":
        with pq.ParquetWriter(path, next(parts(1)).schema) as writer:
            for part in parts(rows):
                writer.write_table(part)
        return
    with path.open("wb") as file:
        for part in parts(rows):
            pl.DataFrame(part).write_ndjson(file)


def draw(path: str) -> None:
    """Draw from a file; the empty path only imports the library."""
    from attnaudit.corpora.own import Draw, draw_own
    from attnaudit.corpora.spec import CorpusSpec

    if path:
        _, _, read = draw_own(CorpusSpec(path), Draw(500, 0), labelled=True)
        assert sum(read.labels.values()) == read.texts


def main() -> None:
    """Measure files of three sizes of each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=5_000_000)
    parser.add_argument("--kinds", nargs="+", default=("jsonl", "parquet"))
    options = parser.parse_args()
    print_header(("file", "rows", "MiB", "CPU seconds", "µs a row", "peak memory (GiB)"))

    def measure(kind: str, rows: int, path: Path) -> None:
        cost = cost_of(["-m", "benchmarks.drawing", "--draw", str(path) if rows else ""])
        size = path.stat().st_size / 2**20 if rows else 0.0
        each = f"{1e6 * cost.cpu / rows:.1f}" if rows else "–"
        print_row([kind, f"{rows:,}", f"{size:.0f}", f"{cost.cpu:.1f}", each, f"{cost.memory:.2f}"])

    with tempfile.TemporaryDirectory() as folder:
        measure("nothing", 0, Path(folder))
        for kind in options.kinds:
            for rows in (options.largest // 50, options.largest // 5, options.largest):
                path = Path(folder, f"texts.{kind}")
                write(path, rows)
                measure(kind, rows, path)


if __name__ == "__main__":
    draw(sys.argv[2]) if sys.argv[1:2] == ["--draw"] else main()
