"""The Stanford Sentiment Treebank: labelled trees, with two classes as Jain & Wallace 2019 prepared it, and with its five."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.corpora.entry import Bounds, CorpusEntry, Download
from attnaudit.corpora.formats.layouts import any_layout, split_files, tables
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import Row

_PIECE = re.compile(r"[()]|[^() \t\r\n]+")  # other white space, such as a no-break space, may be inside a word
_LABELS = frozenset("01234")


class BadTree(ValueError):
    """A line that is no tree; the message says what was found."""


def read_tree(line: str) -> tuple[str, list[str]]:
    """The label of the root and the words at the leaves, from left to right. Raises BadTree."""
    words: list[str] = []
    open_nodes: list[int] = []  # for each bracket still open, how many pieces it has had
    root, closed = "", False
    for piece in _PIECE.findall(line):
        if closed:
            raise BadTree(f"'{piece}' after the end of the tree")
        if piece == "(":
            _begin(open_nodes)
        elif piece == ")":
            _end(open_nodes)
            closed = not open_nodes
        elif not open_nodes:
            raise BadTree(f"'{piece}' before the first bracket")
        elif open_nodes[-1] == 0:
            label = _label(piece)
            root = root or label
            open_nodes[-1] = 1
        else:
            words.append(piece)
            open_nodes[-1] += 1
    if not closed:
        raise BadTree(f"a tree with {len(open_nodes)} bracket(s) not closed")
    return root, words


def _begin(open_nodes: list[int]) -> None:
    if open_nodes:
        if open_nodes[-1] == 0:
            raise BadTree("a bracket where a label from 0 to 4 was expected")
        open_nodes[-1] += 1
    open_nodes.append(0)


def _end(open_nodes: list[int]) -> None:
    if not open_nodes:
        raise BadTree("a closing bracket that nothing opened")
    if open_nodes.pop() < 2:
        raise BadTree("a node without a word")


def _label(piece: str) -> str:
    if piece not in _LABELS:
        raise BadTree(f"label '{piece}' where 0 to 4 was expected")
    return piece


_TWO = {"0": "0", "1": "0", "3": "1", "4": "1"}
_FIVE = {label: label for label in "01234"}
_BRACKET = re.compile(r"-[lr]rb-", re.IGNORECASE)
_NO_WORD = re.compile(r"[\W_]+")


def clean(text: str) -> str:
    """Lower case, and one space for anything between letters and digits; the treebank's names of brackets go."""
    return _NO_WORD.sub(" ", _BRACKET.sub(" ", text.lower())).strip()


def tree_rows(path: Path, class_of: dict[str, str] | None = None) -> Iterator[Row]:
    """A row for each tree, by default labels 0 and 1 as class 0, 3 and 4 as class 1; neutral trees are then excluded."""
    classes = _TWO if class_of is None else class_of
    row = 0
    for number, line in numbered_lines(path):
        if line.isspace():
            continue
        try:
            label, words = read_tree(line)
        except BadTree as error:
            yield Row(row, number, problem=str(error))
        else:
            yield Row(row, number, " ".join(words), classes.get(label), left_out="" if label in classes else "neutral")
        row += 1


_FILES = {split: (f"{split}.txt",) for split in ("train", "dev", "test")}
_EXPECTED = "the tree files train.txt, dev.txt and test.txt, or train.csv, dev.csv and test.csv"
_BIBTEX = """@inproceedings{socher2013recursive,
  title = {Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank},
  author = {Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew and Potts, Christopher},
  booktitle = {Proceedings of EMNLP},
  year = {2013}
}"""  # noqa: E501  (an author list is one line)
_HOMEPAGE = "https://nlp.stanford.edu/sentiment/"
_LICENCE = "not stated by its authors; used for research"

_DOWNLOADS = (
    Download(
        "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
        "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
        789_539,
    ),
)

SST = CorpusEntry(
    name="sst",
    title="the Stanford Sentiment Treebank",
    short="SST",
    citation="Socher et al. 2013",
    bibtex=_BIBTEX,
    licence=_LICENCE,
    class_names=("negative", "positive"),
    sources=any_layout(split_files(_FILES, tree_rows, tuple(_FILES)), tables(), expected=_EXPECTED, within=("trees",)),
    homepage=_HOMEPAGE,
    downloads=_DOWNLOADS,
    folders=("sst", "trees"),
    min_df=1,
    mask_digits=False,
    clean=clean,
    bounds={"paper": Bounds(more_than=5), "code2019": Bounds(more_than=5, below_longest=True)},
    expected={
        "paper": {"train": (3035, 3321), "dev": (397, 425), "test": (863, 863)},
        "code2019": {"train": (3034, 3321), "dev": (397, 424), "test": (863, 862)},
    },
)

SST5 = CorpusEntry(
    name="sst5",
    title="the Stanford Sentiment Treebank with five classes",
    citation="Socher et al. 2013",
    bibtex=_BIBTEX,
    licence=_LICENCE,
    class_names=("very negative", "negative", "neutral", "positive", "very positive"),
    sources=any_layout(
        split_files(_FILES, partial(tree_rows, class_of=_FIVE), tuple(_FILES)), tables(), expected=_EXPECTED, within=("trees",)
    ),
    homepage=_HOMEPAGE,
    downloads=_DOWNLOADS,
    folders=("sst5", "sst", "trees"),
    mask_digits=False,
    clean=clean,
    expected={
        "paper": {
            "train": (1092, 2218, 1624, 2322, 1288),
            "dev": (139, 289, 229, 279, 165),
            "test": (279, 633, 389, 510, 399),
        }
    },
    differs=("not among the corpora of Jain & Wallace 2019; texts are cleaned as theirs of SST with two classes",),
)
