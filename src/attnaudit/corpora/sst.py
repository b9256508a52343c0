"""The Stanford Sentiment Treebank with two classes, as Jain & Wallace 2019 prepared it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.corpora.lines import numbered_lines
from attnaudit.corpora.readers import folder_sources
from attnaudit.corpora.registered import Bounds, Registered
from attnaudit.corpora.rows import Row, SplitSource
from attnaudit.corpora.trees import BadTree, read_tree

_CLASS_OF = {"0": "0", "1": "0", "3": "1", "4": "1"}
_BRACKET = re.compile(r"-[lr]rb-", re.IGNORECASE)
_NO_WORD = re.compile(r"[\W_]+")


def clean(text: str) -> str:
    """Lower case, and one space for anything between letters and digits; the treebank's names of brackets go."""
    return _NO_WORD.sub(" ", _BRACKET.sub(" ", text.lower())).strip()


def sources(folder: Path) -> dict[str, SplitSource]:
    """The splits from the published tree files, else from files with columns ``text`` and ``label`` (0 or 1)."""
    trees = {split: folder / f"{split}.txt" for split in ("train", "dev", "test")}
    if all(path.is_file() for path in trees.values()):
        return {split: SplitSource(path, partial(tree_rows, path)) for split, path in trees.items()}
    return folder_sources(folder, "text", "label")


def tree_rows(path: Path) -> Iterator[Row]:
    """A row for each tree: labels 0 and 1 are class 0, labels 3 and 4 class 1, neutral trees are left out."""
    row = 0
    for number, line in numbered_lines(path):
        if line.isspace():
            continue
        try:
            label, words = read_tree(line)
        except BadTree as error:
            yield Row(row, number, problem=str(error))
        else:
            neutral = "neutral" if label == "2" else ""
            yield Row(row, number, " ".join(words), _CLASS_OF.get(label), left_out=neutral)
        row += 1


SST = Registered(
    name="sst",
    title="the Stanford Sentiment Treebank",
    citation="Socher et al. 2013",
    bibtex="""@inproceedings{socher2013recursive,
  title = {Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank},
  author = {Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew and Potts, Christopher},
  booktitle = {Proceedings of EMNLP},
  year = {2013}
}""",  # noqa: E501  (an author list is one line)
    licence="not stated by its authors; used for research",
    class_names=("negative", "positive"),
    sources=sources,
    min_df=1,
    mask_digits=False,
    clean=clean,
    bounds={"paper": Bounds(more_than=5), "code2019": Bounds(more_than=5, below_longest=True)},
    expected={
        "paper": {"train": (3035, 3321), "dev": (397, 425), "test": (863, 863)},
        "code2019": {"train": (3034, 3321), "dev": (397, 424), "test": (863, 862)},
    },
)
