"""Entries by name: this package's own, and those of other installed packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar, runtime_checkable

from attnaudit.core.errors import InputError, did_you_mean


@runtime_checkable
class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)


class Registry(Mapping[str, Entry]):
    """Entries by their ``name``, in the order in which they were registered.

    ``kind`` is the word for an entry in error messages. Installed packages add entries by entry points of ``group``, each of which names
    an entry; they are loaded when the registry is first read. ``check`` raises InputError for what is no entry of this kind.
    """

    def __init__(
        self, kind: str, group: str, check: Callable[[Any], None] = lambda entry: None
    ) -> None:
        self.kind, self.group, self.check = kind, group, check
        self._entries: dict[str, Entry] = {}
        self._complete = False

    def register(self, entry: Entry) -> Entry:
        """Add ``entry`` and return it. Raises InputError where it is no such entry, or its name is taken."""
        self.check(entry)
        if self._entries.setdefault(entry.name, entry) is not entry:
            raise InputError(
                f"register {self.kind}", entry.name, "a name that is taken", "another name"
            )
        return entry

    def find(self, name: str, operation: str) -> Entry:
        """The entry called ``name``. Raises InputError, which names ``operation`` and the known entries."""
        if name not in self:
            raise InputError(
                operation,
                self.kind,
                repr(name),
                f"one of {', '.join(self)}",
                did_you_mean(name, self),
            )
        return self[name]

    def __getitem__(self, name: str) -> Entry:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Entry]:
        if not self._complete:
            self._complete = True
            for point in entry_points(group=self.group):
                self.register(point.load())
        return self._entries
