"""How good the trained models are: SST, BiLSTM and additive attention, three seeds, two kinds of word vectors.

    python benchmarks/quality.py --data-dir ../shared/data/raw --vectors ../shared/data/glove/glove.6B.50d.top9163.txt.gz

Every model is selected on dev; the figures are those of test. The rows also hold what the battery says of each model, so that they
can be read beside the published numbers.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from attnaudit.core.files import read_json
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.trained import run
from benchmarks.output import print_header, print_row

FIGURES = (
    ("prediction", "f1"), ("prediction", "roc_auc"), ("prediction", "accuracy"), ("correlation", "tau_gradient"),
    ("correlation", "tau_loo"), ("correlation", "tau_gradient_loo"), ("permutation", "median_delta_y"), ("adversary", "emax_jsd"),
)  # fmt: skip
SEEDS = (0, 1, 2)


def figures(folder: Path) -> list[float]:
    """The figures over all instances of a finished run."""
    rows = {
        (row["experiment"], row["measure"]): row["value"]
        for row in read_json(folder / "summary.json")
        if row["group"] == "all"
    }
    return [rows[figure] for figure in FIGURES]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", default="../shared/data/raw")
    parser.add_argument("--vectors", default="../shared/data/glove/glove.6B.50d.top9163.txt.gz")
    options = parser.parse_args()
    print_header(("word vectors", "seed", "best epoch", *(measure for _, measure in FIGURES)))
    for vectors in ("corpus", options.vectors):
        table = []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                out = run(
                    RunSpec.of("sst", data_dir=options.data_dir, vectors=vectors, seed=seed),
                    Path(folder) / "run",
                )
                table.append(figures(out))
                best = read_json(out / "manifest.json")["steps"]["train"]["notes"]["best_epoch"]
            print_row([Path(vectors).name, seed, best, *(f"{value:.3f}" for value in table[-1])])
        means = (f"{value:.3f}" for value in np.mean(table, axis=0))
        print_row([Path(vectors).name, "mean", "", *means])


if __name__ == "__main__":
    main()
