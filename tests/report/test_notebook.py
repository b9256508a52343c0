"""What a notebook shows of traces and results: fragments that load nothing, run nothing, and keep their style to themselves."""

import pickle
import re
import time
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import expect

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
        names = [name for _, given in tags for name in given]
        assert not [name for name in names if name.startswith("on") or name in ("src", "href")]
        assert not re.search(r"url\((?!#)|@import", html)


def test_what_is_shown(fragments):
    assert fragments["trace"].count('class="aa-tokens"') == 6
    assert "24 rows" in fragments["trace"]
    assert "How different can attention be with nearly the same output?" in fragments["results"]
    assert "<svg" in fragments["result"]
    assert "median Δŷ under shuffling" in fragments["result"]
    assert "<svg" in fragments["figure"]
    for caption in ("attention α", "Adversarial attention", "Gradient", "Leave-one-out"):
        assert caption in fragments["heatmap"]


def test_ids_of_drawings_are_their_own(results):
    other = audit(make_trace(12, (3, 9), seed=5), ["permutation"])
    ids = [re.findall(r'\bid="([^"]+)"', of.figure("permutation").html) for of in (results, other)]
    assert all(ids)
    assert not set(ids[0]) & set(ids[1])
    used = re.findall(r'(?:url\(#|aria-labelledby=")([^)"]+)', results.figure("permutation").html)
    assert set(used) <= set(ids[0])


def test_hostile_texts_are_escaped():
    trace = evil_trace()
    instance = int(trace.instance[0])
    results = audit(trace, ["prediction", "permutation"])
    for shown in (trace, results, results["permutation"], trace.heatmap(instance)):
        html = shown._repr_html_()
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
    with pytest.raises(InputError, match=r"other texts .*; expected results of this trace"):
        trace.heatmap(3, audit(make_trace(12, (3, 9)), ["permutation"]))
    with pytest.raises(InputError, match=r"'adversry': no such .* mean adversary\?"):
        results.figure("adversry")
    with pytest.raises(InputError, match="the trace has no column"):
        audit(make_trace(8, (2, 4), loo=False)).figure("correlation")


def test_show_is_the_card_in_a_notebook_and_in_a_terminal(results, monkeypatch, capsys):
    results.show()
    assert "VERDICT" in capsys.readouterr().out
    shown = []
    monkeypatch.setattr("attnaudit.results.table.in_notebook", lambda: True)
    monkeypatch.setattr("attnaudit.results.table.show", shown.append)
    results.show()
    assert shown == [results]
    assert not display.in_notebook()


def test_the_notebooks_style_and_the_fragments_leave_each_other_alone(context, fragments):
    host = "<p id=p>text</p><table id=t class=table><tr><td id=c>1</td></tr></table><div class=card id=k>card</div>"
    page = context.new_page()
    asked = []
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
    background = "one => getComputedStyle(one).backgroundColor"
    shown = page.locator(".attnaudit-shown").first
    assert shown.evaluate(background) == "rgba(0, 0, 0, 0)"
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


def test_an_instance_is_also_a_number_of_numpy_and_the_first_by_default(trace):
    assert trace.heatmap(np.int64(3)).html == trace.heatmap(3).html  # type: ignore[arg-type]
    assert trace.heatmap().html == trace.heatmap(0).html
    assert "Playground of text 0" in trace.playground().html


def test_pictures_are_saved_as_files(trace, results, tmp_path):
    for name, shown in (("figure", results.figure("adversary")), ("text", trace.heatmap(3))):
        drawn = ElementTree.parse(shown.save(tmp_path / f"{name}.svg")).getroot()
        assert drawn.tag.endswith("svg")
        written = shown.save(tmp_path / f"{name}.png").read_bytes()
        assert written.startswith(b"\x89PNG")
        assert shown.html in shown.save(tmp_path / f"{name}.html").read_text()
    said = "".join(drawn.itertext())
    assert all(token in said for token in trace.tokens(3))
    with pytest.raises(InputError, match=r"ending '.pdf'; expected .html or .svg or .png"):
        trace.heatmap(3).save(tmp_path / "text.pdf")
    with pytest.raises(InputError, match=r"expected .html$"):
        trace.playground(3).save(tmp_path / "text.png")


def test_traces_and_results_are_pickled(trace, results):
    for one in (trace, results):
        assert pickle.loads(pickle.dumps(one))._repr_html_() == one._repr_html_()


# of the page into which VS Code inserts outputs (notebook webview), without the addresses of its own files
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src https: http: data:; font-src https:; "
    "connect-src https:; child-src https: data:"
)
VSCODE = f"""<!doctype html><html style="--vscode-editor-background:#1e1e1e;--vscode-foreground:#ccc"><head>
<meta http-equiv="Content-Security-Policy" content="{POLICY}"></head>
<body class="vscode-dark" style="background:var(--vscode-editor-background);color:var(--vscode-foreground)">
<div id="output"></div></body></html>"""
# Scripts that innerHTML inserts do not run: VS Code makes each of them again.
INSERT = """(html) => {
  const output = document.getElementById("output");
  output.innerHTML = html;
  for (const old of output.querySelectorAll("script")) {
    const made = document.createElement("script");
    made.textContent = old.textContent;
    old.replaceWith(made);
  }
}"""


@pytest.fixture
def outputs(fragments, trace, results):
    """All that objects show, one below the other, as the cells of a notebook."""
    return "".join([*fragments.values(), trace.playground(3, results).html])


def watched(context):
    """A page, and what it asked for or complained of."""
    page, seen = context.new_page(), []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    return page, seen


def check_drawn(place):
    expect(place.locator(".attnaudit-shown")).to_have_count(6)
    expect(place.locator(".aa-tokens")).to_have_count(
        6 + 4 + 2
    )  # of the trace, of a heatmap, of the answer
    expect(place.locator(".aa-figures svg").first).to_be_visible()
    expect(place.locator(".aa-claim").first).to_be_visible()
    inner = place.frame_locator(".aa-frame iframe")
    before = inner.locator(".play-figures").inner_text()
    inner.get_by_role("button", name="uniform").click()
    expect(inner.locator(".play-figures")).not_to_have_text(before)


@pytest.mark.slow
def test_outputs_are_drawn_in_a_sandboxed_frame(context, outputs):
    page, seen = watched(context)
    frame = '<iframe id="cell" sandbox="allow-scripts" style="width:900px;height:3000px" srcdoc="'
    page.set_content(f'{frame}{escape(outputs)}"></iframe>')
    check_drawn(page.frame_locator("#cell"))
    assert [line for line in seen if line not in ("about:srcdoc", "data:,")] == []


def test_outputs_are_drawn_where_they_are_inserted_under_a_policy(context, outputs):
    page, seen = watched(context)
    page.emulate_media(
        color_scheme="null"
    )  # a frame follows the scheme of the page around it, unless one is emulated
    page.set_content(VSCODE)
    page.evaluate(INSERT, outputs)
    check_drawn(page)
    assert (
        page.locator(".aa-title").first.evaluate("one => getComputedStyle(one).color")
        == "rgb(204, 204, 204)"
    )
    body = page.frame_locator(".aa-frame iframe").locator("body")
    assert body.evaluate("one => getComputedStyle(one).backgroundColor") != "rgb(255, 255, 255)"
    page.locator("body").evaluate("one => { one.className = 'vscode-light'; }")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    assert [line for line in seen if line not in ("about:srcdoc", "data:,")] == []
