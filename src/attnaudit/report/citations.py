"""BibTeX of the papers behind the experiments and of the corpora."""

from __future__ import annotations

from collections.abc import Iterable

from attnaudit.corpora import REGISTRY as CORPORA
from attnaudit.experiments import facts


def citations(experiments: Iterable[str], corpus: str) -> list[str]:
    """BibTeX entries of the papers of the experiments that were run and of a registered corpus, each once."""
    entries = [paper.bibtex for name in experiments for paper in facts(name).papers]
    entries += [CORPORA[corpus].bibtex] if corpus in CORPORA else []
    return list(dict.fromkeys(entries))
