"""What a notebook shows of traces and results: fragments that load nothing, run nothing, and keep their style to themselves."""

import pickle
import re
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from attnaudit.core import InputError, display
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.trace import Trace, list_column
from tests.report.test_page import EVIL, evil_trace
from tests.traces import make_trace


@pytest.fixture(scope="module")
def trace():
    return make_trace(24, (3, 12), seed=2)


@pytest.fixture(scope="module")
def results(trace):
    return audit(trace, ["prediction", "permutation", "adversary"])


@pytest.fixture(scope="module")
def fragments(trace, results):
    return {
        "trace": trace._repr_html_(), "results": results._repr_html_(), "result": results["permutation"]._repr_html_(),
        "figure": results.figure("adversary").html, "heatmap": trace.heatmap(3, results).html,
    }  # fmt: skip


class Tags(HTMLParser):
    """The tags of a fragment, and those that are open."""

    def __init__(self, html):
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_fragments_load_nothing_and_run_nothing(fragments):
    for html in fragments.values():
        tags = Tags(html).seen
        assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in tags}
        assert not [
            name
            for _, given in tags
            for name in given
            if name.startswith("on") or name in ("src", "href")
        ]
        assert not re.search(r"url\((?!#)|@import", html)


def test_what_is_shown(fragments):
    assert fragments["trace"].count('class="aa-tokens"') == 6
    assert "24 rows" in fragments["trace"]
    assert "How different can attention be with nearly the same output?" in fragments["results"]
    assert "<svg" in fragments["result"]
    assert "median Δŷ under shuffling" in fragments["result"]
    assert "<svg" in fragments["figure"]
    assert all(
        caption in fragments["heatmap"]
        for caption in ("attention α", "Adversarial attention", "Gradient", "Leave-one-out")
    )


def test_ids_of_drawings_are_their_own(results):
    other = audit(make_trace(12, (3, 9), seed=5), ["permutation"])
    ids = [re.findall(r'\bid="([^"]+)"', of.figure("permutation").html) for of in (results, other)]
    assert all(ids)
    assert not set(ids[0]) & set(ids[1])
    html = results.figure("permutation").html
    assert set(re.findall(r"url\(#([^)]+)\)", html)) | set(
        re.findall(r'aria-labelledby="([^"]+)"', html)
    ) <= set(ids[0])


def test_hostile_texts_are_escaped():
    trace = evil_trace()
    instance = int(trace.instance[0])
    results = audit(trace, ["prediction", "permutation"])
    for html in (
        trace._repr_html_(),
        results._repr_html_(),
        results["permutation"]._repr_html_(),
        trace.heatmap(instance).html,
    ):
        assert EVIL not in html
        assert not {"script", "img"} & {tag for tag, _ in Tags(html).seen}
    assert "\x1b" not in repr(trace.heatmap(instance))


def test_a_long_token_and_other_directions_keep_their_place():
    alpha = np.array([0.25, 0.75])
    trace = Trace.from_arrays(
        activation="sigmoid", class_names=["a", "b"], instance=[5], tokens=[["x" * 10_000, "\u202eشالوم"]], alpha=[alpha],
        readout=[np.zeros((2, 1))], offset=np.zeros((1, 1)), prediction=np.full((1, 1), 0.5),
    )  # fmt: skip
    shown = trace.heatmap(5)
    assert len(shown.html) < 6000
    assert "(10000 characters)" in shown.html
    assert "unicode-bidi: plaintext" in shown.html  # each token in its own direction
    assert "\u202e" not in repr(shown)
    trace.metadata["corpus"] = {"name": "\x1b[31m\u202e"}
    assert not {"\x1b", "\u202e"} & set(repr(trace))


def test_a_terminal_has_plain_text(trace, results):
    assert "Heatmap of text 3" in repr(trace.heatmap(3))
    assert "adversary.emax_jsd = " in repr(results.figure("adversary"))


def test_a_million_rows_show_the_first_at_once():
    rows = 1_000_000
    halves = Ragged.from_lengths(np.full(2 * rows, 0.5, np.float32), np.full(rows, 2))
    table = pl.DataFrame({
        "instance": np.arange(rows),
        "alpha": list_column("alpha", halves),
        "prediction": np.full((rows, 1), 0.5, np.float32),
    }).with_columns(tokens=pl.concat_list(pl.lit("some"), pl.lit("words")))  # fmt: skip
    trace = Trace(table, {"activation": "sigmoid", "tail": "identity", "class_names": ["a", "b"]})
    start = time.process_time()
    html = trace._repr_html_()
    assert time.process_time() - start < 1
    assert "1,000,000 rows" in html
    assert html.count('class="aa-tokens"') == 6


