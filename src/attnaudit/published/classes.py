"""Which of our class names is which of theirs."""

from __future__ import annotations

from collections.abc import Sequence


def match_classes(published: Sequence[str], ours: Sequence[str]) -> tuple[dict[str, str], str]:
    """Our class name for each of their class indexes (as text), and a note where the match is by order and not by name.

    A name matches when one begins with the other (``neg`` and ``negative``). Names that do not match all, or classes that the
    published tables only number, are matched by the order of the model's outputs.
    """
    if not ours:
        return {str(k): name for k, name in enumerate(published)}, ""
    named = {str(k): [name for name in ours if _same(name, theirs)] for k, theirs in enumerate(published)}
    if len(named) == len(ours) and all(len(found) == 1 for found in named.values()):
        return {index: found[0] for index, found in named.items()}, ""
    pairs = ", ".join(f"{k} = {name}" for k, name in enumerate(ours))
    return {str(k): name for k, name in enumerate(ours)}, f"their classes are matched with ours by order: {pairs}"


def _same(ours: str, theirs: str) -> bool:
    a, b = ours.strip().lower(), theirs.strip().lower()
    return len(min(a, b, key=len)) > 1 and (a.startswith(b) or b.startswith(a))
