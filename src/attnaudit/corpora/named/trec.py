"""TREC: what kind of thing a question asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnaudit.corpora.formats.layouts import any_layout, split_files, tables
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import Row
from attnaudit.corpora.named.registered import Registered

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


TREC6 = Registered(
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
    folders=("trec6", "trec"),
    expected={"paper": {"train+dev": (86, 1162, 1250, 1223, 835, 896), "test": (9, 138, 94, 65, 81, 113)}},
    differs=("not among the corpora of Jain & Wallace 2019",),
)
