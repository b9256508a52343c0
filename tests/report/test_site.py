"""A site of several runs: its data come back as they were, its page works in a browser offline, and what it cannot show is told."""

import base64
import json
import re
import shutil
import zlib

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import expect

from attnaudit.core import RunError, read_json, sha256, write_json
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.compare import compare_runs
from attnaudit.recipes.site import site_into
from attnaudit.report.run_page import write_report
from attnaudit.report.site.contents import pack, quantised, script
from attnaudit.results import SummaryRows, read_record
from attnaudit.trace import Trace
from tests.report.conftest import ARGUMENTS, chromium
from tests.report.test_page import EVIL, evil_trace
from tests.traces import make_trace

EXPERIMENTS = ("prediction", "correlation", "permutation")
N = 80


def columns_of(rows):
    """The texts of every cell of some rows."""
    return rows.evaluate_all(
        "rows => rows.map(row => Array.from(row.cells, cell => cell.textContent))"
    )


@pytest.fixture(scope="module")
def trace(runs):
    """That of the first run."""
    return Trace.read(runs[0].parent / "one-trace")


def audited(folder, trace):
    trace.write(folder.parent / f"{folder.name}-trace")
    return audit_into(folder, folder.parent / f"{folder.name}-trace", EXPERIMENTS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    long = make_trace(N, [400, *[9] * (N - 1)], sharpness=0.2)
    return [audited(folder / "one", make_trace(N, (1, 20), sharpness=1.5)), audited(folder / "two", make_trace(N, (1, 20), sharpness=0.2)),
            audited(folder / "long texts", long)]  # fmt: skip


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory):
    return site_into(runs, tmp_path_factory.mktemp("site") / "site")


def unpack(packed):
    """The columns and the facts, as a page reads them."""
    content = zlib.decompress(base64.b64decode(packed))
    length = int(np.frombuffer(content[:4], "<u4")[0])
    header = json.loads(content[4 : 4 + length])
    kinds = {"Uint8Array": "u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Int32Array": "<i4", "Float32Array": "<f4", "Float64Array": "<f8"}  # fmt: skip
    columns = {
        name: np.frombuffer(content, kinds[kind], size, 4 + length + start)
        for name, (kind, start, size) in header["columns"].items()
    }
    return columns, header["facts"]


def restored(steps, low, high):
    """What `quantised` was given, to its precision."""
    return np.where(steps == 65535, np.nan, low + (high - low) * (steps / 65534))


def data(site, key):
    text = (site.parent / "data" / f"{key}.js").read_text()
    start = text.index(', "') + 3
    return unpack(text[start : text.rindex('"')])


def tau_gradient(run):
    return pl.read_parquet(run / "results/correlation.parquet")["tau_gradient"]


def test_columns_come_back_from_a_file_as_they_were():
    """Control characters of names are shown."""
    values = np.append(np.random.default_rng(0).normal(size=1000), [np.nan, 0.0, np.inf])
    steps, low, high = quantised(values)
    values[-1] = np.nan
    half_a_step = (high - low) / 131068 * 1.0001
    np.testing.assert_allclose(restored(steps, low, high), values, rtol=0, atol=half_a_step)
    for exact in ([0.0, 1.0, np.nan, 1.0], [], [np.nan] * 3, [0.25] * 3):
        np.testing.assert_array_equal(restored(*quantised(np.array(exact))), exact)
    columns = {
        "\x1b[31mre\u202ed\x9b": np.arange(5, dtype=np.uint8),
        "steps": steps,
        "long": np.array([1.5, -2]),
        "none": np.zeros(0, np.int32),
    }
    packed = pack(columns, {"name": EVIL})
    found, facts = unpack(packed)
    assert facts == {"name": EVIL}
    assert list(found) == [r"\u001b[31mre\u202ed\u009b", "steps", "long", "none"]
    assert all(map(np.array_equal, found.values(), columns.values()))
    assert EVIL not in script("run-0", packed)


