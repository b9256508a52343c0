"""The corpus that was read last: all that follow and ask for the same are given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.files import content_key
from attnaudit.core.progress import Progress
from attnaudit.recipes.kind import corpus_seed
from attnaudit.recipes.kinds import kind_of

Read = Callable[[Any, Progress], Any]  # the corpus of a specification
# Settings of a corpus: the first is given apart, the second is of what was read.
_AFTER_READING = ("seed", "removed")


@dataclass
class LastCorpus:
    """Reads the corpora of specifications; one is in memory at a time, or why it is not."""

    key: str = ""
    found: Any = None

    def __call__(self, spec: Any, progress: Progress) -> Any:
        """Return the corpus of ``spec``. Raises InputError."""
        plain = spec.to_json()["corpus"].items()
        how = {name: value for name, value in plain if name not in _AFTER_READING}
        key = content_key(spec.kind, how, corpus_seed(spec), getattr(spec, "preset", None))
        if key != self.key:
            self.key, self.found = "", None  # free before the next is read
            try:
                self.found = kind_of(spec).read(spec, progress)
            except InputError as error:
                self.found = error
            self.key = key
        if isinstance(self.found, InputError):
            raise self.found
        return self.found
