"""Record one small run of every kind with a checkout's package, and compare two such records.

    python -m benchmarks.same_numbers record DIR [--source CHECKOUT] [--only KIND …]
    python -m benchmarks.same_numbers compare DIR DIR [--tolerance 1e-9]

Record the revision before a change and the one after it on one machine, then compare: a change of
structure or of wording changes no number. The trainer of the tiny models' tokenizer breaks ties at
random, so copy DIR/models of the first record into the second before it. ``--commands FILE`` names a JSON file {kind: command}
for a revision that spells a command in another way.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

TINY = "model.embedding=8 model.hidden=4 training.epochs=2"
PLANTED = f"corpus.size=120 corpus.length=10,14 {TINY}"
PAIRS = (
    "corpus.size=150 corpus.length=3,6 collect.pairs=10 model.embedding=8 model.hidden=8 "
    "training.epochs=2"
)
COPYING = (
    "copying.seeds=2 copying.steps=6 copying.every=3 copying.hidden=8 copying.embedding=6 "
    "copying.batch=4 copying.probe=4 copying.test=4"
)
DECEIVE, DYNAMICS = (
    "deceive.seeds=1 deceive.strengths=0,1",
    "dynamics.seeds=2 dynamics.steps=0,2,5 dynamics.probe=6",
)
RUN, STUDY = "run planted-decisive --vectors random", "planted-decisive --vectors random"
KINDS = {
    "two-classes": (RUN, PLANTED),
    "two-classes-cnn": (
        f"{RUN} --model cnn --attention dot",
        f"{PLANTED} collect.erase_input=true",
    ),
    "several-classes": ("run {texts} --model average", TINY),
    "question": ("run planted-question --vectors random --attention dot", PLANTED),
    "hierarchical": ("run {texts} --preset han --model bigru --vectors random", TINY),
    "translation": ("run planted-reverse", PAIRS),
    "copying": ("study copying permutations", COPYING),
    "sweep": (
        "reproduce jain2019 --only sst-average-* --seeds 2 --vectors random --data-dir {data}",
        TINY,
    ),
    "calibration": (
        "study calibration planted-prior --set calibration.seeds=1 --set calibration.encoders=1 "
        "--set calibration.constructions=guided_mixing,leak_last",
        "",
    ),
    "encoder": (
        "audit {models}/encoder {texts} --sample 12 --layers all --set collect.scores=gradient,loo",
        "",
    ),
    "encoder-graph": ("audit {models}/encoder {texts} --sample 12", ""),
    "language-model": ("audit {models}/causal {texts} --sample 4 --layers 1", ""),
    "study-uniform": (f"study uniform {STUDY}", f"{PLANTED} uniform.seeds=2"),
    "study-seeds": (f"study seeds {STUDY}", f"{PLANTED} seeds.seeds=2"),
    "study-guide": (f"study guide {STUDY}", f"{PLANTED} guide.seeds=1 guide.epochs=2"),
    "study-adversary": (
        f"study adversary {STUDY}",
        f"{PLANTED} adversary.strengths=0.001,0.1 adversary.controls=1 adversary.epochs=2",
    ),
    # Models of deceive have sizes of their own; dynamics trains for steps, not epochs.
    "study-deceive": (
        f"study deceive {STUDY}",
        f"corpus.size=120 corpus.length=10,14 training.epochs=2 deceive.epochs=2 {DECEIVE}",
    ),
    "study-dynamics": (
        f"study dynamics {STUDY}",
        f"corpus.size=120 corpus.length=10,14 model.embedding=8 model.hidden=4 {DYNAMICS}",
    ),
    "study-pairs-deceive": ("study deceive planted-reverse", f"{PAIRS} {DECEIVE}"),
    "study-pairs-dynamics": (
        "study dynamics planted-reverse",
        f"{PAIRS.removesuffix(' training.epochs=2')} {DYNAMICS}",
    ),
}
"""Command without ``--out`` and ``--json``, and settings, of every kind of run."""
WORDS = [
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
]
RECORDED = ("*.parquet", "summary.json", "*.jsonl", "*.safetensors")
SKIPPED = {".unfinished", "models"}
ENDS = ("low", "high")
KEY = ("experiment", "measure", "group", "reference")  # of a row of a summary


def run_with(source: Path, arguments: Sequence[str]) -> str:
    """Run ``python`` with the package of a checkout and one thread; return the error, if any."""
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(source / "src")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return f"exit status {done.returncode}: {done.stderr.strip()}" if done.returncode else ""


def record(out: Path, source: Path, only: Sequence[str], commands: Mapping[str, str]) -> None:
    """Run every kind, or ``only`` some, with the package in ``source``, each into a folder."""
    write_inputs(out)
    inputs = {"texts": out / "texts.csv", "models": out / "models", "data": out / "data"}
    calls = {}
    for name, (command, settings) in KINDS.items():
        words = commands.get(name, command).format(**inputs).split()
        given = [part for setting in settings.split() for part in ("--set", setting)]
        calls[name] = ["-m", "attnaudit", *words, *given, "--out", str(out / name), "--json"]
    calls["torch-module"] = [str(Path(__file__).resolve()), "torch", str(out / "torch-module")]
    for name, call in calls.items():
        if only and name not in only:
            continue
        started = time.perf_counter()
        if error := run_with(source, call):
            raise SystemExit(f"{name}: {error}")
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


def compare(one: Path, other: Path, tolerance: float) -> list[str]:
    """Return a line for each table, summary or weights file that differs or that one side lacks."""
    left, right = _files(one), _files(other)
    lines = []
    for name in sorted(left | right):
        if name not in left or name not in right:
            lines.append(f"{name}: missing in {other if name in left else one}")
        elif difference := _difference(left[name], right[name], tolerance):
            lines.append(f"{name}: {difference}")
    print(f"{len(left | right)} files, {len(lines)} differ by more than {tolerance:g}")
    return lines


def _files(folder: Path) -> dict[str, Path]:
    """Map names to the recorded files of a folder."""
    paths = [path for pattern in RECORDED for path in folder.rglob(pattern)]
    names = {str(path.relative_to(folder)): path for path in sorted(paths)}
    # A folder of a training ends with a hash of its spec, in which a revision may add a setting.
    return {
        re.sub(r"-[0-9a-f]{10}/", "/", name): path
        for name, path in names.items()
        if not SKIPPED & set(Path(name).parts)
    }


def _difference(left: Path, right: Path, tolerance: float) -> str:
    """Describe where two files differ, column by column."""
    if left.read_bytes() == right.read_bytes():
        return ""
    if left.suffix == ".jsonl":
        return "other bytes"
    ours, theirs, lines = _table(left), _table(right), []
    if left.name == "summary.json":
        # Rows are matched by what they measure.
        keys = [name for name in KEY if name in ours.columns and name in theirs.columns]
        both = [
            one.join(other, on=keys, how="semi", nulls_equal=True).sort(keys)
            for one, other in ((ours, theirs), (theirs, ours))
        ]
        alone = ours.height + theirs.height - both[0].height - both[1].height
        lines += [f"{alone} rows in one alone"] if alone else []
        ours, theirs = both
    if ours.height != theirs.height:
        return f"{ours.height} and {theirs.height} rows"
    lacking = sorted(set(ours.columns) ^ set(theirs.columns))
    lines += [f"columns {', '.join(lacking)} in one alone"] if lacking else []
    for name in ours.columns:
        if name in theirs.columns:
            gaps = _gaps(ours[name], theirs[name])
            # Ends of intervals are drawn, so their differences are given in widths.
            if name in ENDS and set(ENDS) <= set(ours.columns):
                width = (ours["high"] - ours["low"]).fill_null(0.0).to_numpy()
                gaps = gaps / np.where(width > 0.0, width, 1.0)
            if count := int((gaps > tolerance).sum()):
                lines.append(f"{name} by {gaps.max():.2g} in {count} of {len(gaps)} values")
    return "; ".join(lines)[:1000]


def _table(path: Path) -> pl.DataFrame:
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    if path.suffix == ".safetensors":
        weights = sorted(load_file(path).items())
        rows = [(name, values.ravel().tolist()) for name, values in weights]
        return pl.DataFrame(rows, schema=["name", "weights"], orient="row")
    found = json.loads(path.read_text(encoding="utf-8"))
    if path.name == "summary.json":
        return pl.DataFrame(found, infer_schema_length=None)
    columns = {"path": pl.String, "number": pl.Float64, "text": pl.String}
    return pl.DataFrame(list(_leaves(found)), schema=columns, orient="row")


def _leaves(found: Any, path: str = "") -> Iterator[tuple[str, float | None, str | None]]:
    """Yield the path of every leaf of a JSON document, and its number or text."""
    if isinstance(found, dict | list):
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            yield from _leaves(value, f"{path}/{key}")
    elif isinstance(found, int | float):
        yield path, float(found), None
    else:
        yield path, None, str(found)


def _gaps(ours: pl.Series, theirs: pl.Series) -> np.ndarray:
    """Return the differences of numbers; infinity for other values that differ."""
    if ours.dtype.is_nested():
        nested: Any = ours.dtype
        lengths = [series.cast(pl.List(nested.inner)).list.len() for series in (ours, theirs)]
        same = lengths[0].equals(lengths[1], null_equal=True)
        return _gaps(ours.explode(), theirs.explode()) if same else np.array([np.inf])
    if not (ours.dtype.is_numeric() and theirs.dtype.is_numeric()):
        return np.where(ours.cast(pl.String).ne_missing(theirs.cast(pl.String)), np.inf, 0.0)
    one, other = (series.cast(pl.Float64).to_numpy() for series in (ours, theirs))
    gaps = np.nan_to_num(np.abs(one - other), nan=np.inf)
    return np.where(np.isnan(one) & np.isnan(other), 0.0, gaps)


def audit_module(out: Path) -> None:
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


def write_inputs(folder: Path) -> None:
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
        if (folder / name).exists():
            continue
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
        audit_module(given.folders[0])
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
