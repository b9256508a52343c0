"""Papers that can be reproduced, a file for each, and their published numbers."""

from __future__ import annotations

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.papers import jain2019, pruthi2020, serrano2019, snell2021, wiegreffe2019
from attnaudit.papers.declaration import Cell, Declaration, Table

PAPERS: dict[str, Declaration] = {
    one.DECLARATION.name: one.DECLARATION
    for one in (jain2019, serrano2019, wiegreffe2019, pruthi2020, snell2021)
}

__all__ = ["PAPERS", "Cell", "Declaration", "Table", "declaration"]


def declaration(name: str) -> Declaration:
    """Return the declaration of a paper. Raises InputError for an unknown one."""
    if name not in PAPERS:
        known = f"one of {', '.join(PAPERS)}"
        near = did_you_mean(name, list(PAPERS))
        raise InputError("reproduce", "PAPER", repr(name), known, near)
    return PAPERS[name]
