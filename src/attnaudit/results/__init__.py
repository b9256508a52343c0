"""Results of experiments: tables, and summaries with intervals."""

from attnaudit.results.estimates import (
    SUMMARY_SCHEMA,
    summarise_means,
    summarise_ratio,
    summary_row,
)
from attnaudit.results.groups import OF_HEAD, Group
from attnaudit.results.table import Result, Results, counted, read_table

__all__ = [
    "OF_HEAD",
    "SUMMARY_SCHEMA",
    "Group",
    "Result",
    "Results",
    "counted",
    "read_table",
    "summarise_means",
    "summarise_ratio",
    "summary_row",
]
