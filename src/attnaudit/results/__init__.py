"""Results of experiments: tables, and summaries with intervals."""

from attnaudit.results.about import About
from attnaudit.results.estimates import (
    SUMMARY_SCHEMA,
    summarise_means,
    summarise_ratio,
    summary_row,
)
from attnaudit.results.groups import OF_HEAD, Group, by_group, text_number
from attnaudit.results.measures import SCORES, SIGNED, Measure, measure_of
from attnaudit.results.record import RunRecord, read_record, read_summary
from attnaudit.results.summary import ROW, TEXT, Head, Heads, Row, SummaryRows
from attnaudit.results.table import Result, Results, counted, read_table, table_file

__all__ = [
    "OF_HEAD",
    "ROW",
    "SCORES",
    "SIGNED",
    "SUMMARY_SCHEMA",
    "TEXT",
    "About",
    "Group",
    "Head",
    "Heads",
    "Measure",
    "Result",
    "Results",
    "Row",
    "RunRecord",
    "SummaryRows",
    "by_group",
    "counted",
    "measure_of",
    "read_record",
    "read_summary",
    "read_table",
    "summarise_means",
    "summarise_ratio",
    "summary_row",
    "table_file",
    "text_number",
]
