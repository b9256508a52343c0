"""Results: the tidy table of an experiment and its summary with intervals."""

from __future__ import annotations

from attnaudit.results.groups import CLUSTER, OF_HEAD
from attnaudit.results.table import (
    SUMMARY_SCHEMA,
    Result,
    Results,
    counted,
    of_large,
    read_table,
    summarise_means,
    summarise_ratios,
    summary_row,
)

__all__ = [
    "CLUSTER",
    "OF_HEAD",
    "SUMMARY_SCHEMA",
    "Result",
    "Results",
    "counted",
    "of_large",
    "read_table",
    "summarise_means",
    "summarise_ratios",
    "summary_row",
]
