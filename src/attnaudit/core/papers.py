"""The papers that experiments, studies and corpora cite."""

import re
from dataclasses import dataclass
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


JAIN2019 = Paper(
    "jain2019",
    "Jain, Sarthak and Wallace, Byron C.",
    "Attention is not Explanation",
    "Proceedings of NAACL-HLT 2019",
    2019,
    pages="3543--3556",
    doi="10.18653/v1/N19-1357",
)
WIEGREFFE2019 = Paper(
    "wiegreffe2019",
    "Wiegreffe, Sarah and Pinter, Yuval",
    "Attention is not not Explanation",
    "Proceedings of EMNLP-IJCNLP 2019",
    2019,
    pages="11--20",
    doi="10.18653/v1/D19-1002",
)
SERRANO2019 = Paper(
    "serrano2019",
    "Serrano, Sofia and Smith, Noah A.",
    "Is Attention Interpretable?",
    "Proceedings of ACL 2019",
    2019,
    pages="2931--2951",
    doi="10.18653/v1/P19-1282",
)
SNELL2020 = Paper(
    "snell2020",
    "Snell, Charlie and Zhong, Ruiqi and Steinhardt, Jacob and Klein, Dan",
    "Understanding Attention Training via Output Relevance",
    "Preprint, 16 August 2020",
    2020,
    kind="misc",
)
SNELL2021 = Paper(
    "snell2021",
    "Snell, Charlie and Zhong, Ruiqi and Klein, Dan and Steinhardt, Jacob",
    "Approximating How Single Head Attention Learns",
    "arXiv preprint arXiv:2103.07601",
    2021,
    kind="article",
)
PRUTHI2020 = Paper(
    "pruthi2020",
    "Pruthi, Danish and Gupta, Mansi and Dhingra, Bhuwan and Neubig, Graham and Lipton, Zachary C.",
    "Learning to Deceive with Attention-Based Explanations",
    "Proceedings of ACL 2020",
    2020,
    pages="4782--4793",
    doi="10.18653/v1/2020.acl-main.432",
)
LUONG2015 = Paper(
    "luong2015",
    "Luong, Minh-Thang and Pham, Hieu and Manning, Christopher D.",
    "Effective Approaches to Attention-based Neural Machine Translation",
    "Proceedings of EMNLP 2015",
    2015,
    pages="1412--1421",
    doi="10.18653/v1/D15-1166",
)
# BibTeX styles lower the case of titles; braces keep capitals.
DEYOUNG2020 = Paper(
    "deyoung2020",
    "DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and "
    "Xiong, Caiming and Socher, Richard and Wallace, Byron C.",
    "{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models",
    "Proceedings of ACL 2020",
    2020,
    pages="4443--4458",
    doi="10.18653/v1/2020.acl-main.408",
)
KRISHNA2024 = Paper(
    "krishna2024",
    "Krishna, Satyapriya and Han, Tessa and Gu, Alex and Wu, Steven and Jabbari, Shahin and "
    "Lakkaraju, Himabindu",
    "The Disagreement Problem in Explainable Machine Learning: A Practitioner's Perspective",
    "Transactions on Machine Learning Research",
    2024,
    kind="article",
)
ILYAS2022 = Paper(
    "ilyas2022",
    "Ilyas, Andrew and Park, Sung Min and Engstrom, Logan and Leclerc, Guillaume and "
    "Madry, Aleksander",
    "Datamodels: Predicting Predictions from Training Data",
    "Proceedings of ICML",
    2022,
)
COHENWANG2024 = Paper(
    "cohenwang2024",
    "Cohen-Wang, Benjamin and Shah, Harshay and Georgiev, Kristian and Madry, Aleksander",
    "{ContextCite}: Attributing Model Generation to Context",
    "Advances in Neural Information Processing Systems",
    2024,
)
BELLONI2011 = Paper(
    "belloni2011",
    "Belloni, Alexandre and Chernozhukov, Victor and Wang, Lie",
    "Square-Root Lasso: Pivotal Recovery of Sparse Signals via Conic Programming",
    "Biometrika",
    2011,
    kind="article",
    volume="98",
    number="4",
    pages="791--806",
)
NEELY2021 = Paper(
    "neely2021",
    "Neely, Michael and Schouten, Stefan F. and Bleeker, Maurits J. R. and Lucic, Ana",
    "Order in the Court: Explainable {AI} Methods Prone to Disagreement",
    "arXiv preprint arXiv:2105.03287",
    2021,
    kind="article",
)
BRUNNER2020 = Paper(
    "brunner2020",
    "Brunner, Gino and Liu, Yang and Pascual, Damián and Richter, Oliver and "
    "Ciaramita, Massimiliano and Wattenhofer, Roger",
    "On Identifiability in Transformers",
    "International Conference on Learning Representations (ICLR 2020)",
    2020,
)
