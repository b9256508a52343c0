"""The page: whole, self-contained, and every text in it inert."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from attnaudit.core import AttnauditError, RunError, read_json, write_json
from attnaudit.core.ragged import Ragged
from attnaudit.report.run_page import write_report
from attnaudit.report.sections.numbers import MOST_COLUMNS, Number, SummaryCell, tables_of
from attnaudit.trace import Trace
from tests.report.runs import write_run
from tests.report.test_heads import statements
from tests.traces import make_trace

EVIL = "</script><script>alert(1)</script>"
VOID = {"meta", "link", "input", "br", "img", "rect", "line", "path", "hr", "circle"}


class Page(HTMLParser):
    """Elements, attributes that could fetch something, scripts, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[list[str]] = []
        self.data_scripts: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([])
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data", "srcset"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.ids.append(value or "")
                if tag == "script":
                    self.data_scripts[value or ""] = self.scripts[-1]

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1].append(data)
        elif "style" not in self.open:
            self.text += data

    def data(self):
        return json.loads("".join(self.data_scripts["instance-data"]))


def _page(path):
    text = path.read_text()
    return text, Page(text)


TRACE = make_trace(60, (1, 40))
ONE = ["permutation"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of all experiments on `TRACE`."""
    return write_report(write_run(tmp_path_factory.mktemp("run"), TRACE))


@pytest.mark.slow
def test_a_page_is_balanced_has_one_of_each_id_and_fetches_nothing(report):
    text, page = _page(report)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert page.handlers == []
    assert "url(http" not in text
    assert "@import" not in text
    assert all(
        f"#{section}" in page.links
        for section in (
            "verdict",
            "figures",
            "heatmaps",
            "instances",
            "comparison",
            "numbers",
            "run",
        )
    )
    assert "2 rows skipped: empty text" in text
    assert "@inproceedings{jain2019," in text


@pytest.mark.slow
def test_the_same_run_gives_the_same_page(report, tmp_path):
    assert write_report(write_run(tmp_path, TRACE)).read_text() == report.read_text()


def evil_trace():
    trace = make_trace(12, [5] * 12, class_names=[EVIL, "<b onclick=alert(2)>"])
    tokens = [
        [EVIL, '"><img src=x onerror=alert(3)>', "{{ 7*7 }}", "--></style>", "&amp;\u2028"]
    ] * len(trace)
    return Trace.from_arrays(
        activation="sigmoid", class_names=trace.class_names, instance=trace.instance, tokens=tokens, alpha=trace.ragged("alpha"),
        metadata={"corpus": {"name": EVIL, "notes": [EVIL]}, "model": {"encoder": EVIL}}, readout=trace.ragged("readout"),
        offset=trace.array("offset"), prediction=trace.array("prediction"), label=trace.array("label").tolist(),
        gradient=trace.ragged("gradient"), loo=trace.ragged("loo"),
    )  # fmt: skip


@pytest.mark.slow
def test_no_text_of_the_input_becomes_markup(tmp_path):
    folder = write_run(tmp_path, evil_trace(), corpus=EVIL)
    text, page = _page(write_report(folder))
    assert EVIL not in text
    assert page.open == []
    assert page.tags.count("script") == 4
    assert "img" not in page.tags
    assert page.handlers == []
    assert "{{ 7*7 }}" in text
    data = page.data()
    assert data[0]["tokens"][0] == EVIL


@pytest.mark.slow
def test_no_control_character_of_the_input_is_on_the_page(tmp_path):
    """Labels, tokens and names that would hide or turn round what follows them; data of scripts stay what they are."""
    hostile = "\x1b[31mre\u202ed\x00\x9b"
    trace = make_trace(12, [5] * 12, class_names=[hostile, "b"])
    folder = write_run(tmp_path, trace, corpus=hostile)
    text, page = _page(write_report(folder))
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert r"\u001b[31mre\u202ed\u0000\u009b" in text
    assert not re.search("[\\u202e\\x1b]", json.dumps(page.data(), ensure_ascii=False))


@pytest.mark.slow
def test_the_policy_lets_only_the_page_s_own_script_run(report):
    text, page = _page(report)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "script-src 'sha256-" in policy[1]
    assert len(page.scripts) == 4


KINDS = {
    "one position": make_trace(1, [1]),
    "all of one position": make_trace(3, [1, 1, 1]),
    "one row": make_trace(1, [30], class_names=["only", "other"]),
    "four classes": make_trace(10, (1, 12), outputs=4),
    "nine classes": make_trace(8, (2, 9), outputs=9, candidates=True),
    "bare": make_trace(
        10, (2, 9), gradient=False, loo=False, rationale=False, label=False, split=None
    ),
    "tail": make_trace(8, (2, 9), outputs=3, hidden=4),
    "long": make_trace(2, [300, 350]),
    "zeros": make_trace(10, (2, 9), zeros=0.7),
}
SLOW = ("all of one position", "four classes", "nine classes", "tail", "zeros")


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in KINDS]
)
def test_every_kind_of_trace_has_a_page(tmp_path, kind):
    trace = KINDS[kind]
    text, page = _page(write_report(write_run(tmp_path, trace, corpus="mine")))
    assert page.open == []
    assert len(page.data()) == len(trace)
    assert "None" not in re.sub(r"<style>.*?</style>|<script.*?</script>", "", text, flags=re.S)
    assert 'id="comparison"' not in text


def test_one_predicted_class_and_a_very_long_token(tmp_path):
    alpha = Ragged.from_rows([[0.5, 0.5], [1.0]], np.float32)
    trace = Trace.from_arrays(
        activation="sigmoid", class_names=["no", "yes"], instance=[0, 1], tokens=[["x" * 200_000, ""], ["\n"]], alpha=alpha,
        readout=alpha.with_values(np.zeros((3, 1), np.float32)), offset=np.zeros((2, 1), np.float32),
        prediction=np.full((2, 1), 0.5, np.float32),
    )  # fmt: skip
    path = write_report(write_run(tmp_path, trace, corpus="mine"))
    assert path.stat().st_size < 400_000
    assert "(200000 characters)" in path.read_text()


def test_a_page_of_sentences_says_so(tmp_path):
    folder = write_run(tmp_path, make_trace(8, (2, 5)), experiments=ONE)
    spec = read_json(folder / "spec.json")
    write_json(folder / "spec.json", {**spec, "model": {**spec["model"], "hierarchical": True}})
    assert "each is a token of this page" in write_report(folder).read_text()


def test_a_sample_of_the_instances_is_said_to_be_one(tmp_path):
    text, page = _page(write_report(write_run(tmp_path, make_trace(620, (1, 6)), experiments=ONE)))
    assert len(page.data()) == 500
    assert "A sample of 500 texts of 620" in text
    assert re.findall(r"\binstances?\b", statements(text), re.IGNORECASE) == []


@pytest.mark.slow
def test_experiments_without_a_result_are_named_with_the_reason(tmp_path):
    bare = write_run(tmp_path / "bare", make_trace(9, gradient=False, loo=False))
    assert "the trace has no column gradient, loo" in write_report(bare).read_text()
    some = write_run(tmp_path / "some", make_trace(9), experiments=ONE)
    assert "<b>adversary</b>: it was not asked for" in write_report(some).read_text()


def test_a_folder_without_a_trace_says_so_and_a_trace_elsewhere_is_read(tmp_path):
    trace = make_trace(8)
    folder = write_run(tmp_path / "run", trace, experiments=ONE, with_trace=False)
    assert "This folder has no trace" in write_report(folder).read_text()
    trace.write(tmp_path / "elsewhere")
    assert 'id="instances"' in write_report(folder, tmp_path / "elsewhere").read_text()
    assert 'id="instances"' in write_report(folder, trace).read_text()


@pytest.mark.slow
def test_what_cannot_be_read_is_told_in_one_line(tmp_path):
    with pytest.raises(RunError, match=r"summary\.json"):
        write_report(tmp_path)
    folder = write_run(tmp_path / "run", make_trace(8))
    with pytest.raises(AttnauditError, match="trace and results"):
        write_report(folder, make_trace(9))
    (folder / "results/adversary.parquet").write_bytes(b"no parquet")
    with pytest.raises(RunError, match=r"adversary\.parquet") as refusal:
        write_report(folder)
    assert "\n" not in str(refusal.value)
    (folder / "results").rename(tmp_path / "moved")
    with pytest.raises(RunError, match="no such folder"):
        write_report(folder)
    write_json(folder / "summary.json", {"not": "rows"})
    with pytest.raises(RunError, match="a list of rows"):
        write_report(folder)


@pytest.mark.parametrize("columns", [1, MOST_COLUMNS, 25])
def test_a_table_of_many_groups_is_in_parts_that_hold_every_cell_once(columns):
    names = [f"group {k}" for k in range(columns)]
    cells = [SummaryCell(str(k)) for k in range(columns)]
    numbers = [Number("tau", ("tau", "τ"), *one) for one in zip(names, cells, strict=True)]
    found = list(tables_of(numbers))
    assert max(len(table.columns) for table in found) <= MOST_COLUMNS
    assert [name for table in found for name in table.columns] == names
    assert [cell for table in found for cell in table.rows[0][2]] == cells
