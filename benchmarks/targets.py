"""Targets of speed and what is reached, beside the plain way and the authors' code.

    python -m benchmarks.targets RUN [--imdb RUN] --data-dir DIR

``RUN`` is a finished run of sst, the other one of imdb: their trained models are measured. The
parts of SST are timed again in this process, with compiled kernels; leave-one-out and gradients
with the forward pass that both need. The authors' seconds are those of their released code with
published sizes, as reported for two cores; they were not measured here, the plain way was. Print a
Markdown table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from attnaudit.core.files import read_json
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores
from attnaudit.corpora.read import read_corpus
from attnaudit.experiments import make_experiment
from attnaudit.models.batch import Batch, Inputs, pad
from attnaudit.models.classifier import AttentionModel, load_model
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.trace import Trace, write_shards
from attnaudit.tracing.texts import BUDGET, collect_shards, frozen
from attnaudit.training.loop import torch_threads
from benchmarks.adversary import plain_search
from benchmarks.lengths import default_product, matrix_products, recurrent_operations
from benchmarks.measuring import apart, measured_apart, median_seconds
from benchmarks.output import figure, print_header, print_row
from benchmarks.sides import (
    PAPER,
    our_gradients,
    our_leave_one_out,
    plain_gradients,
    plain_leave_one_out,
    plain_permutation,
    scipy_correlation,
)

COLUMNS = (
    *("part", "plain way (s)", "ours (s)", "plain / ours", "authors' code, reported (s)"),
    *("reported / ours", "expected", "reached"),
)
# The authors' seconds of a part of SST test, and how many times faster ours is expected to be.
SST: dict[str, tuple[float, int | None]] = {
    "leave-one-out, bilstm": (9.6, 6),
    "gradients, bilstm": (1.4, None),
    "permutation": (5.2, 50),
    "adversary": (51.8, 1000),
    "correlation": (5.6, 20),
}
# The same of one instance, by experiment and T.
INSTANCE = {
    ("leave-one-out, bilstm", 200): (0.43, 10),
    ("leave-one-out, bilstm", 400): (2.1, 10),
    ("leave-one-out, cnn", 200): (0.20, 50),
    ("leave-one-out, average", 200): (0.06, 50),
    ("adversary", 200): (0.15, 1000),
    ("adversary", 400): (1.1, 1000),
}
WHOLE_SST, WHOLE_IMDB, IMDB_MEMORY, PRODUCT_SHARE = 3.0, 15 * 60.0, 3.0, 0.5


def sst_parts(
    model: AttentionModel, inputs: Inputs, trace: Trace
) -> Iterator[tuple[str, float, float]]:
    """Yield every part with our seconds and those of the plain way."""

    def each_batch(measure: Callable[[AttentionModel, Batch], Tensor]) -> float:
        # Batch by batch, one on each thread, as the collector does.
        rows = list(inputs.batches_by_length(BUDGET["cpu"]))[::-1]

        def call() -> None:
            with torch_threads(1), ThreadPoolExecutor(cores()) as pool:
                list(pool.map(lambda chosen: measure(model, inputs.batch(chosen)), rows))

        return median_seconds(call)

    def each_text(measure: Callable[[AttentionModel, np.ndarray], Tensor]) -> float:
        return median_seconds(lambda: [measure(model, ids) for ids in inputs.ids], 1)

    def gradients_of_text(model: AttentionModel, ids: np.ndarray) -> Tensor:
        return plain_gradients(model, pad(Ragged.from_rows([ids], np.int64), np.arange(1)))

    with frozen(model):
        leave_one_out = each_batch(our_leave_one_out), each_text(plain_leave_one_out)
        yield "leave-one-out, bilstm", *leave_one_out
        yield "gradients, bilstm", each_batch(our_gradients), each_text(gradients_of_text)
    rows = np.arange(len(trace))
    for name, plain in (
        ("permutation", lambda: plain_permutation(trace).call(rows)),
        ("adversary", lambda: plain_search(trace)),
        ("correlation", lambda: scipy_correlation(trace).call(rows)),
    ):
        experiment = make_experiment(name, PAPER.get(name))
        ours = median_seconds(lambda e=experiment: e(trace))
        yield name, ours, median_seconds(plain, 1)


def target_row(
    part: str,
    ours: float,
    expected: str = "–",
    reached: bool | None = None,
    plain: float | None = None,
    reported: float | None = None,
) -> list[str]:
    """Return a row of the table; None is a dash."""

    def times(other: float | None) -> list[str]:
        if other is None:
            return ["–", "–"]
        return [figure(other), f"{other / ours:,.{int(other < 10 * ours)}f}"]

    seconds, ratio = times(plain)
    verdict = "–" if reached is None else "yes" if reached else "no"
    return [part, seconds, figure(ours), ratio, *times(reported), expected, verdict]


def times_row(part: str, target: tuple[float, int | None], ours: float, plain: float) -> list[str]:
    """Return the row of a part that is expected to be so many times faster than reported."""
    reported, times = target
    if times is None:
        return target_row(part, ours, plain=plain, reported=reported)
    expected, reached = f"{times:,} × what is reported", reported >= times * ours
    return target_row(part, ours, expected, reached, plain, reported)


def product_row(length: int) -> list[str]:
    """Compare leave-one-out of the BiLSTM with its matrix products alone."""
    ours = measured_apart("leave-one-out, bilstm", "ours", length).seconds
    share = apart(matrix_products, default_product, length).seconds / ours
    rate = f"{recurrent_operations(length) / ours / 1e9:.0f} GFLOP/s"
    part = f"leave-one-out, bilstm, T = {length}: {rate}, {share:.0%} of torch's matrix products"
    return target_row(part, ours, f"{PRODUCT_SHARE:.0%}", share >= PRODUCT_SHARE)


def steps_row(
    part: str, seconds: dict[str, float], limit: float | None, memory: float | None = None
) -> list[str]:
    """Return the row of steps and their sum, in whole seconds and in GiB."""
    total, shown = sum(seconds.values()), [f"{name} {each:.2f}" for name, each in seconds.items()]
    expected = "–" if limit is None else f"≤ {limit:.0f} s"
    reached = None if limit is None else total <= limit
    if memory is not None:
        shown, expected = [*shown, f"{memory:.2f} GiB"], f"{expected}, ≤ {IMDB_MEMORY:.0f} GiB"
        reached = bool(reached) and memory <= IMDB_MEMORY
    return target_row(f"{part}: {', '.join(shown)}", total, expected, reached)


def main() -> None:
    """Print a row for each target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sst", type=Path, help="a finished run of sst")
    parser.add_argument("--imdb", type=Path, help="a finished run of imdb")
    parser.add_argument("--data-dir", required=True)
    options = parser.parse_args()
    spec, model = RunSpec.read(options.sst), load_model(options.sst / "model")
    source = replace(spec.corpus, data_dir=options.data_dir)
    split = read_corpus(source, seed=spec.seed, preset=spec.preset).splits["test"]
    inputs = model.inputs(split)
    print_header(COLUMNS)
    for name, ours, plain in sst_parts(model, inputs, Trace.read(options.sst)):
        print_row(times_row(f"{name}, SST test", SST[name], ours, plain))
    with tempfile.TemporaryDirectory() as folder:
        trace, out = Path(folder, "trace"), Path(folder, "audit")
        collect = median_seconds(lambda: write_shards(trace, collect_shards(model, split)))
        timings = read_json(audit_into(out, trace) / "manifest.json")["timings"]
    battery = {"collect": collect, "audit": timings["audit"]}
    print_row(steps_row("whole battery on SST after training", battery, WHOLE_SST))
    print_row(steps_row("the same with its page", {**battery, "report": timings["report"]}, None))
    for (name, length), target in INSTANCE.items():
        ours, plain = (measured_apart(name, side, length).seconds for side in ("ours", "plain"))
        print_row(times_row(f"{name}, an instance of T = {length}", target, ours, plain))
    print_row(product_row(200))
    if options.imdb:
        manifest = read_json(options.imdb / "manifest.json")
        steps = {name: each for name, each in manifest["timings"].items() if name != "train"}
        part = f"run on IMDB test ({manifest['corpus']['rows']['test']:,} texts) after training"
        memory = manifest["peak_memory_bytes"] / 2**30
        print_row(steps_row(part, steps, WHOLE_IMDB, memory))


if __name__ == "__main__":
    main()
