"""The copying task in full: does what is not yet there of each kind of sequences and prints what came out as one table.

    python docs/copying_tables.py [--out runs/copying] [--seeds 20] [--steps 200] [--done]

Each is an ordinary ``attnaudit study copying`` in the folder ``OUT/<kind>``; with ``--done`` only those that are finished are told.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnaudit.corpora.copying import SYMBOLS
from attnaudit.files import read_json
from attnaudit.report.numbers import figure, interval, percent
from attnaudit.runner import copying_study, run_copying

COLUMNS = (
    "sequences",
    "seeds",
    "succeeded",
    "between",
    "failed",
    "token",
    "attention",
    "relevance",
    "agreement",
    "attended",
    "relevance earlier by",
    "training (s)",
)
_MEDIANS = ("token_accuracy", "attention_accuracy", "relevance_accuracy", "agreement", "attended")


def line(kind: str, folder: Path) -> str:
    """One row: counts with the interval of successes, medians over seeds, steps by which relevance was earlier."""
    found = {row["measure"]: row for row in read_json(folder / "summary.json") if row["group"] == "all"}
    won, n = found["succeeded"], found["succeeded"]["n"]
    share = f"{round(won['value'] * n)} ({percent(won['low'])} to {percent(won['high'])})"
    others = [str(round(found[name]["value"] * n)) for name in ("between", "failed")]
    medians = [f"{figure(found[name]['value'])} {interval(found[name])}" for name in _MEDIANS]
    seconds = read_json(folder / "manifest.json")["timings"]["train"]
    return f"| {' | '.join([kind, str(n), share, *others, *medians, _lead(found['lead']), f'{seconds:.0f}'])} |"


def _lead(row: Mapping[str, Any]) -> str:
    """Of the seeds in which both came to be right more often than not."""
    return f"{figure(row['value'], 0)} {interval(row, 0)} ({row['n']} seeds)" if row["n"] else "– (0 seeds)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/copying"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--done", action="store_true")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for kind in SYMBOLS:
        folder = options.out / kind
        if not options.done:
            run_copying(copying_study(kind, 0, {"copying.seeds": options.seeds, "copying.steps": options.steps}), folder)
        if (folder / "manifest.json").exists():
            print(line(kind, folder), flush=True)


if __name__ == "__main__":
    main()
