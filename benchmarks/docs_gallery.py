"""Real reports for the documentation: ``python -m benchmarks.docs_gallery --data-dir DIR [--only NAME…]``.

The planted corpora always, corpora of the literature where DIR has them. A run that is finished is left as it is, so that a second call
costs nothing. ``make docs`` puts the reports of runs/gallery into the documentation (`benchmarks/docs_site.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.corpora.registry import CORPORA, corpus_sources
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.recipes.trained import train
from attnaudit.recipes.transformer import TransformerSpec, audit_transformer

FOLDER, MODELS = Path("runs/gallery"), Path("runs/gallery-models")


def transformer(
    corpus: str,
    out: Path,
    *,
    config: str,
    settings: dict[str, Any],
    sample: int,
    data_dir: str | None = None,
) -> Path:
    """Train a small transformer on a corpus, audit it on ``sample`` of its test texts, and return the run."""
    spec = TransformerTraining.of(corpus, config=config, settings=settings, data_dir=data_dir)
    model = train(spec, MODELS / out.name)
    settings = {"collect.sample": sample}
    audited = TransformerSpec.of(model, corpus, settings=settings, data_dir=data_dir)
    return audit_transformer(audited, out)


class Shown(NamedTuple):
    """A report of the gallery: what makes it, and what there is to see."""

    corpus: str
    make: Callable[..., Path]
    options: dict[str, Any]
    look_at: str


GALLERY = {
    "planted": Shown(
        "planted-decisive", attnaudit.run, {"encoder": "bilstm", "vectors": "random", "settings": {"training.epochs": 4}},
        "The deciding words are known: does attention find them?",
    ),
    "planted-copy": Shown(
        "planted-copy", attnaudit.run, {"settings": {"training.epochs": 3}},
        "A translator that copies: attention and known alignments.",
    ),
    "sst": Shown("sst", attnaudit.run, {}, "Film reviews of one sentence, BiLSTM with additive attention, as in Jain & Wallace 2019."),
    "20news_sports": Shown("20news_sports", attnaudit.run, {}, "Long posts on baseball or hockey."),
    "babi1": Shown("babi1", attnaudit.run, {}, "Question answering: which sentence says where Mary is?"),
    "multi30k_en_de": Shown(
        "multi30k_en_de", attnaudit.run,
        {"settings": {"training.epochs": 3, "corpus.pieces": 2000, "model.embedding": 128, "model.hidden": 128}},
        "English to German by a small translator, with attention as a matrix of words.",
    ),
    "sst-bert": Shown(
        "sst", transformer, {"config": "tiny-bert", "settings": {"training.epochs": 4}, "sample": 200},
        "A small BERT trained on the same reviews: the heads of its last layer, each at [CLS].",
    ),
}  # fmt: skip


def make(name: str, data_dir: str | None) -> Path | None:
    """The finished run of one entry; None where its corpus is not there. Raises InputError."""
    shown = GALLERY[name]
    entry = CORPORA[shown.corpus]
    if entry.generate is None:
        try:
            corpus_sources(entry, data_dir)
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return None
    options = shown.options | (
        {"data_dir": data_dir} if entry.generate is None and data_dir else {}
    )
    return shown.make(shown.corpus, FOLDER / name, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--data-dir", help="folder with the corpora of the literature")
    parser.add_argument("--only", nargs="+", choices=list(GALLERY), default=list(GALLERY))
    arguments = parser.parse_args()
    for name in arguments.only:
        if (run := make(name, arguments.data_dir)) is not None:
            print(f"{name}: {run / 'report.html'}")


if __name__ == "__main__":
    main()
