"""The papers that experiments, studies and corpora cite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError

_VENUES = {"inproceedings": "booktitle", "article": "journal", "misc": "howpublished"}


@dataclass(frozen=True)
class Paper:
    """A source by the fields of its BibTeX entry, with ``authors`` as ``Last, First and Last, First``.

    Raises InputError for a ``key`` that BibTeX cannot read, and without an author, a title or a year.
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
        if not (re.fullmatch(r"[\w:.+-]+", self.key) and self.authors and self.title and self.year and self.kind in _VENUES):
            raise InputError("cite", f"paper {self.key}", repr(self), f"a key, authors, title, year and one of {', '.join(_VENUES)}")

    @property
    def citation(self) -> str:
        """How a sentence names it: Lang 1995, Jain & Wallace 2019, Snell et al. 2020."""
        names = [author.partition(",")[0] for author in self.authors.split(" and ")]
        return f"{' & '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {self.year}"

    @property
    def bibtex(self) -> str:
        """Its BibTeX entry, a field on each line."""
        fields = {
            "title": self.title, "author": self.authors, _VENUES[self.kind]: self.venue, "volume": self.volume, "number": self.number,
            "pages": self.pages, "year": self.year, "doi": self.doi,
        }  # fmt: skip
        return "\n".join([f"@{self.kind}{{{self.key},", *(f"  {name} = {{{value}}}," for name, value in fields.items() if value), "}"])


JAIN2019 = Paper(
    "jain2019", "Jain, Sarthak and Wallace, Byron C.", "Attention is not Explanation",
    "Proceedings of NAACL-HLT 2019", 2019, pages="3543--3556", doi="10.18653/v1/N19-1357",
)  # fmt: skip
WIEGREFFE2019 = Paper(
    "wiegreffe2019", "Wiegreffe, Sarah and Pinter, Yuval", "Attention is not not Explanation",
    "Proceedings of EMNLP-IJCNLP 2019", 2019, pages="11--20", doi="10.18653/v1/D19-1002",
)  # fmt: skip
SERRANO2019 = Paper(
    "serrano2019", "Serrano, Sofia and Smith, Noah A.", "Is Attention Interpretable?",
    "Proceedings of ACL 2019", 2019, pages="2931--2951", doi="10.18653/v1/P19-1282",
)  # fmt: skip
SNELL2020 = Paper(
    "snell2020", "Snell, Charlie and Zhong, Ruiqi and Steinhardt, Jacob and Klein, Dan",
    "Understanding Attention Training via Output Relevance", "Preprint, 16 August 2020", 2020, kind="misc",
)  # fmt: skip
SNELL2021 = Paper(
    "snell2021", "Snell, Charlie and Zhong, Ruiqi and Klein, Dan and Steinhardt, Jacob",
    "Approximating How Single Head Attention Learns", "arXiv preprint arXiv:2103.07601", 2021, kind="article",
)  # fmt: skip
PRUTHI2020 = Paper(
    "pruthi2020", "Pruthi, Danish and Gupta, Mansi and Dhingra, Bhuwan and Neubig, Graham and Lipton, Zachary C.",
    "Learning to Deceive with Attention-Based Explanations",
    "Proceedings of ACL 2020", 2020, pages="4782--4793", doi="10.18653/v1/2020.acl-main.432",
)  # fmt: skip
LUONG2015 = Paper(
    "luong2015", "Luong, Minh-Thang and Pham, Hieu and Manning, Christopher D.",
    "Effective Approaches to Attention-based Neural Machine Translation",
    "Proceedings of EMNLP 2015", 2015, pages="1412--1421", doi="10.18653/v1/D15-1166",
)  # fmt: skip
DEYOUNG2020 = Paper(
    "deyoung2020",
    "DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and Xiong, Caiming and Socher, Richard "
    "and Wallace, Byron C.",
    "{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models",
    "Proceedings of ACL 2020", 2020, pages="4443--4458", doi="10.18653/v1/2020.acl-main.408",
)  # fmt: skip