@pytest.mark.slow
def test_the_data_of_a_run_are_its_trace_and_its_results(runs, site, trace):
    """Runs on the same texts share them."""
    columns, facts = data(site, "run-0-columns")
    expected = tau_gradient(runs[0]).fill_null(float("nan")).to_numpy()
    low, high = facts["ends"]["correlation.tau_gradient"]
    tau = restored(columns["correlation.tau_gradient"], low, high)
    np.testing.assert_allclose(tau, expected, atol=(high - low) / 1e5)
    assert columns["instance"].tolist() == trace.instance.tolist()
    names = [facts["classes"][k] for k in columns["predicted"]]
    assert names == [trace.class_names[k] for k in trace.predicted]
    words, text = data(site, "texts-0")
    texts = np.split(words["words"], np.cumsum(words["lengths"].astype(np.int64))[:-1])
    weights, _ = data(site, "run-0-weights")
    shares = np.split(weights["alpha"] / 65535, np.cumsum(weights["lengths"])[:-1])
    for row in (0, 7, N - 1):
        shown = [text["vocabulary"][k] for k in texts[columns["text"][row]]]
        assert shown == trace.tokens(row)
        alpha = shares[row] * weights["alpha.top"][row]
        np.testing.assert_allclose(alpha, trace.alpha[row], atol=1e-5)
    names = {path.name for path in (site.parent / "data").iterdir()}
    assert {name for name in names if name.startswith("texts")} == {"texts-0.js", "texts-1.js"}
    folders = {"index.html", "site.json", "data", "one", "two", "long texts"}
    assert {path.name for path in site.parent.iterdir()} == folders
    assert 'href="long%20texts/report.html"' in site.read_text()


@pytest.mark.slow
def test_the_table_is_filtered_sorted_and_leads_to_instances(opened, runs, site):
    page = opened(site)
    rows = page.locator("#run-table tbody tr:visible")
    last = page.locator("#run-table tbody tr td:last-child")
    expect(last).to_have_count(3)
    page.get_by_label("Measure in the last column").select_option("prediction.accuracy")
    accuracy = SummaryRows.of(read_record(runs[0]).summary).rows["prediction", "accuracy"]
    expect(last.first).to_contain_text(f"{accuracy['value']:.3f} [{accuracy['low']:.3f}, ")
    page.get_by_label("Name").fill("o")
    page.get_by_label("Name").fill("tw")
    assert rows.evaluate_all("rows => rows.map(row => row.dataset.run)") == ["1"]
    page.get_by_role("button", name="Clear").click()
    page.locator("#run-table").get_by_role("button", name="τ gradient").click()
    values = page.locator("#run-table tbody tr").evaluate_all(
        "rows => rows.map(row => Number(row.cells[7].dataset.value))"
    )
    assert values == sorted(values)
    expect(page).to_have_url(
        re.compile("sort=")
    )  # the address follows within an eighth of a second
    page.reload()
    expect(page.locator("#run-table th[aria-sort=ascending]")).to_have_text("τ gradient")
    page.locator("#run-table .to-instances").first.click()
    expect(page.locator("#instances-explorer output")).to_have_text(f"{N} of {N} texts")


def test_a_brush_filters_the_list_and_the_other_charts(opened, runs, site):
    def shown(page):
        return page.locator("#instances-explorer output").inner_text()

    page = opened(site, "#view=instances&run=one")
    chart = page.locator("[id='chart-correlation.tau_gradient'] .brushed")
    box = chart.bounding_box()
    assert box is not None
    other = page.locator("[id='chart-row.max_alpha'] .of-fit")
    before = other.get_attribute("d")
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20, steps=4)
    page.mouse.up()
    ends = page.evaluate("state.read().get('range.correlation.tau_gradient')").split("..")
    low, high = map(float, ends)
    expected = tau_gradient(runs[0]).is_between(low - 1e-4, high + 1e-4).sum()
    assert 0 < expected < N
    assert shown(page) == f"{expected} of {N} texts"
    assert other.get_attribute("d") != before
    link = f"#{page.url.partition('#')[2]}"
    chart.click()
    assert shown(page) == f"{N} of {N} texts"
    again = opened(site, link)
    again.wait_for_selector("#instances-explorer .open")
    assert shown(again) == f"{expected} of {N} texts"


def test_instances_are_found_by_word_class_and_range_and_opened_by_link_and_keyboard(
    opened, site, trace
):
    page = opened(site, "#view=instances&run=one&open=7")
    page.wait_for_selector(".opened[data-ready='7']")
    tokens = page.locator(".opened .strip").first.locator(".token")
    assert tokens.all_inner_texts() == trace.tokens(7)
    shades = tokens.evaluate_all("spans => spans.map(span => Number(span.title))")
    assert shades == pytest.approx(trace.alpha[7].tolist(), abs=2e-3)
    page.get_by_label("Text", exact=True).fill("superb")
    explorer = page.locator("#instances-explorer")
    having = [k for k in range(N) if any("superb" in token for token in trace.tokens(k))]
    expect(explorer.locator("output")).to_have_text(f"{len(having)} of {N} texts")
    page.locator("select[name=predicted]").select_option("negative")
    page.locator("[id='chart-row.positions'] input[name=to]").fill("9")
    page.keyboard.press("Tab")
    chosen = [
        str(trace.instance[k])
        for k in having
        if trace.class_names[trace.predicted[k]] == "negative" and len(trace.tokens(k)) <= 9
    ]
    assert [row[0] for row in columns_of(explorer.locator("tbody tr"))] == chosen[:25]
    page.get_by_role("button", name="Close").click()
    explorer.locator(".open").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".opened h3")).to_be_focused()


