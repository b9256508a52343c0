"""The kinds of models that can be trained."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnaudit.corpora.registry import is_parallel
from attnaudit.recipes.classifier import CLASSIFIERS
from attnaudit.recipes.kind import Kind
from attnaudit.recipes.small_transformer import SMALL_TRANSFORMERS
from attnaudit.recipes.translator import TRANSLATORS

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (CLASSIFIERS, TRANSLATORS, SMALL_TRANSFORMERS)
}
# Settings that a corpus of pairs alone has.
_OF_PAIRS = {"corpus.source_ending", "corpus.target_ending"}


def kind_of(spec: Any) -> Kind:
    """Return the kind of model of a specification."""
    return KINDS[spec.kind]


def kind_of_corpus(
    source: str | Path, settings: Iterable[str] = (), config: str | None = None
) -> Kind:
    """Return the kind of model for a corpus.

    Args:
        source: Registered name, file or folder.
        settings: Dotted settings that are given.
        config: Name of a small transformer; None for another model.

    Raises:
        InputError: For a name that nothing has.
    """
    if config is not None:
        return SMALL_TRANSFORMERS
    return (
        TRANSLATORS if _OF_PAIRS.intersection(settings) or is_parallel(str(source)) else CLASSIFIERS
    )
