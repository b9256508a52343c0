"""Do two revisions give the same numbers? One small run of each kind under both, compared to the last bit.

    python -m benchmarks.same_numbers record DIR [--source CHECKOUT]   run every kind with the package of a checkout, into DIR
    python -m benchmarks.same_numbers compare DIR DIR                  which results, summaries and traces differ

A change of structure or of wording changes no number: record the revision before it and the one after it on one machine, then compare.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

TINY = ("model.embedding=8", "model.hidden=4", "training.epochs=2")
PLANTED = ("corpus.size=120", "corpus.length=10,14", *TINY)
STUDIES = {
    "uniform": ("uniform.seeds=2",), "seeds": ("seeds.seeds=2",), "guide": ("guide.seeds=1", "guide.epochs=2"),
    "adversary": ("adversary.strengths=0.001,0.1", "adversary.controls=1", "adversary.epochs=2"),
    "deceive": ("deceive.epochs=2", "deceive.seeds=1", "deceive.strengths=0,1"),
    "dynamics": ("dynamics.seeds=2", "dynamics.steps=0,2,5", "dynamics.probe=6"),
}  # fmt: skip
PAIRS = (
    "corpus.size=150",
    "corpus.length=3,6",
    "model.embedding=8",
    "model.hidden=8",
    "training.epochs=2",
    "collect.pairs=10",
)
COPYING = (
    "copying.seeds=2", "copying.steps=6", "copying.every=3", "copying.hidden=8", "copying.embedding=6", "copying.batch=4",
    "copying.probe=4", "copying.test=4",
)  # fmt: skip
WORDS = (
    "plain",
    "quiet",
    "narrow",
    "bitter",
    "golden",
    "rapid",
    "hollow",
    "gentle",
    "broken",
    "silver",
    "early",
    "distant",
)


def kinds(texts: Path) -> dict[str, tuple[list[str], tuple[str, ...]]]:
    """Command and settings of each kind of run, by the name of its folder."""
    run = ["run", "planted-decisive", "--vectors", "random"]
    found: dict[str, tuple[list[str], tuple[str, ...]]] = {
        "two-classes": ([*run], PLANTED),
        "two-classes-cnn": (
            [*run, "--encoder", "cnn", "--attention", "dot"],
            (*PLANTED, "collect.erase_input=true"),
        ),
        "several-classes": (["run", str(texts), "--encoder", "average"], TINY),
        "question": (
            ["run", "planted-question", "--vectors", "random", "--attention", "dot"],
            PLANTED,
        ),
        "hierarchical": (
            ["run", str(texts), "--preset", "han", "--encoder", "bigru", "--vectors", "random"],
            TINY,
        ),
        "translation": (["translate", "planted-reverse"], PAIRS),
        "copying": (["study", "copying", "permutations"], COPYING),
        "sweep": (
            [
                "reproduce",
                "jain2019",
                "--corpus",
                "sst",
                "--encoder",
                "average",
                "--seeds",
                "2",
                "--vectors",
                "random",
            ],
            TINY,
        ),
    }
    for name, settings in STUDIES.items():
        found[f"study-{name}"] = (
            ["study", name, "planted-decisive", "--vectors", "random"],
            (*_with_effect(name, PLANTED), *settings),
        )
    for name in ("deceive", "dynamics"):
        own = tuple(
            setting for setting in STUDIES[name] if not setting.startswith("deceive.epochs")
        )
        found[f"study-pairs-{name}"] = (
            ["study", name, "planted-reverse"],
            (*(_with_effect(name, PAIRS) if name == "dynamics" else PAIRS), *own),
        )
    return found


def _with_effect(study: str, settings: tuple[str, ...]) -> tuple[str, ...]:
    """Those that a study of texts does not refuse: dynamics trains for steps, the models of deceive have their own sizes."""
    refused = {"dynamics": "training.", "deceive": "model."}.get(study)
    return tuple(one for one in settings if refused is None or not one.startswith(refused))


def record(out: Path, source: Path) -> None:
    """Every kind with the package in ``source``, one thread an operation, each in a folder of ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    texts, data = _write_texts(out / "texts.csv"), _write_sst(out / "data")
    environment = {
        **os.environ,
        "PYTHONPATH": str(source / "src"),
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    for name, (command, settings) in kinds(texts).items():
        given = [part for setting in settings for part in ("--set", setting)]
        given += ["--data-dir", str(data)] if command[0] == "reproduce" else []
        started = time.perf_counter()
        run = [
            sys.executable,
            "-m",
            "attnaudit",
            *command,
            *given,
            "--out",
            str(out / name),
            "--json",
        ]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: exit status {done.returncode}: {done.stderr}")
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


def compare(one: Path, other: Path) -> list[str]:
    """A line for every table, summary and list of translations that differs or is in one of the two alone."""
    names = sorted(
        {path.relative_to(folder) for folder in (one, other) for path in _recorded(folder)}
    )
    lines = []
    for name in names:
        left, right = one / name, other / name
        missing = next((str(path) for path in (left, right) if not path.exists()), None)
        difference = f"missing: {missing}" if missing else _difference(left, right)
        if difference:
            lines.append(f"{name}: {difference}")
    print(f"{len(names)} files, {len(lines)} differ")
    return lines


def _recorded(folder: Path) -> list[Path]:
    found = [
        *folder.rglob("*.parquet"),
        *folder.rglob("summary.json"),
        *folder.rglob("*.jsonl"),
        *folder.rglob("*.safetensors"),
    ]
    return [path for path in found if ".unfinished" not in path.parts]


def _difference(left: Path, right: Path) -> str:
    if left.read_bytes() == right.read_bytes():
        return ""
    if left.suffix == ".parquet":
        try:
            assert_frame_equal(pl.read_parquet(left), pl.read_parquet(right), check_exact=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
        return ""  # the same table under another description
    if left.suffix == ".json":
        ours, theirs = (json.loads(path.read_text(encoding="utf-8")) for path in (left, right))
        rows = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
        return (
            f"{len(ours)} and {len(theirs)} rows, {len(rows)} differ, first {rows[0] if rows else ''}"
            if ours != theirs
            else ""
        )
    return "other bytes"


def _write_texts(path: Path) -> Path:
    """Texts of several sentences and three classes, each with a word of its own."""
    draw = random.Random(7)
    rows = ["text,label"]
    for row in range(180):
        sentences = [
            " ".join(draw.choices(WORDS, k=draw.randint(3, 7))) for _ in range(draw.randint(2, 4))
        ]
        label = row % 3
        sentences[draw.randrange(len(sentences))] += f" {('bad', 'fair', 'good')[label]}"
        rows.append(f"{'. '.join(sentences)}.,{('low', 'middle', 'high')[label]}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _write_sst(folder: Path) -> Path:
    """A small corpus under a name that the paper has."""
    draw = random.Random(8)
    (folder / "sst").mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", 80), ("dev", 20), ("test", 20)):
        lines = [
            f"{' '.join(draw.choices(WORDS, k=8))} {('dull', 'bright')[row % 2]},{row % 2}"
            for row in range(rows)
        ]
        (folder / "sst" / f"{split}.csv").write_text(
            "text,label\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--source", type=Path, default=Path.cwd())
    given = parser.parse_args()
    if given.action == "record":
        record(given.folders[0].resolve(), given.source.resolve())
        return 0
    lines = compare(*given.folders)
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