ALMEIDA2011 = Paper(
    "almeida2011", "Almeida, Tiago A. and G{\\'o}mez Hidalgo, Jos{\\'e} Mar{\\'i}a and Yamakami, Akebo",
    "Contributions to the Study of {SMS} Spam Filtering: New Collection and Results",
    "Proceedings of the ACM Symposium on Document Engineering", 2011,
)  # fmt: skip
BOWMAN2015 = Paper(
    "bowman2015", "Bowman, Samuel R. and Angeli, Gabor and Potts, Christopher and Manning, Christopher D.",
    "A Large Annotated Corpus for Learning Natural Language Inference", "Proceedings of EMNLP", 2015,
)  # fmt: skip
ELLIOTT2016 = Paper(
    "elliott2016", "Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia",
    "Multi30K: Multilingual English-German Image Descriptions", "Proceedings of the 5th Workshop on Vision and Language", 2016,
)  # fmt: skip
HERMANN2015 = Paper(
    "hermann2015",
    "Hermann, Karl Moritz and Kocisky, Tomas and Grefenstette, Edward and Espeholt, Lasse and Kay, Will and Suleyman, Mustafa "
    "and Blunsom, Phil",
    "Teaching Machines to Read and Comprehend", "Advances in Neural Information Processing Systems", 2015,
)  # fmt: skip
JOHNSON2016 = Paper(
    "johnson2016",
    "Johnson, Alistair E. W. and Pollard, Tom J. and Shen, Lu and Lehman, Li-wei H. and Feng, Mengling and Ghassemi, Mohammad "
    "and Moody, Benjamin and Szolovits, Peter and Celi, Leo Anthony and Mark, Roger G.",
    "{MIMIC-III}, a Freely Accessible Critical Care Database", "Scientific Data", 2016, kind="article", volume="3",
)  # fmt: skip
LANG1995 = Paper("lang1995", "Lang, Ken", "NewsWeeder: Learning to Filter Netnews", "Proceedings of ICML", 1995)
LI2002 = Paper("li2002", "Li, Xin and Roth, Dan", "Learning Question Classifiers", "Proceedings of COLING", 2002)
MAAS2011 = Paper(
    "maas2011", "Maas, Andrew L. and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher",
    "Learning Word Vectors for Sentiment Analysis", "Proceedings of ACL", 2011,
)  # fmt: skip
MARELLI2014 = Paper(
    "marelli2014",
    "Marelli, Marco and Menini, Stefano and Baroni, Marco and Bentivogli, Luisa and Bernardi, Raffaella and Zamparelli, Roberto",
    "A {SICK} Cure for the Evaluation of Compositional Distributional Semantic Models", "Proceedings of LREC", 2014,
)  # fmt: skip
NIKFARJAM2015 = Paper(
    "nikfarjam2015", "Nikfarjam, Azadeh and Sarker, Abeed and O'Connor, Karen and Ginn, Rachel and Gonzalez, Graciela",
    "Pharmacovigilance from Social Media: Mining Adverse Drug Reaction Mentions Using Sequence Labeling with Word Embedding Cluster "
    "Features",
    "Journal of the American Medical Informatics Association", 2015, kind="article", volume="22", number="3", pages="671--681",
)  # fmt: skip
PANG2004 = Paper(
    "pang2004", "Pang, Bo and Lee, Lillian",
    "A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization Based on Minimum Cuts", "Proceedings of ACL", 2004,
)  # fmt: skip
PANG2005 = Paper(
    "pang2005", "Pang, Bo and Lee, Lillian",
    "Seeing Stars: Exploiting Class Relationships for Sentiment Categorization with Respect to Rating Scales", "Proceedings of ACL", 2005,
)  # fmt: skip
SOCHER2013 = Paper(
    "socher2013",
    "Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew and Potts, Christopher",
    "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank", "Proceedings of EMNLP", 2013,
)  # fmt: skip
WESTON2015 = Paper(
    "weston2015",
    "Weston, Jason and Bordes, Antoine and Chopra, Sumit and Rush, Alexander M. and van Merri{\\\"e}nboer, Bart and Joulin, Armand "
    "and Mikolov, Tomas",
    "Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks", "arXiv preprint arXiv:1502.05698", 2015, kind="article",
)  # fmt: skip
ZHANG2015 = Paper(
    "zhang2015", "Zhang, Xiang and Zhao, Junbo and LeCun, Yann",
    "Character-level Convolutional Networks for Text Classification", "Advances in Neural Information Processing Systems", 2015,
)  # fmt: skip
