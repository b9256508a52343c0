"""Papers that can be reproduced, a file of data for each, and their published numbers."""

from attnaudit.core import require_known
from attnaudit.core.papers import JAIN2019, PRUTHI2020, SERRANO2019, SNELL2021, WIEGREFFE2019
from attnaudit.papers.declaration import Cell, Declaration, Table

PAPERS: dict[str, Declaration] = {
    paper.key: Declaration.read(paper)
    for paper in (JAIN2019, SERRANO2019, WIEGREFFE2019, PRUTHI2020, SNELL2021)
}

__all__ = ["PAPERS", "Cell", "Declaration", "Table", "declaration"]


def declaration(name: str) -> Declaration:
    """Return the declaration of a paper. Raises InputError for an unknown one."""
    require_known("reproduce", "PAPER", name, PAPERS)
    return PAPERS[name]
