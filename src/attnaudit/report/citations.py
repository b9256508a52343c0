"""BibTeX of the papers behind the experiments and of the corpora."""

from __future__ import annotations

from collections.abc import Iterable

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.corpora import REGISTRY as CORPORA
from attnaudit.experiments import REGISTRY

_ALSO = {"adversary": (WIEGREFFE2019,)}  # the caution that goes with the adversary's figure is theirs


def citations(experiments: Iterable[str], corpus: str) -> list[str]:
    """BibTeX entries of the papers whose experiments were run and of a registered corpus, each once."""
    papers = [paper for name in experiments if name in REGISTRY for paper in (REGISTRY[name].paper, *_ALSO.get(name, ()))]
    entries = [paper.bibtex for paper in papers] + [CORPORA[name].bibtex for name in [corpus] if name in CORPORA]
    return list(dict.fromkeys(entries))
