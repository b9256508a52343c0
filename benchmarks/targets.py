"""What was wanted of speed and what is reached: ours beside the plain way and beside what the authors' code took on two cores.

    python benchmarks/targets.py RUN [--imdb RUN] --data-dir DIR

``RUN`` is a finished run of sst, the other one of imdb: their trained models are measured. The parts of SST are timed once more in this
process, kernels compiled; leave-one-out and gradients with the pass forward that both need. The authors' seconds are those of their
released code, published sizes, on a machine such as this one; they were not measured here, the plain way was. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.core.files import read_json
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores
from attnaudit.corpora import read_corpus
from attnaudit.experiments import make_experiment
from attnaudit.models.batch import Batch, Inputs, batches_by_length, pad
from attnaudit.models.classifier import AttentionModel, load_model
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.trace import Trace, write_shards
from attnaudit.tracing.texts import BUDGET, collect_shards, frozen
from attnaudit.training.loop import torch_threads
from benchmarks.adversary import plain_search
from benchmarks.battery import plain_correlation, plain_permutation
from benchmarks.lengths import (
    default_product,
    figure,
    matrix_products,
    print_header,
    print_row,
    recurrent_operations,
)
from benchmarks.measuring import apart, measured_apart
from benchmarks.sides import (
    PAPER,
    our_gradients,
    our_leave_one_out,
    plain_gradients,
    plain_leave_one_out,
)

COLUMNS = (
    "part",
    "plain way (s)",
    "ours (s)",
    "plain / ours",
    "authors' code, reported (s)",
    "reported / ours",
    "expected",
    "reached",
)
REPEATS = 3
# the authors' seconds of a part of SST test, then how many times quicker ours is to be
SST: dict[str, tuple[float, int | None]] = {
    "leave-one-out, bilstm": (9.6, 6), "gradients, bilstm": (1.4, None), "permutation": (5.2, 50), "adversary": (51.8, 1000),
    "correlation": (5.6, 20),
}  # fmt: skip
# the same of one instance, by experiment and T
INSTANCE = {
    ("leave-one-out, bilstm", 200): (0.43, 10), ("leave-one-out, bilstm", 400): (2.1, 10), ("leave-one-out, cnn", 200): (0.20, 50),
    ("leave-one-out, average", 200): (0.06, 50), ("adversary", 200): (0.15, 1000), ("adversary", 400): (1.1, 1000),
}  # fmt: skip
WHOLE_SST, WHOLE_IMDB, IMDB_MEMORY, PRODUCT_SHARE = 3.0, 15 * 60.0, 3.0, 0.5


@dataclass(frozen=True)
class Trained:
    """A run's model and the test texts it was collected on."""

    folder: Path
    model: AttentionModel
    inputs: Inputs

    @classmethod
    def of(cls, folder: Path, data_dir: str) -> Trained:
        spec = RunSpec.read(folder)
        split = read_corpus(
            replace(spec.corpus, data_dir=data_dir), seed=spec.seed, preset=spec.preset
        ).splits["test"]
        model = load_model(folder / "model")
        return cls(folder, model, Inputs.from_split(split, model.vocabulary))

    def each_batch(self, measure: Callable[[AttentionModel, Batch], Tensor]) -> None:
        """A measure of all texts, batch by batch, a thread each, as they are collected."""
        rows = list(batches_by_length(self.inputs.lengths, BUDGET["cpu"]))[::-1]
        with frozen(self.model), torch_threads(1), ThreadPoolExecutor(cores()) as pool:
            list(pool.map(lambda chosen: measure(self.model, self.inputs.batch(chosen)), rows))

    def each_text(self, measure: Callable[[AttentionModel, np.ndarray], Tensor]) -> None:
        with frozen(self.model):
            for ids in self.inputs.ids:
                measure(self.model, ids)


