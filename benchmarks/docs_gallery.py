"""Real reports for the documentation.

    python -m benchmarks.docs_gallery [--data-dir DIR] [--only NAME…]

The planted corpora always, corpora of the literature if DIR has them. Finished runs are left as
they are. ``make docs`` puts the reports of runs/gallery into the documentation
(`benchmarks/docs_site.py`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.corpora.registry import CORPORA, corpus_sources

FOLDER = Path("runs/gallery")


class Shown(NamedTuple):
    """A report of the gallery: its corpus, what there is to see, and options of the run."""

    corpus: str
    look_at: str
    options: dict[str, Any]


GALLERY = {
    "planted": Shown(
        "planted-decisive",
        "The deciding words are known: does attention find them?",
        {"model": "bilstm", "vectors": "random", "settings": {"training.epochs": 4}},
    ),
    "planted-copy": Shown(
        "planted-copy",
        "A translator that copies: attention and known alignments.",
        {"settings": {"training.epochs": 3}},
    ),
    "sst": Shown(
        "sst",
        "Film reviews of one sentence, BiLSTM with additive attention, as in Jain & Wallace 2019.",
        {},
    ),
    "20news_sports": Shown("20news_sports", "Long posts on baseball or hockey.", {}),
    "babi1": Shown("babi1", "Question answering: which sentence says where Mary is?", {}),
    "multi30k_en_de": Shown(
        "multi30k_en_de",
        "English to German by a small translator, with attention as a matrix of words.",
        {
            "settings": {
                "training.epochs": 3,
                "corpus.pieces": 2000,
                "model.embedding": 128,
                "model.hidden": 128,
            }
        },
    ),
    "sst-bert": Shown(
        "sst",
        "A small BERT trained on the same reviews: the heads of its last layer, each at [CLS].",
        {"model": "tiny-bert", "settings": {"training.epochs": 4, "collect.sample": 200}},
    ),
}


def make(name: str, data_dir: str | None) -> Path | None:
    """Return the finished run of one entry; None if its corpus is missing.

    Raises:
        InputError: If the run fails.
    """
    shown = GALLERY[name]
    entry, options = CORPORA[shown.corpus], dict(shown.options)
    if entry.generate is None:
        try:
            corpus_sources(entry, data_dir)
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return None
        options["data_dir"] = data_dir
    return attnaudit.run(shown.corpus, FOLDER / name, **options)


def main() -> None:
    """Make the entries asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", help="folder with the corpora of the literature")
    parser.add_argument("--only", nargs="+", choices=list(GALLERY), default=list(GALLERY))
    arguments = parser.parse_args()
    for name in arguments.only:
        if (run := make(name, arguments.data_dir)) is not None:
            print(f"{name}: {run / 'report.html'}")


if __name__ == "__main__":
    main()
