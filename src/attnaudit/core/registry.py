"""Registries of named entries, from this package and from other installed packages."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from attnaudit.core.errors import InputError, require_known

Entry = TypeVar("Entry", bound=Any)  # anything with a name


class Registry(Mapping[str, Entry]):
    """Entries by ``name``, in the order of registration.

    Other installed packages add entries with entry points in the group ``attnaudit.<plural>``, one
    for each entry. They are loaded when the registry is first read.

    Args:
        kind: Word for an entry in error messages.
        plural: Word for several entries.
        check: Function that raises InputError for an invalid entry.
        built_in: Function that returns the first entries, called when they are first read.
    """

    def __init__(
        self,
        kind: str,
        plural: str,
        check: Callable[[Any], None] = lambda entry: None,
        built_in: Callable[[], Iterable[Entry]] = tuple,
    ) -> None:
        self.kind, self.group, self.check = kind, f"attnaudit.{plural}", check
        self.built_in = built_in
        self._entries: dict[str, Entry] = {}
        self._complete = False

    def register(self, entry: Entry) -> Entry:
        """Add ``entry`` and return it. Raises InputError if it is invalid or its name is taken."""
        self.check(entry)
        if self._entries.setdefault(entry.name, entry) is not entry:
            operation = f"register {self.kind}"
            raise InputError(operation, entry.name, "a name that is taken", "another name")
        return entry

    def find(self, name: str, operation: str) -> Entry:
        """Return the entry called ``name``.

        Args:
            name: Name that the user asked for.
            operation: Operation that failed, in the error.

        Raises:
            InputError: If there is no such entry; it lists the known names and suggests a close
                one.
        """
        require_known(operation, self.kind, name, self)
        return self[name]

    def __getitem__(self, name: str) -> Entry:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Entry]:
        if not self._complete:
            # Before the loop: a plugin may read this registry while it is being imported.
            self._complete = True
            early, self._entries = self._entries, {}
            for entry in (*self.built_in(), *early.values()):
                self.register(entry)
            for point in entry_points(group=self.group):
                self.register(point.load())
        return self._entries