@pytest.mark.slow
def test_the_address_keeps_up_with_a_drag_of_any_length(browser, site):
    """Browsers ignore most changes of the address beyond 200 in ten seconds; what is shown must not depend on them."""
    found = browser.browser_type.launch(
        executable_path=chromium(),
        args=ARGUMENTS,
        ignore_default_args=["--disable-ipc-flooding-protection"],
    )
    page = found.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"{site.as_uri()}#view=instances&run=one")
    page.wait_for_selector("#instances-explorer .open")
    page.evaluate("for (let k = 0; k < 400; k += 1) state.write({ word: `w${k}` })")
    assert page.evaluate("state.read().get('word')") == "w399"
    page.wait_for_function("() => location.hash.includes('word=w399')")
    page.evaluate("for (let k = 0; k < 9; k += 1) state.write({ word: `v${k}` })")
    page.locator("nav a", has_text="Runs").click()
    page.wait_for_function("() => state.read().get('view') === 'runs'")
    page.go_back()
    page.wait_for_function("() => state.read().get('word') === 'v8'")
    found.close()
    assert said == []


@pytest.mark.slow
def test_charts_have_their_numbers_and_can_be_removed_and_added(opened, runs, site, trace):
    page = opened(site, "#view=instances&run=one&charts=row.positions,correlation.tau_gradient")
    page.wait_for_selector("#instances-explorer .open")
    page.locator("[id='chart-row.positions'] input[name=to]").fill("9")
    page.keyboard.press("Tab")
    for one in page.locator("#instances-explorer .behind summary").all():
        one.click()
    tables = page.locator(".behind table")
    # Tables are filled once they are open.
    expect(tables.nth(1).locator("tr").nth(1)).to_be_attached()
    own, other = (columns_of(tables.nth(k).locator("tr"))[1:] for k in (0, 1))
    tau, fit = tau_gradient(runs[0]), trace.alpha.lengths <= 9
    # A chart's own filter is not its own rows'.
    assert [sum(int(row[k]) for row in own) for k in (1, 2)] == [N, N]
    assert [sum(int(row[k]) for row in other) for k in (1, 2)] == [N, fit.sum()]
    undefined = (one.null_count() for one in (tau, tau.filter(fit)))
    assert other[-1] == ["undefined", *map(str, undefined)]
    adding = page.get_by_label("Add a chart")
    assert adding.evaluate("select => select.value") == ""
    for name in ("tokens", "Kendall τ, attention – gradient"):
        page.get_by_role("button", name=f"Remove the chart of {name}").click()
    expect(page.locator(".chart-box")).to_have_count(0)
    expect(adding).to_be_focused()
    adding.select_option(adding.locator("option").nth(1).get_attribute("value"))
    expect(page.locator(".chart-box")).to_have_count(1)


@pytest.mark.slow
def test_an_address_that_leads_nowhere_is_told_and_a_closed_instance_gives_the_focus_back(
    opened, site
):
    place = "#view=instances&run=nobody&range.row.max_alpha=0.2&range.row.positions=x..y"
    page = opened(site, place)
    expect(page.locator("#site-error")).to_contain_text("No run nobody is in this site")
    explorer = page.locator("#instances-explorer")
    expect(explorer.locator("output")).to_have_text(f"{N} of {N} texts")
    opener = explorer.locator(".open").nth(4)
    opener.click()
    page.wait_for_selector(".opened .token")
    page.get_by_role("button", name="Close").click()
    expect(opener).to_be_focused()


@pytest.mark.slow
def test_a_long_text_scrolls(opened, site):
    page = opened(site, "#view=instances&run=long+texts&open=0")
    text = page.locator(".opened .strip .tokens").first
    expect(text.locator(".block")).to_have_count(4)
    assert len((text.text_content() or "").split()) == 400
    expect(text.locator(".token").first).to_be_attached()


