"""Record one small run of every kind with a checkout's package, and compare two such records.

    python -m benchmarks.same_numbers record DIR [--source CHECKOUT] [--only KIND …]
    python -m benchmarks.same_numbers compare DIR DIR [--tolerance 1e-9]

Record the revision before a change and the one after it on one machine, then compare: a change of
structure or of wording changes no number. ``--commands FILE`` names a JSON file {kind: arguments}
for a revision that spells a command in another way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from polars.testing import assert_frame_equal
from safetensors.numpy import load_file

TINY = ("model.embedding=8", "model.hidden=4", "training.epochs=2")
PLANTED = ("corpus.size=120", "corpus.length=10,14", *TINY)
PAIRS = (
    *("corpus.size=150", "corpus.length=3,6", "collect.pairs=10"),
    *("model.embedding=8", "model.hidden=8", "training.epochs=2"),
)
COPYING = (
    *("copying.seeds=2", "copying.steps=6", "copying.every=3", "copying.hidden=8"),
    *("copying.embedding=6", "copying.batch=4", "copying.probe=4", "copying.test=4"),
)
STUDIES = {
    "uniform": (*PLANTED, "uniform.seeds=2"),
    "seeds": (*PLANTED, "seeds.seeds=2"),
    "guide": (*PLANTED, "guide.seeds=1", "guide.epochs=2"),
    "adversary": (
        *(*PLANTED, "adversary.strengths=0.001,0.1"),
        *("adversary.controls=1", "adversary.epochs=2"),
    ),
    # Models of deceive have sizes of their own; dynamics trains for steps, not epochs.
    "deceive": (
        *PLANTED[:2],
        *("training.epochs=2", "deceive.epochs=2", "deceive.seeds=1", "deceive.strengths=0,1"),
    ),
    "dynamics": (
        *PLANTED[:4],
        *("dynamics.seeds=2", "dynamics.steps=0,2,5", "dynamics.probe=6"),
    ),
}
STUDIES_OF_PAIRS = {
    "deceive": (*PAIRS, "deceive.seeds=1", "deceive.strengths=0,1"),
    "dynamics": (*PAIRS[:5], *STUDIES["dynamics"][4:]),
}
WORDS = (
    *("plain", "quiet", "narrow", "bitter", "golden", "rapid"),
    *("hollow", "gentle", "broken", "silver", "early", "distant"),
)
RECORDED = ("*.parquet", "summary.json", "degree.json", "*.jsonl", "*.safetensors")
SKIPPED = {".unfinished", "models"}


class Kind(NamedTuple):
    """A kind of run: the command without ``--out`` and ``--json``, and its settings."""

    command: list[str]
    settings: tuple[str, ...] = ()


def kinds(inputs: Path) -> dict[str, Kind]:
    """Return every kind of run by the name of its folder; ``inputs`` has what `_write` wrote."""
    texts, run = str(inputs / "texts.csv"), ["run", "planted-decisive", "--vectors", "random"]
    sweep = ["--corpus", "sst", "--encoder", "average", "--seeds", "2", "--vectors", "random"]
    found = {
        "two-classes": Kind(run, PLANTED),
        "two-classes-cnn": Kind(
            [*run, "--encoder", "cnn", "--attention", "dot"],
            (*PLANTED, "collect.erase_input=true"),
        ),
        "several-classes": Kind(["run", texts, "--encoder", "average"], TINY),
        "question": Kind(
            ["run", "planted-question", "--vectors", "random", "--attention", "dot"], PLANTED
        ),
        "hierarchical": Kind(
            ["run", texts, "--preset", "han", "--encoder", "bigru", "--vectors", "random"], TINY
        ),
        "translation": Kind(["translate", "planted-reverse"], PAIRS),
        "copying": Kind(["study", "copying", "permutations"], COPYING),
        "sweep": Kind(["reproduce", "jain2019", *sweep, "--data-dir", str(inputs / "data")], TINY),
        "calibration": Kind(
            [
                *("calibrate", "--corpus", "planted-prior", "--seeds", "1", "--encoders", "1"),
                *("--construction", "guided_mixing", "--construction", "leak_last"),
            ]
        ),
        "encoder": Kind(
            [
                *("hf", str(inputs / "models" / "encoder"), texts, "--sample", "12"),
                *("--layers", "all", "--score", "gradient", "--score", "loo"),
            ]
        ),
        "encoder-graph": Kind(["hf", str(inputs / "models" / "encoder"), texts, "--sample", "12"]),
        "language-model": Kind(
            ["hf", str(inputs / "models" / "causal"), texts, "--sample", "4", "--layers", "1"]
        ),
    }
    for name, settings in STUDIES.items():
        command = ["study", name, "planted-decisive", "--vectors", "random"]
        found[f"study-{name}"] = Kind(command, settings)
    for name, settings in STUDIES_OF_PAIRS.items():
        found[f"study-pairs-{name}"] = Kind(["study", name, "planted-reverse"], settings)
    return found


def record(out: Path, source: Path, only: list[str], commands: dict[str, list[str]]) -> None:
    """Run every kind, or ``only`` some, with the package in ``source``, each into a folder."""
    _write(out)
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    environment["NUMBA_NUM_THREADS"] = "1"
    calls = {
        name: [
            *("-m", "attnaudit", *commands.get(name, kind.command)),
            *(part for setting in kind.settings for part in ("--set", setting)),
            *("--out", str(out / name), "--json"),
        ]
        for name, kind in kinds(out).items()
    }
    calls["torch-module"] = [str(Path(__file__).resolve()), "torch", str(out / "torch-module")]
    for name, call in calls.items():
        if only and name not in only:
            continue
        started = time.perf_counter()
        run = [sys.executable, *call]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: exit status {done.returncode}: {done.stderr}")
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


def compare(one: Path, other: Path, tolerance: float) -> list[str]:
    """Return a line for each table, summary or weights file that differs or that one side lacks."""
    names = sorted({path.relative_to(folder) for folder in (one, other) for path in _files(folder)})
    lines = []
    for name in names:
        left, right = one / name, other / name
        missing = next((str(path) for path in (left, right) if not path.exists()), None)
        difference = f"missing: {missing}" if missing else _difference(left, right, tolerance)
        if difference:
            lines.append(f"{name}: {difference}")
    print(f"{len(names)} files, {len(lines)} differ by more than {tolerance:g}")
    return lines


def _files(folder: Path) -> list[Path]:
    paths = [path for pattern in RECORDED for path in folder.rglob(pattern)]
    return [path for path in paths if not SKIPPED & set(path.relative_to(folder).parts)]


def _difference(left: Path, right: Path, tolerance: float) -> str:
    if left.read_bytes() == right.read_bytes():
        return ""
    if left.suffix == ".parquet":
        return _table_difference(pl.read_parquet(left), pl.read_parquet(right), tolerance)
    if left.suffix == ".json":
        ours, theirs = (json.loads(path.read_text(encoding="utf-8")) for path in (left, right))
        rows = _rows_that_differ(ours, theirs, tolerance)
        # Intervals are drawn at random: a row that differs in nothing else is only counted.
        values = [
            (a, b) for a, b in rows if not _alike(_without_ends(a), _without_ends(b), tolerance)
        ]
        ends = f"{len(rows) - len(values)} rows differ in their intervals" if rows else ""
        return f"{ends}, {len(values)} in more, first {values[0]}" if values else ends
    if left.suffix == ".safetensors":
        ours, theirs = (load_file(path) for path in (left, right))
        alike = ours.keys() == theirs.keys() and all(
            np.allclose(ours[name], theirs[name], rtol=0.0, atol=tolerance) for name in ours
        )
        return "" if alike else "other weights"
    return "other bytes"


def _without_ends(row: Any) -> Any:
    ends = ("low", "high", "interval")
    return {k: v for k, v in row.items() if k not in ends} if isinstance(row, dict) else row


def _table_difference(left: pl.DataFrame, right: pl.DataFrame, tolerance: float) -> str:
    lacking = sorted(set(left.columns) ^ set(right.columns))
    both = [name for name in left.columns if name in right.columns]
    lines = [f"columns {', '.join(lacking)} in one alone"] if lacking else []
    if left.height != right.height:
        return f"{left.height} and {right.height} rows"
    for name in both:
        try:
            assert_frame_equal(
                left.select(name),
                right.select(name),
                check_exact=False,
                check_dtypes=False,
                abs_tol=tolerance,
                rel_tol=0.0,
            )
        except AssertionError:
            lines.append(f"{name}{_size_of_difference(left, right, name)}")
    return "; ".join(lines)[:1000]


def _size_of_difference(left: pl.DataFrame, right: pl.DataFrame, name: str) -> str:
    if not left.select(name).select(cs.float()).width:
        return ""
    difference = (left[name] - right[name]).abs()
    return f" by {difference.max()} in {(difference > 0).sum()} of {left.height} rows"


def _rows_that_differ(ours: Any, theirs: Any, tolerance: float) -> list[Any]:
    """Return pairs of rows that differ; rows of a summary are paired by what they measure."""
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return [] if _alike(ours, theirs, tolerance) else [(ours, theirs)]
    sides = [{_row_name(row): row for row in rows} for rows in (ours, theirs)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    pairs = [tuple(side.get(name) for side in sides) for name in names]
    return [pair for pair in pairs if not _alike(pair[0], pair[1], tolerance)]


def _row_name(row: Any) -> str:
    named = isinstance(row, dict) and "measure" in row
    names = ("experiment", "measure", "group", "reference")
    return json.dumps([row.get(name) for name in names] if named else row)


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _alike(one[key], other[key], tolerance) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _alike(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0.0, abs_tol=tolerance)
    return one == other


def collect_module(out: Path) -> None:
    """Audit a small torch module of our own through `attnaudit.torch`, with and without a tail."""
    import torch
    from torch import nn

    import attnaudit
    from attnaudit.torch import Batch, collect

    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.value = nn.Linear(6, 1), nn.Linear(6, 4)

        def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            scores = self.score(hidden).masked_fill(~mask[..., None], -torch.inf)
            return (scores.softmax(dim=1) * self.value(hidden)).sum(dim=1)

    class Net(nn.Module):
        def __init__(self, head: nn.Module) -> None:
            super().__init__()
            self.embedding, self.pool, self.head = nn.Embedding(30, 6), Pool(), head

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.head(self.pool(self.embedding(ids), mask))

    torch.manual_seed(5)
    heads = {
        "identity": nn.Linear(4, 1),
        "tail": nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)),
    }
    draw = random.Random(5)
    lengths = [draw.randint(2, 12) for _ in range(40)]
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.tensor([draw.randint(1, 29) for _ in range(length)])
    mask = ids > 0
    tokens = [[f"t{token}" for token in row if token] for row in ids.tolist()]
    for name, head in heads.items():
        net = Net(head).eval()
        trace = collect(net, Batch(tokens=tokens, inputs=(ids, mask)), attention="pool")
        attnaudit.audit(trace).save(out / name)


def _write(folder: Path) -> None:
    """Write the inputs of all kinds: texts, a corpus that a paper has, two tiny transformers."""
    _write_texts(folder)
    _write_sst(folder / "data" / "sst")
    if not (folder / "models").exists():
        _write_models(folder / "models")


def _write_texts(folder: Path) -> None:
    """Write texts of several sentences and three classes, each with a word of its own."""
    draw = random.Random(7)
    rows = ["text,label"]
    for row in range(180):
        sentences = [
            " ".join(draw.choices(WORDS, k=draw.randint(3, 7))) for _ in range(draw.randint(2, 4))
        ]
        sentences[draw.randrange(len(sentences))] += f" {('bad', 'fair', 'good')[row % 3]}"
        rows.append(f"{'. '.join(sentences)}.,{('low', 'middle', 'high')[row % 3]}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _write_sst(folder: Path) -> None:
    draw = random.Random(8)
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", 80), ("dev", 20), ("test", 20)):
        lines = [
            f"{' '.join(draw.choices(WORDS, k=8))} {('dull', 'bright')[row % 2]},{row % 2}"
            for row in range(rows)
        ]
        text = "text,label\n" + "\n".join(lines) + "\n"
        (folder / f"{split}.csv").write_text(text, encoding="utf-8")


def _write_models(folder: Path) -> None:
    from tests.hf.classes import tiny
    from tests.hf.tokenizing import SIZE, tokenizer

    for name, model, pieces, template in (
        ("encoder", "BertForSequenceClassification", "wordpiece", "[CLS] $A [SEP]"),
        ("causal", "GPT2LMHeadModel", "wordpiece", ""),
    ):
        network = tiny(model, vocab_size=SIZE)
        if name == "encoder":
            network.config.id2label = dict(enumerate(("low", "middle", "high")))
            network.config.label2id = {name: k for k, name in network.config.id2label.items()}
        network.save_pretrained(folder / name)
        tokenizer(pieces, template).save_pretrained(folder / name)


def main() -> int:
    """Parse the command line, then record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare", "torch"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--source", type=Path, default=Path.cwd())
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--commands", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    given = parser.parse_args()
    if given.action == "torch":
        collect_module(given.folders[0])
        return 0
    if given.action == "record":
        commands = json.loads(given.commands.read_text("utf-8")) if given.commands else {}
        record(given.folders[0].resolve(), given.source.resolve(), given.only, commands)
        return 0
    lines = compare(given.folders[0], given.folders[1], given.tolerance)
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
