"""Names with characters that no chart can show are written as escapes; a page is made of any names."""

import altair as alt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnaudit
from attnaudit.report.charts.svg import drawn
from attnaudit.trace import Trace
from tests.traces import make_trace

WRONG = ["\x00", "\x0b", "\x1f", "\x85", "\u2028", "\u2029", "\ufdd0", "\ufffe", "\uffff", "\U0001ffff"]  # fmt: skip


@given(st.lists(st.text(), min_size=3, max_size=3))
@settings(max_examples=20, deadline=None)
def test_a_chart_is_drawn_of_any_names(names):
    names = [*(name.encode("utf-8", "replace").decode() for name in names), *WRONG]
    table = pl.DataFrame({"class": [f"sport{name}s" for name in names], "value": 0.5})
    chart = alt.Chart(table).mark_bar().encode(x="value:Q", y="class:N", color="class:N")
    panel = drawn("title", chart, "made", "label")
    assert panel.svg or "could not be drawn" in panel.note
    assert not any(wrong in panel.svg + panel.numbers for wrong in WRONG)
    assert "sport\\u000bs" in panel.numbers


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["\x0b", "\ufffe"])
def test_a_page_is_written_of_classes_with_such_names(wrong, tmp_path):
    trace = make_trace(30, outputs=3)
    metadata = {**trace.metadata, "class_names": [f"a{wrong}", f"b{wrong}c", wrong]}
    results = attnaudit.audit(Trace(trace.table, metadata, trace.tail), ["correlation"])
    attnaudit.write_report(results.save(tmp_path / "run"), trace)
    assert wrong not in (tmp_path / "run/report.html").read_text()