@pytest.mark.slow
def test_hostile_names_stay_text(opened, tmp_path):
    hostile = audited(tmp_path / "<img src=x onerror=alert(1)>\u202e", evil_trace())
    site = site_into([hostile], tmp_path / "site")
    page = opened(site, "#view=instances&open=0")
    assert page.locator(".opened .token").first.inner_text() == EVIL
    assert page.locator("img").count() == 0
    page = opened(site)
    expect(page.locator("#run-table bdi")).to_have_text("<img src=x onerror=alert(1)>\\u202e")
    page.locator("#run-table tbody th a").first.click()
    assert EVIL in page.inner_text("body")


@pytest.mark.slow
def test_a_site_is_replaced_and_other_things_are_refused(context, runs, tmp_path):
    out = tmp_path / "site"
    site_into(runs[:2], out)
    index = site_into(runs[2:], out)
    names = {"index.html", "site.json", "data", "long texts"}
    assert {path.name for path in out.iterdir()} == names
    (out / "data/run-0-columns.js").unlink()
    page = context.new_page()
    page.goto(f"{index.as_uri()}#view=instances")
    expect(page.locator("#site-error")).to_contain_text("data/run-0-columns.js cannot be read")
    (tmp_path / "other").mkdir()
    for place, mine, reason in (
        ("site", "site/notes.txt", "an earlier site alone"),
        ("other", "other/thesis.tex", "expected a new or empty folder"),
        ("file", "file", "expected a new or empty folder"),
    ):
        (tmp_path / mine).write_text("mine")
        with pytest.raises(RunError, match=reason):
            site_into(runs, tmp_path / place)
        assert (tmp_path / mine).read_text() == "mine"


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("report.html", None, r"no report\.html"),
        ("report.html", b"<title>\xff</title>", "a page written by attnaudit"),
        ("spec.json", b'{"kind": "run", "schema": 99}', "schema 99"),
        ("results/correlation.parquet", b"no parquet", "another file than the manifest"),
        ("results/correlation.parquet", None, "no such file"),
        ("manifest.json", None, "unfinished"),
        ("manifest.json", b"[]", "expected the manifest of a finished run"),
        ("", None, r"run\\udcff: a name that is no UTF-8"),
    ],
)
def test_a_run_that_cannot_be_shown_is_one_line_and_writes_nothing(
    file, content, told, runs, tmp_path
):
    run = shutil.copytree(runs[0], tmp_path / ("run" if file else "run\udcff"))
    if content:
        (run / file).write_bytes(content)
    elif file:
        (run / file).unlink()
    if file == "spec.json":
        manifest = read_json(run / "manifest.json")
        manifest["files"][file] = sha256(run / file)
        write_json(run / "manifest.json", manifest)
    with pytest.raises(RunError, match=told) as refusal:
        site_into([runs[1], run], tmp_path / "site")
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == [run]


def test_studies_reproductions_and_comparisons_are_sections_with_links_that_lead_somewhere(
    runs, tmp_path
):
    sweep, compared = tmp_path / "jain2019", tmp_path / "compared"
    shutil.copytree(runs[0], sweep / "runs/cell")
    (sweep / "index.html").write_text(
        '<title>Tables – attnaudit</title><a href="runs/cell/report.html">cell</a>'
    )
    (sweep / "reproduction.csv").write_text("")
    study = sweep / "studies/sst/uniform"
    study.mkdir(parents=True)
    (study / "report.html").write_text("<title>Is attention needed? – attnaudit</title>")
    write_json(study / "spec.json", {"kind": "study", "schema": 1})
    write_json(study / "manifest.json", {"files": {}})
    shutil.copytree(runs[1], compared)
    for name in ("spec.json", "manifest.json"):
        (compared / name).unlink()
    (compared / "differences.parquet").write_bytes(b"")
    site = site_into([sweep, compared], tmp_path / "site")
    text = site.read_text()
    assert "Reproductions</h2>" in text
    assert "Comparisons</h2>" in text
    assert '<a href="jain2019/index.html">Tables</a>' in text
    assert (site.parent / "jain2019/runs/cell/report.html").exists()
    assert '<a href="jain2019/studies/sst/uniform/report.html">Is attention needed?</a>' in text
    assert 'data-run="0"' in text


@pytest.mark.slow
def test_names_of_folders_are_no_patterns(tmp_path):
    named = [
        audited(tmp_path / name, make_trace(12, (3, 6), sharpness=sharpness))
        for name, sharpness in (("run[1]", 1.0), ("*", 0.5))
    ]
    assert compare_runs(named)[0].differences.height > 5
    page = site_into(named, tmp_path / "site[2]").read_text()
    assert "run[1]" in page
    assert write_report(named[0]).stat().st_size > 100_000
