"""Validate `class_evidence` on planted counter-evidence: print a table.

``python -m benchmarks.class_evidence DIR`` trains average and BiLSTM models on SST with planted
words, two of the class and one of another, two and four classes, three seeds: 12 runs in about
twelve minutes. Each row has the accuracy and, for each score, the ROC-AUC within a text of words of
a class against planted words of the other: the mean over the text's classes and texts, with its
interval, and the share of neutral words with a negative number for the predicted class.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import rankdata

import attnaudit as aa
from attnaudit.corpora.prepare.planting import TRIGGERS
from attnaudit.experiments.class_evidence import (
    choose_classes,
    erase_each,
    fit_each,
    split_logits,
)
from attnaudit.results import Measure, by_group, summarise_means

SCORES = {"evidence": split_logits, "erasure": erase_each, "surrogate": fit_each}
PLANTED = {"planted": "decisive", "planted_counter": 1, "planted_neutral": 0.2}


def separate(trace: aa.Trace, names: Iterable[str] = tuple(SCORES)) -> pl.DataFrame:
    """Return the AUC of each score, and its share of negative neutral words, of every text."""
    classes = choose_classes(trace)
    found = {name: SCORES[name](trace, classes) for name in names}
    rows = []
    for k in range(len(trace)):
        words = np.array(trace.tokens(k))
        own = np.full(len(words), -1)
        for c, of_class in enumerate(TRIGGERS):
            own[np.isin(words, of_class)] = c
        row = {"instance": int(trace.instance[k]), "predicted": ""}
        for name, score in found.items():
            aucs = []
            for c, numbers in zip(classes[k], score[k].T, strict=True):
                ours, planted = own == c, own >= 0
                n, others = ours.sum(), (planted & ~ours).sum()
                if n and others:
                    ranks = rankdata(numbers[planted])[ours[planted]].sum()
                    aucs.append((ranks - n * (n + 1) / 2) / (n * others))
            row |= {name: np.mean(aucs), f"{name}_neutral": (score[k][own < 0, 0] < 0).mean()}
        rows.append(row)
    return pl.DataFrame(rows)


def summary(trace: aa.Trace) -> dict[str, dict]:
    """Return the means over texts with intervals, by score."""
    groups = by_group(separate(trace).lazy(), lambda rows: rows.drop("instance", "predicted"))
    means = summarise_means("class_evidence", groups, 0, [Measure("{score}", "")]).filter(
        group="all"
    )
    return {row["measure"]: row for row in means.iter_rows(named=True)}


def main(folder: Path) -> None:
    columns = [f"{name}: AUC [95 %], neutral < 0" for name in SCORES]
    print("|", " | ".join(("encoder", "classes", "seed", "accuracy", *columns)), "|")
    print("|", " | ".join(["---"] * 7), "|")
    for model in ("average", "bilstm"):
        for classes in (2, 4):
            for seed in range(3):
                settings = {f"corpus.{name}": value for name, value in PLANTED.items()}
                settings |= {"corpus.planted_classes": classes, "training.epochs": 30}
                out = folder / f"{model}-{classes}-{seed}"
                aa.run("sst", out, model=model, seed=seed, settings=settings)
                trace = aa.Trace.read(out)
                means, cells = summary(trace), []
                for name in SCORES:
                    auc, neutral = means[name], means[f"{name}_neutral"]["value"]
                    ends = f"[{auc['low']:.2f}, {auc['high']:.2f}]"
                    cells.append(f"{auc['value']:.2f} {ends}, {neutral:.2f}")
                accuracy = f"{(trace.predicted == trace.array('label')).mean():.2f}"
                row = (model, str(classes), str(seed), accuracy, *cells)
                print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.class_evidence DIR")
    main(Path(sys.argv[1]))
