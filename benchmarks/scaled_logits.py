"""Ask for the verdict on planted models whose logits are multiplied by 0.3 and 3.

    python -m benchmarks.scaled_logits OUT [--data-dir DIR]

``OUT`` is the folder of a finished ``attnaudit study calibration``. The last layer of each model is
scaled and its trace is collected again, with leave-one-out and copies, so nothing is approximated.
Only models whose truth is confirmed count.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnaudit.core.files import read_json
from attnaudit.core.progress import silent
from attnaudit.experiments import audit
from attnaudit.experiments.verdict import Verdict, decide_verdict
from attnaudit.models.classifier import load_model
from attnaudit.recipes.audit import VERDICT
from attnaudit.recipes.calibration import CHECK, PLACE, Calibration, _unplanted
from attnaudit.recipes.classifier import Classifier
from attnaudit.recipes.kinds import LastCorpus
from attnaudit.recipes.study import TRAININGS, _with_teacher, training_folder
from attnaudit.trace import concatenate
from attnaudit.tracing.texts import collect_shards

FACTORS = (0.3, 3.0)


def verdicts(calibration: Calibration, cell: Any, corpus: Any) -> dict[float, Verdict]:
    """Return the verdict on a model for each factor."""
    store = calibration.out / TRAININGS
    spec, folder = _with_teacher(cell.training, store), training_folder(store, cell.training)
    split = Classifier.prepare(spec, corpus)[0].splits["test"]
    settings = {**asdict(spec.collect), "replacement": spec.replacement}
    found = {}
    for factor in FACTORS:
        model = load_model(folder / "model")
        for parameter in model.head.output.parameters():
            parameter.data *= factor
        trace = concatenate(list(collect_shards(model, split, **settings, metadata={})))
        summary = audit(cell.audited(trace), ["prediction", "replacement"]).summary
        found[factor] = decide_verdict(summary)
    return found


def main() -> None:
    """Print the models whose verdict changes, and for each factor how many keep it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    plain = read_json(options.out / PLACE / "spec.json")
    chosen = {name: plain[name] for name in ("seeds", "encoders")}
    lists = {name: plain[name] for name in ("corpora", "constructions")}
    chosen |= {name: one and tuple(one) for name, one in lists.items()}
    calibration = Calibration(options.out, data_dir=options.data_dir, **chosen)
    read, same = LastCorpus(), {factor: [] for factor in FACTORS}
    for cell in calibration.cells:
        place = calibration.audits[cell]
        if not read_json(place / CHECK)["confirmed"]:
            continue
        spec: Any = cell.training.spec
        own = read_json(place / VERDICT)["code"]
        corpus = read(_unplanted(spec, calibration.base), silent)
        for factor, verdict in verdicts(calibration, cell, corpus).items():
            same[factor].append(verdict.code == own)
            if verdict.code != own:
                print(f"{cell.name}: {own}, with logits × {factor:g} {verdict.code}")
    for factor, kept in same.items():
        print(f"logits × {factor:g}: {sum(kept)} of {len(kept)} verdicts are the same")


if __name__ == "__main__":
    main()
