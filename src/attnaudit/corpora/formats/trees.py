"""Labelled trees written as nested brackets: ``(3 (2 The) (4 (3 gorgeous) (2 film)))``."""

from __future__ import annotations

import re

_PIECE = re.compile(r"[()]|[^() \t\r\n]+")  # other white space, such as a no-break space, may stand inside a word
_LABELS = frozenset("01234")


class BadTree(ValueError):
    """A line that is not a tree; the message quotes it."""


def read_tree(line: str) -> tuple[str, list[str]]:
    """The label of the root and the words at the leaves, from left to right. Raises BadTree."""
    words: list[str] = []
    open_nodes: list[int] = []  # for each bracket still open, how many pieces it has had
    root, closed = "", False
    for piece in _PIECE.findall(line):
        if closed:
            raise BadTree(f"'{piece}' after the end of the tree")
        if piece == "(":
            _begin(open_nodes)
        elif piece == ")":
            _end(open_nodes)
            closed = not open_nodes
        elif not open_nodes:
            raise BadTree(f"'{piece}' before the first bracket")
        elif open_nodes[-1] == 0:
            label = _label(piece)
            root = root or label
            open_nodes[-1] = 1
        else:
            words.append(piece)
            open_nodes[-1] += 1
    if not closed:
        raise BadTree(f"a tree with {len(open_nodes)} bracket(s) not closed")
    return root, words


def _begin(open_nodes: list[int]) -> None:
    if open_nodes:
        if open_nodes[-1] == 0:
            raise BadTree("a bracket where a label from 0 to 4 was expected")
        open_nodes[-1] += 1
    open_nodes.append(0)


def _end(open_nodes: list[int]) -> None:
    if not open_nodes:
        raise BadTree("a closing bracket that nothing opened")
    if open_nodes.pop() < 2:
        raise BadTree("a node without a word")


def _label(piece: str) -> str:
    if piece not in _LABELS:
        raise BadTree(f"label '{piece}' where 0 to 4 was expected")
    return piece
