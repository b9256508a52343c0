"""Sentences of film reviews by Pang and Lee: for or against a film (MR), and opinion or plot (SUBJ)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.corpora.formats.layouts import any_layout, class_files, tables
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import Row
from attnaudit.corpora.named.registered import Registered


def sentence_rows(path: Path, label: str, encoding: str) -> Iterator[Row]:
    """A row for each line that is not empty, all with one label."""
    lines = ((number, line) for number, line in numbered_lines(path, encoding=encoding) if line.strip())
    for row, (number, line) in enumerate(lines):
        yield Row(row, number, line.strip(), label)


MR = Registered(
    name="mr",
    title="the sentence polarity dataset of film reviews",
    citation="Pang & Lee 2005",
    bibtex="""@inproceedings{pang2005seeing,
  title = {Seeing Stars: Exploiting Class Relationships for Sentiment Categorization with Respect to Rating Scales},
  author = {Pang, Bo and Lee, Lillian},
  booktitle = {Proceedings of ACL},
  year = {2005}
}""",
    licence="not stated",
    class_names=("negative", "positive"),
    sources=any_layout(
        class_files({"0": ("rt-polarity.neg",), "1": ("rt-polarity.pos",)}, partial(sentence_rows, encoding="cp1252")),
        tables(),
        expected="rt-polarity.neg and rt-polarity.pos, or all.csv",
        within=("rt-polaritydata",),
    ),
    homepage="http://www.cs.cornell.edu/people/pabo/movie-review-data/",
    folders=("mr", "rt-polaritydata"),
    expected={"paper": {"train+dev+test": (5331, 5331)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split; its sentences are those of SST",),
)

SUBJ = Registered(
    name="subj",
    title="the subjectivity dataset of film reviews and plots",
    citation="Pang & Lee 2004",
    bibtex="""@inproceedings{pang2004sentimental,
  title = {A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization Based on Minimum Cuts},
  author = {Pang, Bo and Lee, Lillian},
  booktitle = {Proceedings of ACL},
  year = {2004}
}""",
    licence="not stated",
    class_names=("objective", "subjective"),
    sources=any_layout(
        class_files(
            {"0": ("plot.tok.gt9.5000", "subj.objective"), "1": ("quote.tok.gt9.5000", "subj.subjective")},
            partial(sentence_rows, encoding="latin-1"),
        ),
        tables(),
        expected="plot.tok.gt9.5000 and quote.tok.gt9.5000, or all.csv",
        within=("rotten_imdb",),
    ),
    homepage="http://www.cs.cornell.edu/people/pabo/movie-review-data/",
    folders=("subj", "rotten_imdb"),
    expected={"paper": {"train+dev+test": (5000, 5000)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)
