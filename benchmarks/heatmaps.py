"""Compare heatmaps of fine-tuned transformers, all judged alike on the same texts.

    python -m benchmarks.heatmaps --data-dir DIR --out OUT RUNS/minilm-*/model RUNS/bert-*/model

The parent folder of a model is called ``<name>-<seed>``. The texts are drawn from the test split of
SST, the same for every model. Measures of each text: the rank correlation with the change of the
output when words are replaced, and Kendall's τ with leave-one-out and with the surrogate that is
fitted to the replaced copies. OUT keeps a table per model, so that an interrupted comparison goes
on. The Markdown table has, for each score, the mean over seeds and, paired by text, the mean
difference to the mean of the last layer's heads, with a t interval over seeds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import t as student

from attnaudit.corpora.read import read_corpus
from attnaudit.experiments.replacement import Replacement
from attnaudit.experiments.rows import importance_scores, over_words
from attnaudit.experiments.surrogate import Surrogate
from attnaudit.hf import collect
from attnaudit.hf.encode import load_tokenizer
from attnaudit.hf.importance import defined_measures
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.texts import texts_of
from attnaudit.results.measures import SCORES
from attnaudit.stats.kendall import kendall_tau
from attnaudit.tracing.settings import ReplacementSettings
from benchmarks.output import print_header, print_row

TEXTS, SEED = 80, 0
REFERENCE = "shown"  # the mean of the last layer's heads
MEASURES = {"replacement": "words replaced", "loo": "τ leave-one-out", "surrogate": "τ surrogate"}


def measured(model: Any, tokenizer: Any, texts: Any) -> pl.DataFrame:
    """Return the measures of every score, a row for each text and score."""
    trace = collect(
        model,
        tokenizer,
        texts,
        heads=[0],
        scores=[one for one in defined_measures(model, "all") if one != "loo_mask"],
        heatmap="mean-last",
        replacement=ReplacementSettings(texts=TEXTS, seed=SEED),
        max_tokens=128,
    )
    replacement, fitted = Replacement()(trace), Surrogate()(trace)
    weights = trace.ragged("loo").with_values(
        np.abs(fitted["weights"].explode().to_numpy().astype(np.float64))
    )
    scores = over_words(trace, {**importance_scores(trace), "surrogate": weights})
    parts = []
    for name in scores:
        held_out = fitted if name == "surrogate" else replacement
        columns = {"replacement": held_out[f"replacement_{name}"].to_numpy()}
        for other in ("loo", "surrogate"):
            taus = kendall_tau(scores[name], scores[other]).tau
            columns[other] = np.full(len(trace), np.nan) if name == other else taus
        parts.append(pl.DataFrame({"instance": trace.instance, "score": name, **columns}))
    return pl.concat(parts).with_columns(pl.col("instance").cast(pl.Int64)).fill_nan(None)


def table(found: pl.DataFrame) -> None:
    """Print the scores of one kind of model, the best first."""
    own = found.filter(pl.col("score") == REFERENCE).drop("score")
    paired = found.join(own, on=["seed", "instance"], suffix="_own")
    gaps = ((pl.col(name) - pl.col(f"{name}_own")).mean().alias(f"{name}_gap") for name in MEASURES)
    of_seeds = paired.group_by("score", "seed").agg(pl.col(*MEASURES).mean(), *gaps)
    means = of_seeds.group_by("score").agg(pl.col("replacement").mean())
    print_header(["score", *MEASURES.values()])
    for score in means.sort("replacement", descending=True)["score"]:
        rows = of_seeds.filter(pl.col("score") == score)
        cells = (
            cell(rows[name], rows[f"{name}_gap"], score != REFERENCE) if rows[name].count() else "–"
            for name in MEASURES
        )
        print_row([SCORES.get("mean_last" if score == REFERENCE else score, score), *cells])


def cell(values: pl.Series, gaps: pl.Series, is_other: bool) -> str:
    """Return the mean over seeds, and that of the differences with its interval."""
    known = gaps.drop_nulls().to_numpy()
    if not is_other or len(known) < 2:
        return f"{values.mean():.3f}"
    half = student.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    low, middle, high = (f"{known.mean() + end:+.3f}" for end in (-half, 0.0, half))
    return f"{values.mean():.3f} ({middle}, {low} to {high})"


def main() -> None:
    """Measure the models that OUT lacks, and print a table for each kind of model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = texts_of(read_corpus("sst", data_dir=options.data_dir, raw=True)).of_split("test")
    rows = np.sort(np.random.default_rng(SEED).choice(len(texts), TEXTS, replace=False))
    kinds: dict[str, list[pl.DataFrame]] = {}
    for folder in options.models:
        kind, _, seed = folder.parent.name.rpartition("-")
        file = options.out / f"{kind}-{seed}.parquet"
        if not file.exists():
            begun = time.process_time()
            measured(
                load_pretrained(folder), load_tokenizer(folder), texts.take(rows)
            ).write_parquet(file)
            print(f"{kind}-{seed}: {time.process_time() - begun:.0f} CPU s", flush=True)
        kinds.setdefault(kind, []).append(pl.read_parquet(file).with_columns(seed=pl.lit(seed)))
    for kind, found in kinds.items():
        print(f"\n{kind}, {len(found)} seeds, {TEXTS} texts\n")
        table(pl.concat(found))


if __name__ == "__main__":
    main()
