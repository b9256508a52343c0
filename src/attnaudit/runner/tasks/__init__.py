"""The kinds of models that can be trained: classifiers of texts, translators, and small transformers in studies."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnaudit.runner.tasks.pairs import PAIRS
from attnaudit.runner.tasks.task import Job, Step, Task
from attnaudit.runner.tasks.texts import TEXTS
from attnaudit.runner.tasks.transformers import TRANSFORMERS

__all__ = [
    "PAIRS",
    "TASKS",
    "TEXTS",
    "TRANSFORMERS",
    "Job",
    "Step",
    "Task",
    "task_of",
    "task_of_corpus",
]

TASKS: dict[str, Task] = {task.kind: task for task in (TEXTS, PAIRS, TRANSFORMERS)}
_OF_PAIRS = {
    "corpus.source_ending",
    "corpus.target_ending",
}  # settings that a corpus of pairs alone has


def task_of(spec: Any) -> Task:
    """The task of a specification."""
    return TASKS[spec.kind]


def task_of_corpus(
    source: str | Path, settings: Iterable[str] = (), config: str | None = None
) -> Task:
    """The task of a corpus, by its entry, its files or its ``settings``; with ``config``, the name of a transformer, that of transformers.

    Raises InputError for a name that nothing has.
    """
    from attnaudit.corpora.registry import is_parallel

    if config is not None:
        return TRANSFORMERS
    return PAIRS if _OF_PAIRS.intersection(settings) or is_parallel(str(source)) else TEXTS
