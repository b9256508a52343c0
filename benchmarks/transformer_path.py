"""A small transformer from nothing to the report: trained on SST, its attention recorded and audited, the page written.

    python benchmarks/transformer_path.py --data-dir DIR [--threads N]

The two commands that a user gives, each a process of its own; CPU seconds and peak memory are those of the process and its children.
Prints a markdown table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from attnaudit.core.files import read_json

CORPUS, MOST = "sst", 360.0  # seconds of both commands


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of a command, and its largest resident size in bytes."""

    wall: float
    cpu: float
    memory: float


def run(arguments: list[str], threads: int | None) -> Cost:
    """What a command of attnaudit costs."""
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "attnaudit", *arguments], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"attnaudit {' '.join(arguments)} failed")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument(
        "--threads", type=int, help="of an operation of torch; default: as many as there are cores"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder, "model"), Path(folder, "run")
        of_corpus = [CORPUS, "--data-dir", options.data_dir]
        train = run(["hf", "train", *of_corpus, "--out", str(model)], options.threads)
        audit = run(["hf", str(model), *of_corpus, "--out", str(out)], options.threads)
        timings, rows = (
            read_json(out / "manifest.json")["timings"],
            read_json(out / "manifest.json")["corpus"]["rows"],
        )
        accuracy = read_json(model / "training.json")["scores"]["test"]["accuracy"]
    steps = ", ".join(f"{name} {timings[name]:.0f}" for name in ("collect", "audit", "report"))
    whole = Cost(train.wall + audit.wall, train.cpu + audit.cpu, max(train.memory, audit.memory))
    print("| command | wall (s) | CPU (s) | peak memory (GiB) | of it |\n|---|---|---|---|---|")
    named = (
        ("hf train", train, f"accuracy on test {accuracy:.3f}"), ("hf", audit, f"{rows} texts; {steps} (wall s)"),
        ("both", whole, f"at most {MOST:.0f} s: {'yes' if whole.wall <= MOST else 'no'}; of CPU: {'yes' if whole.cpu <= MOST else 'no'}"),
    )  # fmt: skip
    for name, cost, remark in named:
        print(
            f"| {name} | {cost.wall:.0f} | {cost.cpu:.0f} | {cost.memory / 2**30:.2f} | {remark} |"
        )


if __name__ == "__main__":
    main()
