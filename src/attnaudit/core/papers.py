"""Papers that several parts of the package cite, with their BibTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attnaudit.core.errors import InputError


@dataclass(frozen=True)
class Paper:
    """A source: ``key`` is its BibTeX key, ``citation`` how a sentence names it (Jain & Wallace 2019), ``bibtex`` the whole entry.

    Raises InputError where ``bibtex`` is no entry of that key.
    """

    key: str
    citation: str
    bibtex: str

    def __post_init__(self) -> None:
        if not re.match(rf"@\w+\{{{re.escape(self.key)},", self.bibtex):
            got = self.bibtex.partition("\n")[0] or "nothing"
            raise InputError("cite", f"paper {self.key}", got, f"BibTeX that begins with @kind{{{self.key},")


JAIN2019 = Paper(
    "jain2019",
    "Jain & Wallace 2019",
    """@inproceedings{jain2019,
  title     = {Attention is not Explanation},
  author    = {Jain, Sarthak and Wallace, Byron C.},
  booktitle = {Proceedings of NAACL-HLT 2019},
  pages     = {3543--3556},
  year      = {2019},
  doi       = {10.18653/v1/N19-1357},
}""",
)

WIEGREFFE2019 = Paper(
    "wiegreffe2019",
    "Wiegreffe & Pinter 2019",
    """@inproceedings{wiegreffe2019,
  title     = {Attention is not not Explanation},
  author    = {Wiegreffe, Sarah and Pinter, Yuval},
  booktitle = {Proceedings of EMNLP-IJCNLP 2019},
  pages     = {11--20},
  year      = {2019},
  doi       = {10.18653/v1/D19-1002},
}""",
)

SERRANO2019 = Paper(
    "serrano2019",
    "Serrano & Smith 2019",
    """@inproceedings{serrano2019,
  title     = {Is Attention Interpretable?},
  author    = {Serrano, Sofia and Smith, Noah A.},
  booktitle = {Proceedings of ACL 2019},
  pages     = {2931--2951},
  year      = {2019},
  doi       = {10.18653/v1/P19-1282},
}""",
)

SNELL2020 = Paper(
    "snell2020",
    "Snell et al. 2020",
    """@misc{snell2020,
  title     = {Understanding Attention Training via Output Relevance},
  author    = {Snell, Charlie and Zhong, Ruiqi and Steinhardt, Jacob and Klein, Dan},
  year      = {2020},
  howpublished = {Preprint, 16 August 2020},
}""",
)

SNELL2021 = Paper(
    "snell2021",
    "Snell et al. 2021",
    """@article{snell2021,
  title     = {Approximating How Single Head Attention Learns},
  author    = {Snell, Charlie and Zhong, Ruiqi and Klein, Dan and Steinhardt, Jacob},
  journal   = {arXiv preprint arXiv:2103.07601},
  year      = {2021},
}""",
)

PRUTHI2020 = Paper(
    "pruthi2020",
    "Pruthi et al. 2020",
    """@inproceedings{pruthi2020,
  title     = {Learning to Deceive with Attention-Based Explanations},
  author    = {Pruthi, Danish and Gupta, Mansi and Dhingra, Bhuwan and Neubig, Graham and Lipton, Zachary C.},
  booktitle = {Proceedings of ACL 2020},
  pages     = {4782--4793},
  year      = {2020},
  doi       = {10.18653/v1/2020.acl-main.432},
}""",
)

LUONG2015 = Paper(
    "luong2015",
    "Luong et al. 2015",
    """@inproceedings{luong2015,
  title     = {Effective Approaches to Attention-based Neural Machine Translation},
  author    = {Luong, Minh-Thang and Pham, Hieu and Manning, Christopher D.},
  booktitle = {Proceedings of EMNLP 2015},
  pages     = {1412--1421},
  year      = {2015},
  doi       = {10.18653/v1/D15-1166},
}""",
)

DEYOUNG2020 = Paper(
    "deyoung2020",
    "DeYoung et al. 2020",
    """@inproceedings{deyoung2020,
  title     = {{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models},
  author    = {DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and Xiong, Caiming and Socher, Richard
               and Wallace, Byron C.},
  booktitle = {Proceedings of ACL 2020},
  pages     = {4443--4458},
  year      = {2020},
  doi       = {10.18653/v1/2020.acl-main.408},
}""",
)
