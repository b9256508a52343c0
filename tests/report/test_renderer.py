"""A renderer that crashes, never ends or may have no memory takes one drawing with it and no results."""

import altair as alt
import polars as pl
import pytest

from attnaudit.core import elsewhere
from attnaudit.report.charts.svg import drawn
from tests.forked import printed

CHART = alt.Chart(pl.DataFrame({"a": [1.5, 2.5]})).mark_bar().encode(x="a:Q")


def draw():
    return drawn("title", CHART, "made", "label", "A note.")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("os.abort()", "crashed"),
        ("os._exit(0)", "crashed"),
        ("while True: pass", "took more than 1 s"),
        ("import time; time.sleep(60)", "took more than 1 s"),
        ("raise ValueError('no such mark')", "no such mark"),
    ],
)
def test_a_chart_whose_renderer_fails_is_its_numbers_and_the_next_is_drawn(
    fault, said, tmp_path, monkeypatch
):
    """A planted module fails in place of vl-convert, as its native code would: in the process."""
    (tmp_path / "vl_convert.py").write_text(f"import os\ndef vegalite_to_svg(spec):\n    {fault}\n")
    elsewhere.stop()
    with monkeypatch.context() as planted:
        planted.setenv("PYTHONPATH", str(tmp_path))
        planted.setattr(elsewhere, "PATIENCE", 1)
        panel = draw()
    assert (panel.svg, "could not be drawn" in panel.note, said in panel.note) == ("", True, True)
    assert panel.note.startswith("A note. ")
    assert "2.5" in panel.numbers
    elsewhere.stop()
    assert draw().svg


def test_an_address_space_that_is_too_small_for_a_renderer_is_said():
    program = """
import resource
from tests.report.test_renderer import draw
resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000,) * 2)
print(draw().note)
"""
    assert "ulimit -v" in printed(program)
