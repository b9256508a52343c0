"""Would the records of the papers' tables be the same today? One short run of each kind, under a record's commit and under this one.

    python benchmarks/records_hold.py --data-dir DIR --vectors FILE [--only TEXT]

The records in docs/records were made at different commits, on different machines, in many hours. A change of this program that changes
a number shows here in minutes: the command of a record, with less data and fewer epochs, runs under both commits, next to each other on
one machine, and every number of both summaries is compared to the last bit. Prints a markdown table, in which numbers of other rounding,
of float32 in another order of operations, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDING = 1e-6  # of a number, relative to it where it is larger than 1
ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "records"
SHORT = {  # settings of each kind of command that leave minutes; {} trains nothing that could be shorter
    "reproduce": {"training.epochs": "2"},
    "run": {"training.epochs": "1"},
    "uniform": {"training.epochs": "2", "uniform.seeds": "2"},
    "seeds": {"training.epochs": "2", "seeds.seeds": "2"},
    "guide": {"training.epochs": "2", "guide.seeds": "1", "guide.epochs": "2"},
    "adversary": {
        "training.epochs": "2",
        "adversary.strengths": "0.001,0.1",
        "adversary.controls": "1",
        "adversary.epochs": "2",
    },
    "deceive": {"training.epochs": "2", "deceive.seeds": "1", "deceive.strengths": "0,1"},
    "dynamics": {"dynamics.seeds": "2", "dynamics.steps": "0,5,20", "dynamics.probe": "10"},
    "copying": {"copying.seeds": "2", "copying.steps": "60", "copying.every": "30"},
    "hf": {},
}
AVERAGE = ("--encoder", "average", "--attention", "additive", "--seeds", "1")


@dataclass(frozen=True)
class Probe:
    """A record by its path below docs/records, with what makes its command shorter than its kind alone does."""

    record: str
    settings: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


def _kept(train: str, test: str = "1.0") -> tuple[tuple[str, str], ...]:
    return ("corpus.train_kept", train), ("corpus.test_kept", test)


PROBES = (  # each kind of command once for each commit that made records of it
    Probe("jain2019/20news_sports", options=AVERAGE),
    Probe("jain2019/babi1", options=AVERAGE),
    Probe("jain2019/snli", _kept("0.1", "0.05"), AVERAGE),
    Probe("jain2019/babi2", _kept("0.2", "0.2"), AVERAGE),
    Probe("jain2019/babi3", _kept("0.2", "0.1"), AVERAGE),
    Probe("serrano2019/20news_sports-flan-bigru-additive"),
    Probe("serrano2019/20news_sports-han-cnn-additive"),
    Probe("serrano2019/ag_news-flan-cnn-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/amazon-flan-bigru-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/amazon-flan-cnn-additive", _kept("0.1", "0.1")),
    Probe("serrano2019/imdb-flan-bigru-additive", _kept("0.02", "0.01")),
    Probe("wiegreffe2019/20news_sports-uniform"),
    Probe("wiegreffe2019/20news_sports-seeds"),
    Probe("wiegreffe2019/20news_sports-guide"),
    Probe("wiegreffe2019/20news_sports-adversary"),
    Probe("wiegreffe2019/ag_news-seeds", _kept("0.02", "0.1")),
    Probe("wiegreffe2019/imdb-guide", _kept("0.02", "0.01")),
    Probe(
        "wiegreffe2019/sst-uniform-small-bert",
        (*_kept("0.02", "0.1"), ("training.epochs", "1"), ("collect.sample", "60")),
    ),
    Probe("pruthi2020/deceptive_pronoun-deceive", _kept("0.2", "0.2")),
    Probe(
        "pruthi2020/deceptive_pronoun-deceive-small-bert",
        (*_kept("0.05"), ("collect.sample", "60")),
    ),
    Probe("pruthi2020/deceptive_en_de-deceive", (*_kept("0.005", "0.1"), ("training.epochs", "1"))),
    Probe("pruthi2020/planted-copy-deceive", (("corpus.size", "400"),)),
    Probe("snell2021/20news_sports-dynamics"),
    Probe("snell2021/ag_news-dynamics", _kept("0.05", "0.1")),
    Probe("snell2021/imdb-dynamics", _kept("0.02", "0.01")),
    Probe("snell2021/permutations-copying"),
    Probe("transformers/planted-s0", (("corpus.size", "300"),)),
)


def commands(probe: Probe, command: str, data_dir: str, vectors: str, out: Path) -> list[list[str]]:
    """The commands of a record, shorter, each with its folder in ``out``."""
    found = []
    for number, text in enumerate(command.split("; ")):
        parts = [
            {"DATA": data_dir, "VECTORS": vectors, "MODEL": str(out / "0")}.get(part, part)
            for part in shlex.split(text)[1:]
        ]
        kind = parts[1] if parts[0] == "study" else parts[0]
        settings: dict[str, str] = {}
        plain: list[str] = []
        words = iter(parts)
        for word in words:
            if word == "--set":
                key, value = next(words).split("=", 1)
                settings[key] = value
            elif word == "--out":
                next(words)
            elif word != "--full":
                plain.append(word)
        settings |= {**SHORT[kind], **dict(probe.settings)}
        given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        found.append([*plain, *probe.options, *given, "--out", str(out / str(number))])
    return found


def rows(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Every row of every summary in a folder, by folder, experiment, measure and group."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in sorted(folder.rglob("summary.json")):
        if ".unfinished" not in path.parts:
            name = str(path.parent.relative_to(folder))
            found |= {
                (name, row["experiment"], row["measure"], str(row.get("group"))): row
                for row in json.loads(path.read_text(encoding="utf-8"))
            }
    return found


def apart(then: dict[str, Any], now: dict[str, Any]) -> float:
    """The difference of two values, relative to the larger where that is above 1; infinite where one is missing, or of other instances."""
    one, other = then["value"], now["value"]
    if then["n"] != now["n"] or (one is None) != (other is None):
        return math.inf
    return 0.0 if one == other else abs(one - other) / max(1.0, abs(one), abs(other))


def moved(then: dict[str, Any], now: dict[str, Any]) -> float:
    """How far the ends of an interval moved, in parts of its width then; infinite where one side has none, or it had no width."""
    if any((then[end] is None) != (now[end] is None) for end in ("low", "high")):
        return math.inf
    shift = max(
        (abs(then[end] - now[end]) for end in ("low", "high") if then[end] is not None), default=0.0
    )
    width = (
        then["high"] - then["low"] if then["low"] is not None and then["high"] is not None else 0.0
    )
    return shift / width if width else math.inf * shift if shift else 0.0


def run(source: Path, given: list[list[str]]) -> str:
    """Nothing, or the last line of the command that failed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(source / "src"),
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    for command in given:
        done = subprocess.run(
            [sys.executable, "-m", "attnaudit", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return ""


def line(probe: Probe, data_dir: str, vectors: str) -> str:
    record = json.loads((RECORDS / f"{probe.record}.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = {"then": folder / "source", "now": ROOT}
        git = ("git", "-C", str(ROOT))
        subprocess.run(
            [*git, "worktree", "add", "--quiet", "--detach", str(sides["then"]), record["commit"]],
            check=True,
        )
        try:
            failed = {
                side: run(
                    source, commands(probe, record["command"], data_dir, vectors, folder / side)
                )
                for side, source in sides.items()
            }
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(sides["then"])], check=True)
        then, now = (rows(folder / side) for side in sides)
    start = f"| {probe.record} | {record['commit']}"
    if any(failed.values()):
        return f"{start} | failed: {failed} | | | | | | |"
    both = sorted(then.keys() & now.keys())
    values = {key: found for key in both if (found := apart(then[key], now[key]))}
    others = sorted({key[2] for key, found in values.items() if found > ROUNDING})
    rounded = sum(found <= ROUNDING for found in values.values())
    ends = {key: found for key in both if (found := moved(then[key], now[key]))}
    most = max((end for end in ends.values() if math.isfinite(end)), default=0.0)
    alone = [key[2] for key, end in ends.items() if math.isinf(end)]
    lost, names = len(then) - len(both), sorted(set(alone))
    return f"{start} | {len(both)} | {lost} | {', '.join(others)} | {rounded} | {len(ends) - len(alone)} | {most:.2g} | {', '.join(names)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    heads = (
        "record",
        "its commit",
        "numbers",
        "only then",
        "other values",
        "by rounding",
        "other intervals",
        "moved by, of their width",
    )
    print(f"| {' | '.join(heads)} | only one has an interval |")
    print("|" + "---|" * (len(heads) + 1))
    for probe in PROBES:
        if given.only in probe.record:
            print(
                line(
                    probe, str(Path(given.data_dir).resolve()), str(Path(given.vectors).resolve())
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
