"""The papers that experiments, studies and corpora cite."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnaudit.core.errors import InputError

_VENUES = {"inproceedings": "booktitle", "article": "journal", "misc": "howpublished"}


@dataclass(frozen=True)
class Paper:
    """A cited paper, as the fields of its BibTeX entry.

    ``authors`` has the form ``Last, First and Last, First``.

    Raises:
        InputError: If BibTeX cannot read ``key``, or authors, title or year are missing.
    """

    key: str
    authors: str
    title: str
    venue: str
    year: int
    kind: Literal["inproceedings", "article", "misc"] = "inproceedings"
    volume: str = ""
    number: str = ""
    pages: str = ""
    doi: str = ""

    def __post_init__(self) -> None:
        is_complete = self.authors and self.title and self.year and self.kind in _VENUES
        if not (is_complete and re.fullmatch(r"[\w:.+-]+", self.key)):
            expected = f"a key, authors, title, year and one of {', '.join(_VENUES)}"
            raise InputError("cite", f"paper {self.key}", repr(self), expected)

    @property
    def citation(self) -> str:
        """Citation for running text: Lang 1995, Jain & Wallace 2019, Snell et al. 2020."""
        names = [author.partition(",")[0] for author in self.authors.split(" and ")]
        return f"{' & '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {self.year}"

    @property
    def bibtex(self) -> str:
        """BibTeX entry with one field per line."""
        fields = {
            "title": self.title,
            "author": self.authors,
            _VENUES[self.kind]: self.venue,
            "volume": self.volume,
            "number": self.number,
            "pages": self.pages,
            "year": self.year,
            "doi": self.doi,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


_PAPERS = {
    key: Paper(key, **about)
    for key, about in tomllib.loads(
        Path(__file__).with_name("papers.toml").read_text(encoding="utf-8")
    ).items()
}
JAIN2019 = _PAPERS["jain2019"]
WIEGREFFE2019 = _PAPERS["wiegreffe2019"]
SERRANO2019 = _PAPERS["serrano2019"]
SNELL2020 = _PAPERS["snell2020"]
SNELL2021 = _PAPERS["snell2021"]
PRUTHI2020 = _PAPERS["pruthi2020"]
LUONG2015 = _PAPERS["luong2015"]
DEYOUNG2020 = _PAPERS["deyoung2020"]
KRISHNA2024 = _PAPERS["krishna2024"]
ILYAS2022 = _PAPERS["ilyas2022"]
COHENWANG2024 = _PAPERS["cohenwang2024"]
BELLONI2011 = _PAPERS["belloni2011"]
NEELY2021 = _PAPERS["neely2021"]
BRUNNER2020 = _PAPERS["brunner2020"]
