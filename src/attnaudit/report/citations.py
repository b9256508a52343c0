"""BibTeX of the papers behind the experiments and of the corpora."""

from __future__ import annotations

from collections.abc import Iterable

from attnaudit.experiments import REGISTRY
from attnaudit.published.reference import published_corpus

_ALSO = {"adversary": ("wiegreffe2019",)}  # the caution that goes with the adversary's figure is theirs
_CORPORA = {"sst": "socher2013", "imdb": "maas2011", "agnews": "zhang2015", "20news_sports": "lang1995", "snli": "bowman2015"}

_ENTRIES: dict[str, tuple[str, dict[str, str]]] = {
    "jain2019": ("inproceedings", {
        "title": "Attention is not Explanation", "author": "Jain, Sarthak and Wallace, Byron C.",
        "booktitle": "Proceedings of NAACL-HLT 2019", "pages": "3543--3556", "year": "2019", "doi": "10.18653/v1/N19-1357",
    }),
    "serrano2019": ("inproceedings", {
        "title": "Is Attention Interpretable?", "author": "Serrano, Sofia and Smith, Noah A.", "booktitle": "Proceedings of ACL 2019",
        "pages": "2931--2951", "year": "2019", "doi": "10.18653/v1/P19-1282",
    }),
    "wiegreffe2019": ("inproceedings", {
        "title": "Attention is not not Explanation", "author": "Wiegreffe, Sarah and Pinter, Yuval",
        "booktitle": "Proceedings of EMNLP-IJCNLP 2019", "pages": "11--20", "year": "2019", "doi": "10.18653/v1/D19-1002",
    }),
    "pruthi2020": ("inproceedings", {
        "title": "Learning to Deceive with Attention-Based Explanations",
        "author": "Pruthi, Danish and Gupta, Mansi and Dhingra, Bhuwan and Neubig, Graham and Lipton, Zachary C.",
        "booktitle": "Proceedings of ACL 2020", "pages": "4782--4793", "year": "2020", "doi": "10.18653/v1/2020.acl-main.432",
    }),
    "snell2020": ("misc", {
        "title": "Understanding Attention Training via Output Relevance",
        "author": "Snell, Charlie and Zhong, Ruiqi and Steinhardt, Jacob and Klein, Dan", "year": "2020",
        "howpublished": "Preprint, 16 August 2020",
    }),
    "luong2015": ("inproceedings", {
        "title": "Effective Approaches to Attention-based Neural Machine Translation",
        "author": "Luong, Minh-Thang and Pham, Hieu and Manning, Christopher D.", "booktitle": "Proceedings of EMNLP 2015",
        "pages": "1412--1421", "year": "2015", "doi": "10.18653/v1/D15-1166",
    }),
    "elliott2016": ("inproceedings", {
        "title": "{Multi30K}: Multilingual {English-German} Image Descriptions",
        "author": "Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia",
        "booktitle": "Proceedings of the 5th Workshop on Vision and Language", "pages": "70--74", "year": "2016",
        "doi": "10.18653/v1/W16-3210",
    }),
    "snell2021": ("article", {
        "title": "Approximating How Single Head Attention Learns",
        "author": "Snell, Charlie and Zhong, Ruiqi and Klein, Dan and Steinhardt, Jacob",
        "journal": "arXiv preprint arXiv:2103.07601", "year": "2021",
    }),
    "deyoung2020": ("inproceedings", {
        "title": "{ERASER}: A Benchmark to Evaluate Rationalized {NLP} Models",
        "author": "DeYoung, Jay and Jain, Sarthak and Rajani, Nazneen Fatema and Lehman, Eric and Xiong, Caiming and Socher, Richard "
                  "and Wallace, Byron C.",
        "booktitle": "Proceedings of ACL 2020", "pages": "4443--4458", "year": "2020", "doi": "10.18653/v1/2020.acl-main.408",
    }),
    "socher2013": ("inproceedings", {
        "title": "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank",
        "author": "Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew and "
                  "Potts, Christopher",
        "booktitle": "Proceedings of EMNLP 2013", "pages": "1631--1642", "year": "2013",
    }),
    "maas2011": ("inproceedings", {
        "title": "Learning Word Vectors for Sentiment Analysis",
        "author": "Maas, Andrew L. and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher",
        "booktitle": "Proceedings of ACL 2011", "pages": "142--150", "year": "2011",
    }),
    "zhang2015": ("inproceedings", {
        "title": "Character-level Convolutional Networks for Text Classification",
        "author": "Zhang, Xiang and Zhao, Junbo and LeCun, Yann", "booktitle": "Advances in Neural Information Processing Systems 28",
        "year": "2015",
    }),
    "lang1995": ("inproceedings", {
        "title": "{NewsWeeder}: Learning to Filter Netnews", "author": "Lang, Ken", "booktitle": "Proceedings of ICML 1995",
        "pages": "331--339", "year": "1995",
    }),
    "bowman2015": ("inproceedings", {
        "title": "A large annotated corpus for learning natural language inference",
        "author": "Bowman, Samuel R. and Angeli, Gabor and Potts, Christopher and Manning, Christopher D.",
        "booktitle": "Proceedings of EMNLP 2015", "pages": "632--642", "year": "2015", "doi": "10.18653/v1/D15-1075",
    }),
}  # fmt: skip


def citations(experiments: Iterable[str], corpus: str) -> list[str]:
    """BibTeX entries of the papers whose experiments were run and of the corpus, each once; unknown names have none."""
    keys: dict[str, None] = {}
    for name in experiments:
        paper = REGISTRY[name].paper if name in REGISTRY else ""
        keys.update(dict.fromkeys((paper, *_ALSO.get(name, ()))))
    keys[_CORPORA.get(published_corpus(corpus) or "", "")] = None
    return [bibtex(key) for key in keys if key in _ENTRIES]


def bibtex(key: str) -> str:
    """One entry as BibTeX. Raises KeyError for a key that has none."""
    kind, fields = _ENTRIES[key]
    lines = [f"  {name:<9} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
