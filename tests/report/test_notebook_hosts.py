"""What notebooks do with outputs: a sandboxed frame, as Colab; insertion into a page with a policy of its own, as VS Code."""

from html import escape

import pytest
from playwright.sync_api import expect

from attnaudit.experiments import audit
from tests.traces import make_trace

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


@pytest.fixture(scope="module")
def outputs():
    """All that objects show, one below the other, as the cells of a notebook."""
    trace = make_trace(24, (3, 12), seed=2)
    results = audit(trace, ["prediction", "permutation", "adversary"])
    shown = (
        trace,
        results,
        results["permutation"],
        results.figure("adversary"),
        trace.heatmap(3, results),
        trace.playground(3, results),
    )
    return "".join(value._repr_html_() for value in shown)


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
    page.set_content(
        f'<iframe id="cell" sandbox="allow-scripts" style="width:900px;height:3000px" srcdoc="{escape(outputs)}"></iframe>'
    )
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
