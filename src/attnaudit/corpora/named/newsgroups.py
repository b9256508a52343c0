"""Posts of the 20 Newsgroups on baseball and hockey, without headers, signatures and quotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.corpora.entry import Bounds, CorpusEntry, Download, Parting
from attnaudit.corpora.formats.layouts import any_layout, split_files, tables
from attnaudit.corpora.formats.lines import whole_text
from attnaudit.corpora.formats.rows import Row

_GROUPS = ("rec.sport.baseball", "rec.sport.hockey")
_QUOTATION = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)")


def clean(post: str) -> str:
    """The body of a post: by the rules of scikit-learn's 20 Newsgroups with ``remove=("headers", "footers", "quotes")``."""
    return without_quotations(without_signature(without_header(post.replace("\r\n", "\n"))))


def without_header(post: str) -> str:
    """What comes after the first empty line."""
    return post.partition("\n\n")[2]


def without_signature(text: str) -> str:
    """What comes before the last line that is empty or made of hyphens, not counting those at the end; all where there is none."""
    lines = text.strip().split("\n")
    ends = [number for number, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: ends[-1]]) if ends and ends[-1] > 0 else text


def without_quotations(text: str) -> str:
    """Lines that are not quoted and do not introduce a quotation."""
    return "\n".join(line for line in text.split("\n") if not _QUOTATION.search(line))


def post_rows(folder: Path) -> Iterator[Row]:
    """The posts of one folder after the other, by number, decoded as Latin-1. Raises InputError where a group has none."""
    row = 0
    for label, group in enumerate(_GROUPS):
        files = sorted((folder / group).glob("[0-9]*"), key=lambda file: (len(file.name), file.name))
        if not files:
            raise InputError("read corpus", str(folder / group), "no post", "a folder with a file for each post")
        for file in files:
            yield Row(row, None, whole_text(file, "latin-1"), str(label), file=f"{group}/{file.name}")
            row += 1


_BYDATE = {split: (f"20news-bydate-{split}/",) for split in ("train", "test")}

NEWS_SPORTS = CorpusEntry(
    name="20news_sports",
    title="posts on baseball and hockey of the 20 Newsgroups",
    short="20News sports",
    citation="Lang 1995",
    bibtex="""@inproceedings{lang1995newsweeder,
  title = {NewsWeeder: Learning to Filter Netnews},
  author = {Lang, Ken},
  booktitle = {Proceedings of ICML},
  year = {1995}
}""",
    licence="not stated; public posts with names and addresses of their authors",
    class_names=("baseball", "hockey"),
    sources=any_layout(
        split_files(_BYDATE, post_rows),
        tables(),
        expected="the folders 20news-bydate-train and 20news-bydate-test, or train.csv and test.csv with whole posts",
        within=("20news-bydate",),
    ),
    homepage="http://qwone.com/~jason/20Newsgroups/",
    downloads=(
        Download(
            "https://ndownloader.figshare.com/files/5975967",
            "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
        ),
    ),
    folders=("20news_sports", "20news", "20news-bydate"),
    min_df=2,
    clean=clean,
    parting=Parting(pooled=True, pool_shares=(0.16, 0.2)),
    bounds={"paper": Bounds(more_than=6, less_than=500)},
    expected={"paper": {"train+dev+test": (880, 883)}},
    differs=("the split is another draw: the authors' (train 716/710, test 151/183) is of another order of the posts",),
)
