"""A small transformer, trained on SST and audited: the two commands that a user gives.

    python -m benchmarks.transformer_path --data-dir DIR [--threads N]

Print a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from attnaudit.core.files import read_json
from benchmarks.cost import Cost, cost_of_attnaudit
from benchmarks.output import print_header, print_row

MOST = 360.0  # seconds of both commands


def within(seconds: float) -> str:
    """Say whether both commands were fast enough."""
    return "yes" if seconds <= MOST else "no"


def main() -> None:
    """Measure both commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--threads", type=int, help="of an operation of torch; default: all cores")
    options = parser.parse_args()
    threads = {"OMP_NUM_THREADS": str(options.threads)} if options.threads else {}
    corpus, environment = ["sst", "--data-dir", options.data_dir], {**os.environ, **threads}
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder, "model"), Path(folder, "run")
        train = cost_of_attnaudit(["hf", "train", *corpus, "--out", str(model)], environment)
        audit = cost_of_attnaudit(["hf", str(model), *corpus, "--out", str(out)], environment)
        manifest = read_json(out / "manifest.json")
        accuracy = read_json(model / "training.json")["scores"]["test"]["accuracy"]
    steps = ", ".join(f"{k} {manifest['timings'][k]:.0f}" for k in ("collect", "audit", "report"))
    both = Cost(train.wall + audit.wall, train.cpu + audit.cpu, max(train.memory, audit.memory))
    limits = f"at most {MOST:.0f} s: {within(both.wall)}; of CPU: {within(both.cpu)}"
    print_header(("command", "wall (s)", "CPU (s)", "peak memory (GiB)", "of it"))
    for name, cost, remark in (
        ("hf train", train, f"accuracy on test {accuracy:.3f}"),
        ("hf", audit, f"{manifest['corpus']['rows']} texts; {steps} (wall s)"),
        ("both", both, limits),
    ):
        print_row([name, f"{cost.wall:.0f}", f"{cost.cpu:.0f}", f"{cost.memory:.2f}", remark])


if __name__ == "__main__":
    main()