def plain_gradients_of_text(model: AttentionModel, ids: np.ndarray) -> Tensor:
    return plain_gradients(model, pad(Ragged.from_rows([ids], np.int64), np.arange(1)))


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median, the first call apart where there are more."""
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken[1:] or taken))


def sst_parts(sst: Trained) -> dict[str, tuple[float, float]]:
    """Seconds of every part done by us and the plain way."""
    trace = Trace.read(sst.folder)

    def ours(name: str) -> float:
        experiment = make_experiment(name, PAPER.get(name))
        return seconds(lambda: experiment(trace))

    return {
        "leave-one-out, bilstm": (
            seconds(lambda: sst.each_batch(our_leave_one_out)), seconds(lambda: sst.each_text(plain_leave_one_out), 1),
        ),
        "gradients, bilstm": (
            seconds(lambda: sst.each_batch(our_gradients)),
            seconds(lambda: sst.each_text(plain_gradients_of_text), 1),
        ),
        "permutation": (ours("permutation"), seconds(lambda: plain_permutation(trace), 1)),
        "adversary": (ours("adversary"), plain_search(trace, batch=32, hidden=256)[0]),
        "correlation": (ours("correlation"), seconds(lambda: plain_correlation(trace), 1)),
    }  # fmt: skip


def battery_again(sst: Trained, data_dir: str) -> dict[str, float]:
    """Seconds of collecting, auditing and reporting once more from the trained model, files written and all."""
    spec = RunSpec.read(sst.folder)
    split = read_corpus(
        replace(spec.corpus, data_dir=data_dir), seed=spec.seed, preset=spec.preset
    ).splits["test"]
    with tempfile.TemporaryDirectory() as place:
        trace, out = Path(place) / "trace", Path(place) / "audit"
        collect = seconds(lambda: write_shards(trace, collect_shards(sst.model, split)))
        return {
            "collect": collect,
            **read_json(audit_into(out, trace) / "manifest.json")["timings"],
        }


def target_row(
    part: str,
    theirs: float | None,
    plain: float | None,
    ours: float,
    expected: str,
    reached: bool | None,
) -> list[str]:
    measured, reported = ("–" if value is None else figure(value) for value in (plain, theirs))
    faster, than_reported = (
        "–" if value is None else f"{value / ours:,.{int(value < 10 * ours)}f}"
        for value in (plain, theirs)
    )
    return [
        part,
        measured,
        figure(ours),
        faster,
        reported,
        than_reported,
        expected,
        "–" if reached is None else "yes" if reached else "no",
    ]


def times_row(
    part: str, theirs: float, times: int | None, ours: float, plain: float | None
) -> list[str]:
    reached = None if times is None else theirs >= times * ours
    return target_row(
        part, theirs, plain, ours, f"{times:,} × what is reported" if times else "–", reached
    )


def product_row(length: int) -> list[str]:
    """Seconds of leave-one-out of the BiLSTM beside those of its matrix products alone."""
    ours = measured_apart("leave-one-out, bilstm", "ours", length).seconds
    alone = apart(matrix_products, default_product, length).seconds
    rate = recurrent_operations(length) / ours / 1e9
    part = f"leave-one-out, bilstm, T = {length}: {rate:.0f} GFLOP/s, {alone / ours:.0%} of torch's own matrix products"
    return target_row(part, None, None, ours, f"{PRODUCT_SHARE:.0%}", alone / ours >= PRODUCT_SHARE)


def whole_rows(sst: Trained, data_dir: str) -> Iterator[list[str]]:
    """The battery, and the battery with its page, whose charts need an engine that starts once in a process."""
    taken = battery_again(sst, data_dir)
    steps = ", ".join(f"{name} {taken[name]:.2f}" for name in ("collect", "audit"))
    battery, total = taken["collect"] + taken["audit"], sum(taken.values())
    yield target_row(
        f"whole battery on SST after training: {steps}",
        None,
        None,
        battery,
        f"≤ {WHOLE_SST:.0f} s",
        battery <= WHOLE_SST,
    )
    yield target_row(
        f"the same with its page: report {taken['report']:.2f}", None, None, total, "–", None
    )


def imdb_row(run: Path) -> list[str]:
    """As its manifest says: what came after training, and the most memory any step held."""
    manifest = read_json(run / "manifest.json")
    after = {name: taken for name, taken in manifest["timings"].items() if name != "train"}
    total, memory = sum(after.values()), manifest["peak_memory_bytes"] / 2**30
    steps = ", ".join(f"{name} {value:.1f}" for name, value in after.items())
    part = f"run on IMDB test ({manifest['corpus']['rows']['test']:,} texts) after training: {steps}; {memory:.2f} GiB"
    expected = f"≤ {WHOLE_IMDB:.0f} s, ≤ {IMDB_MEMORY:.0f} GiB"
    return target_row(
        part, None, None, total, expected, total <= WHOLE_IMDB and memory <= IMDB_MEMORY
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sst", type=Path, help="a finished run of sst")
    parser.add_argument("--imdb", type=Path, help="a finished run of imdb")
    parser.add_argument("--data-dir", required=True)
    options = parser.parse_args()
    print_header(COLUMNS)
    sst = Trained.of(options.sst, options.data_dir)
    for part, (ours, plain) in sst_parts(sst).items():
        print_row(times_row(f"{part}, SST test", *SST[part], ours, plain))
    for row in whole_rows(sst, options.data_dir):
        print_row(row)
    for (name, length), (theirs, times) in INSTANCE.items():
        ours, plain = (measured_apart(name, side, length).seconds for side in ("ours", "plain"))
        print_row(times_row(f"{name}, an instance of T = {length}", theirs, times, ours, plain))
    print_row(product_row(200))
    if options.imdb:
        print_row(imdb_row(options.imdb))


if __name__ == "__main__":
    main()
