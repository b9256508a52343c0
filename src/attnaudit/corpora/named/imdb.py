"""IMDB film reviews: folders with a file for each review."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.layouts import any_layout, split_files, tables
from attnaudit.corpora.formats.lines import whole_text
from attnaudit.corpora.formats.rows import Row
from attnaudit.corpora.named.registered import Bounds, Parting, Registered

_CLASSES = ("neg", "pos")
STARS = ("1", "2", "3", "4", "7", "8", "9", "10")  # reviews of 5 and 6 stars are not among them
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def clean(text: str) -> str:
    """HTML line breaks become spaces."""
    return _LINE_BREAK.sub(" ", text)


def review_rows(folder: Path) -> Iterator[Row]:
    """The reviews of ``neg`` and then of ``pos``, each by the number in its file name. Raises InputError without one of them."""
    row = 0
    for label, name in enumerate(_CLASSES):
        files = sorted((folder / name).glob("*.txt"), key=_numbered)
        if not files:
            raise InputError("read corpus", str(folder / name), "no review", "a folder with txt files, one for each review")
        for file in files:
            yield Row(row, None, whole_text(file), str(label), file=f"{name}/{file.name}")
            row += 1


def star_rows(folder: Path) -> Iterator[Row]:
    """The same reviews by the stars in their file names, as ``7_10.txt``; those without stars are bad rows."""
    for row in review_rows(folder):
        stars = Path(row.file).stem.partition("_")[2]
        if stars in STARS:
            yield replace(row, label=str(STARS.index(stars)))
        else:
            yield replace(row, problem=f"stars '{stars[:20]}' where one of {', '.join(STARS)} was expected")


def _numbered(file: Path) -> tuple[int, str]:
    found = _NUMBER.match(file.name)
    return int(found[0]) if found else -1, file.name


IMDB = Registered(
    name="imdb",
    title="the Large Movie Review Dataset of IMDB",
    citation="Maas et al. 2011",
    bibtex="""@inproceedings{maas2011learning,
  title = {Learning Word Vectors for Sentiment Analysis},
  author = {Maas, Andrew L. and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher},
  booktitle = {Proceedings of ACL},
  year = {2011}
}""",
    licence="not stated by its authors, who ask to be cited",
    class_names=("negative", "positive"),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, review_rows),
        tables(),
        expected="the folders train and test of aclImdb, each with neg and pos, or train.csv and test.csv",
        within=("aclImdb",),
    ),
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    folders=("imdb", "aclImdb"),
    min_df=10,
    clean=clean,
    parting=Parting(dev_share=0.2, test_kept=0.2),
    bounds={"paper": Bounds(more_than=6, less_than=400)},
    expected={"paper": {"train+dev": (10335, 10184), "test": (2078, 2074)}},
    differs=(
        "lengths are counted in words of the review; the authors counted numbers of the Keras version, which has no punctuation",
        "the fifth of test that is kept is drawn anew: the authors' 2184 and 2172 rows are not published",
    ),
)

IMDB_STARS = replace(
    IMDB,
    name="imdb_stars",
    title="the Large Movie Review Dataset of IMDB by stars",
    class_names=tuple(f"{stars} star{'s' * (stars != '1')}" for stars in STARS),
    sources=any_layout(
        split_files({"train": ("train/",), "test": ("test/",)}, star_rows),
        expected="the folders train and test of aclImdb, each with neg and pos, whose file names end in the stars",
        within=("aclImdb",),
    ),
    folders=("imdb_stars", "imdb", "aclImdb"),
    parting=Parting(dev_share=0.2),
    bounds={},
    expected={},
    differs=("Serrano & Smith 2019 used another collection of reviews of IMDB, with ten classes; here 5 and 6 stars are wanting",),
)
