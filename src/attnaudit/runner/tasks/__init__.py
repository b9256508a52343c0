"""The kinds of models that can be run: classifiers of texts, and translators."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnaudit.runner.tasks.pairs import PAIRS
from attnaudit.runner.tasks.task import Job, Step, Task
from attnaudit.runner.tasks.texts import TEXTS

__all__ = ["PAIRS", "TASKS", "TEXTS", "Job", "Step", "Task", "task_of", "task_of_corpus"]

TASKS: dict[str, Task] = {task.kind: task for task in (TEXTS, PAIRS)}
_OF_PAIRS = {"corpus.source_ending", "corpus.target_ending"}  # settings that a corpus of pairs alone has


def task_of(spec: Any) -> Task:
    """The task of a specification."""
    return TASKS[spec.kind]


def task_of_corpus(source: str | Path, settings: Iterable[str] = ()) -> Task:
    """The task of a corpus, by its entry, its files or its ``settings``. Raises InputError for a name that nothing has."""
    from attnaudit.corpora.registry import is_parallel

    return PAIRS if _OF_PAIRS.intersection(settings) or is_parallel(str(source)) else TEXTS
