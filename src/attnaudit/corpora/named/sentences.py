"""Corpora of one sentence or message a line: SMS spam, the questions of TREC, and the sentences of Pang & Lee."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attnaudit.corpora.entry import CorpusEntry, Download
from attnaudit.corpora.formats.layouts import any_layout, class_files, renamed, split_files, tables
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import Row


def message_rows(path: Path) -> Iterator[Row]:
    """Rows of a file of lines ``ham <tab> message``, without header."""
    return renamed(_lines(path), {"ham": "0", "spam": "1"})


def _lines(path: Path) -> Iterator[Row]:
    for row, (number, line) in enumerate(numbered_lines(path)):
        label, tab, message = line.rstrip("\r\n").partition("\t")
        yield Row(row, number, message, label) if tab else Row(row, number, problem="a line without a tab after its label")


SMS_SPAM = CorpusEntry(
    name="sms_spam",
    title="the SMS Spam Collection",
    citation="Almeida et al. 2011",
    bibtex="""@inproceedings{almeida2011contributions,
  title = {Contributions to the Study of {SMS} Spam Filtering: New Collection and Results},
  author = {Almeida, Tiago A. and G{\\'o}mez Hidalgo, Jos{\\'e} Mar{\\'i}a and Yamakami, Akebo},
  booktitle = {Proceedings of the ACM Symposium on Document Engineering},
  year = {2011}
}""",
    licence="CC BY 4.0",
    class_names=("ham", "spam"),
    sources=any_layout(split_files({"all": ("SMSSpamCollection*",)}, message_rows, ()), tables(), expected="SMSSpamCollection, or all.csv"),
    homepage="https://archive.ics.uci.edu/dataset/228/sms+spam+collection",
    downloads=(
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00228/smsspamcollection.zip",
            "1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3",
            203_415,
        ),
    ),
    expected={"paper": {"train+dev+test": (4827, 747)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)


_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def question_rows(path: Path) -> Iterator[Row]:
    """Rows of a file of lines ``DESC:manner How did …``, in Latin-1; only the class before the colon counts."""
    row = 0
    for number, line in numbered_lines(path, encoding="latin-1"):
        if not line.strip():
            continue
        label, _, question = line.strip().partition(" ")
        coarse = label.partition(":")[0]
        if coarse in _CLASSES:
            yield Row(row, number, question, str(_CLASSES.index(coarse)))
        else:
            yield Row(row, number, problem=f"class '{coarse[:20]}' where one of {', '.join(_CLASSES)} was expected")
        row += 1


TREC6 = CorpusEntry(
    name="trec6",
    title="the questions of TREC by six kinds of answer",
    citation="Li & Roth 2002",
    bibtex="""@inproceedings{li2002learning,
  title = {Learning Question Classifiers},
  author = {Li, Xin and Roth, Dan},
  booktitle = {Proceedings of COLING},
  year = {2002}
}""",
    licence="not stated",
    class_names=("abbreviation", "description", "entity", "human", "location", "number"),
    sources=any_layout(
        split_files({"train": ("train_5500.label*",), "test": ("TREC_10.label*",)}, question_rows),
        tables(),
        expected="train_5500.label and TREC_10.label, or train.csv and test.csv",
    ),
    homepage="https://cogcomp.seas.upenn.edu/Data/QA/QC/",
    downloads=(
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
            "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
            335_858,
            "train_5500.label",
        ),
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label",
            "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
            23_354,
            "TREC_10.label",
        ),
    ),
    folders=("trec6", "trec"),
    expected={"paper": {"train+dev": (86, 1162, 1250, 1223, 835, 896), "test": (9, 138, 94, 65, 81, 113)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)


def sentence_rows(path: Path, label: str, encoding: str) -> Iterator[Row]:
    """A row for each line that is not empty, all with one label."""
    lines = ((number, line) for number, line in numbered_lines(path, encoding=encoding) if line.strip())
    for row, (number, line) in enumerate(lines):
        yield Row(row, number, line.strip(), label)


MR = CorpusEntry(
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
    downloads=(
        Download(
            "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
            "a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9",
            487_770,
        ),
    ),
    folders=("mr", "rt-polaritydata"),
    expected={"paper": {"train+dev+test": (5331, 5331)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split; its sentences are those of SST",),
)

SUBJ = CorpusEntry(
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
    downloads=(
        Download(
            "http://www.cs.cornell.edu/people/pabo/movie-review-data/rotten_imdb.tar.gz",
        ),
    ),
    folders=("subj", "rotten_imdb"),
    expected={"paper": {"train+dev+test": (5000, 5000)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)