def test_bad_arguments_are_named(trace, results):
    with pytest.raises(
        InputError,
        match="results: other texts than those of the trace; expected results of this trace",
    ):
        trace.heatmap(3, audit(make_trace(12, (3, 9)), ["permutation"]))
    with pytest.raises(
        InputError,
        match=r"experiment 'adversry': no such result; expected one of .*; did you mean adversary\?",
    ):
        results.figure("adversry")
    with pytest.raises(InputError, match="the trace has no column"):
        audit(make_trace(8, (2, 4), loo=False)).figure("correlation")


def test_show_is_the_card_in_a_notebook_and_in_a_terminal(results, monkeypatch, capsys):
    results.show()
    assert "VERDICT" in capsys.readouterr().out
    shown: list[object] = []
    monkeypatch.setattr("attnaudit.results.table.in_notebook", lambda: True)
    monkeypatch.setattr("attnaudit.results.table.show", shown.append)
    results.show()
    assert shown == [results]
    assert not display.in_notebook()


def test_the_notebooks_style_and_the_fragments_leave_each_other_alone(context, fragments):
    host = "<p id=p>text</p><table id=t class=table><tr><td id=c>1</td></tr></table><div class=card id=k>card</div>"
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    measure = """() => [...document.querySelectorAll('#p, #t, #c, #k')].map(e => { const s = getComputedStyle(e);
        return [s.color, s.font, s.padding, s.margin, s.border, s.backgroundColor, e.getBoundingClientRect().height] })"""
    page.set_content(f"<body style='background:#111;color:rgb(221, 222, 223)'>{host}</body>")
    before = page.evaluate(measure)
    page.set_content(
        f"<body style='background:#111;color:rgb(221, 222, 223)'>{host}{''.join(fragments.values())}</body>"
    )
    assert page.evaluate(measure) == before
    colours = page.evaluate(
        "() => [...document.querySelectorAll('.aa-title, .aa-table td')].map(e => getComputedStyle(e).color)"
    )
    assert set(colours) == {"rgb(221, 222, 223)"}
    assert (
        page.evaluate(
            "() => getComputedStyle(document.querySelector('.attnaudit-shown')).backgroundColor"
        )
        == "rgba(0, 0, 0, 0)"
    )
    assert asked == []


def test_a_playground_has_a_frame_of_its_own(trace, results):
    shown = trace.playground(3, results)
    frames = [given for tag, given in Tags(shown.html).seen if tag == "iframe"]
    assert len(frames) == 1
    assert "allow-same-origin" not in (frames[0]["sandbox"] or "")
    assert "Playground of text 3" in shown.html


@pytest.mark.parametrize("instance", [99, -1, "5", [1, 2]])
def test_an_instance_that_is_not_there_is_one_line(trace, instance):
    for show in (trace.heatmap, trace.playground):
        with pytest.raises(InputError, match="no row of the trace") as raised:
            show(instance)
        assert "one of 24 texts: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …" in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1


def test_an_instance_is_also_a_number_of_numpy(trace):
    assert trace.heatmap(np.int64(3)).html == trace.heatmap(3).html  # type: ignore[arg-type]


def test_without_a_number_the_first_text_is_shown(trace):
    assert trace.heatmap().html == trace.heatmap(0).html
    assert "Playground of text 0" in trace.playground().html


def test_pictures_are_saved_as_files(trace, results, tmp_path):
    for name, shown in (("figure", results.figure("adversary")), ("text", trace.heatmap(3))):
        drawn = ElementTree.parse(shown.save(tmp_path / f"{name}.svg")).getroot()
        assert drawn.tag.endswith("svg")
        written = shown.save(tmp_path / f"{name}.png").read_bytes()
        assert written.startswith(b"\x89PNG")
        assert shown.html in shown.save(tmp_path / f"{name}.html").read_text(encoding="utf-8")
    said = "".join(drawn.itertext())
    assert all(token in said for token in trace.tokens(3))
    with pytest.raises(InputError, match=r"ending '.pdf'; expected .html or .svg or .png"):
        trace.heatmap(3).save(tmp_path / "text.pdf")
    with pytest.raises(InputError, match=r"expected .html$"):
        trace.playground(3).save(tmp_path / "text.png")


def test_traces_and_results_are_pickled(trace, results):
    for one in (trace, results):
        assert pickle.loads(pickle.dumps(one))._repr_html_() == one._repr_html_()
