"""The SMS Spam Collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnaudit.corpora.formats.layouts import any_layout, renamed, split_files, tables
from attnaudit.corpora.formats.lines import numbered_lines
from attnaudit.corpora.formats.rows import Row
from attnaudit.corpora.named.registered import Registered


def message_rows(path: Path) -> Iterator[Row]:
    """Rows of a file of lines ``ham <tab> message``, without header."""
    return renamed(_lines(path), {"ham": "0", "spam": "1"})


def _lines(path: Path) -> Iterator[Row]:
    for row, (number, line) in enumerate(numbered_lines(path)):
        label, tab, message = line.rstrip("\r\n").partition("\t")
        yield Row(row, number, message, label) if tab else Row(row, number, problem="a line without a tab after its label")


SMS_SPAM = Registered(
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
    expected={"paper": {"train+dev+test": (4827, 747)}},
    differs=("not among the corpora of Jain & Wallace 2019; no published split",),
)
