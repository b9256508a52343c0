"""The reproduction page: every number from the table, every reason told, and means over seeds that a hand calculation gives too."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from itertools import dropwhile, takewhile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from playwright.sync_api import Browser
from polars.testing import assert_frame_equal
from scipy import stats

from attnaudit.core.errors import RunError
from attnaudit.published.compare import (
    FARTHER,
    NOT_MEASURED,
    PUBLISHED_ONCE,
    SEEDS_SCHEMA,
    WITHIN_CELL,
    WITHIN_CORPUS,
    WITHIN_OURS,
    over_seeds,
    possible,
)
from attnaudit.published.reference import published_cell
from attnaudit.published.reproduction import (
    NotRun,
    all_numbers,
    contrasts,
    main_means,
    models,
    score_measure,
    tallies,
)
from attnaudit.report.reproduction.page import (
    Reproduction,
    contrast_sentence,
    interval_sentence,
    verdict_sentences,
    write_reproduction,
)
from attnaudit.report.reproduction.tables import MARKS, NumberTable, further_tables, main_table
from attnaudit.report.words import figure
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord, read_record
from tests.report.runs import write_run
from tests.traces import make_trace

EVIL = "</td><script>alert(1)</script>"
MODELS = [
    (encoder, attention) for encoder in ("bilstm", "average") for attention in ("additive", "dot")
]
EMPTY = pl.DataFrame(schema=SEEDS_SCHEMA)


class Page(HTMLParser):
    """Text, ids, links and scripts of a page, and whether its tags are balanced."""

    VOID = frozenset({"meta", "link", "br", "rect", "line", "path", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def _run(
    corpus: str = "sst", model: tuple[str, str] = MODELS[0], seed: int = 0, shift: float = 0.0
) -> RunRecord:
    """A run whose means are the authors' re-run's plus ``shift``; a corpus that the paper lacks gets SST's."""
    asked = corpus if corpus != "mr" else "sst"
    cell = published_cell(asked, *model)
    classes = cell.classes or (("0", "1") if "1" in set(cell.numbers["class"]) else ())
    wide = cell.numbers.filter(pl.col("bin").is_null()).pivot(
        "revision", index=["measure", "statistic", "class"], values="value"
    )
    theirs = pl.coalesce(name for name in ("rerun_head", "paper_apr2019") if name in wide.columns)
    known = {
        row[:3]: row[3]
        for row in wide.select("measure", "statistic", "class", theirs.alias("value")).iter_rows()
    }
    rows = []
    for (measure, statistic, index), value in known.items():
        group = (
            "all"
            if index == "all"
            else f"predicted:{classes[int(index)]}"
            if int(index) < len(classes)
            else None
        )
        if statistic == "std" or group is None or (corpus == "mr" and group != "all"):
            continue
        row = {
            "experiment": "x",
            "measure": measure,
            "group": group,
            "value": value + shift,
            "std": known.get((measure, "std", index)),
        }
        rows.append(
            row
            | {"low": value + shift - 0.01, "high": value + shift + 0.01, "n": 100, "undefined": 0}
        )
    rows.append(
        {
            "experiment": "adversary",
            "measure": "certified",
            "group": "all",
            "value": 0.97,
            "low": 0.96,
            "high": 0.98,
            "n": 100,
        }
    )
    spec = {"corpus": {"name": corpus}, "seed": seed, "model": {"encoder": model[0], "attention": model[1]},
            "experiments": {"adversary": {"method": "relaxed"}}}  # fmt: skip
    summary = pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    return RunRecord(
        f"{corpus}-{'-'.join(model)}-s{seed}",
        summary,
        About.of(spec, {"class_names": list(classes)}),
    )


def _found(runs: Iterable[RunRecord], **changed) -> Reproduction:
    runs = tuple(runs)
    table = (
        over_seeds([run for run in runs if run.about.corpus != "mr"])
        if any(run.about.corpus != "mr" for run in runs)
        else EMPTY
    )
    given = {
        "table": table,
        "runs": runs,
        "pages": {run.name: f"{run.name}.html" for run in runs},
        "corpus_notes": {},
        "not_run": (),
    }
    return Reproduction(**(given | changed))


def _page(found: Reproduction, folder: Path) -> tuple[str, Page]:
    text = write_reproduction(found, folder).read_text(encoding="utf-8")
    return text, Page(text)


def test_the_mean_over_seeds_its_interval_and_its_judgement_are_those_of_a_hand_calculation():
    shifts = [0.0, 0.03, 0.09]
    table = over_seeds([_run(seed=k, shift=shift) for k, shift in enumerate(shifts)])
    row = table.row(
        by_predicate=(pl.col("measure") == "tau_gradient")
        & (pl.col("group") == "predicted:negative")
        & (pl.col("statistic") == "mean"),
        named=True,
    )
    values = row["rerun"] + np.array(shifts)
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert (row["seeds"], row["n"]) == (3, 100)
    np.testing.assert_allclose(
        [row["ours"], row["sd"], row["low"], row["high"]],
        [values.mean(), values.std(ddof=1), low, high],
    )
    off = max(values.mean() - max(row["paper"], row["rerun"]), 0.0)
    assert row["agreement"] == (
        WITHIN_CELL if off <= abs(row["paper"] - row["rerun"]) else WITHIN_CORPUS
    )
    assert row["within"] is (off <= row["spread"])


@pytest.mark.parametrize(("spreads", "agreement"), [(0.9, WITHIN_CELL), (1.1, "beyond")])
def test_agreement_is_judged_on_the_mean_and_not_on_single_seeds(spreads: float, agreement: str):
    def tau(shifts: list[float]) -> dict:
        table = over_seeds([_run(seed=k, shift=shift) for k, shift in enumerate(shifts)])
        return table.row(
            by_predicate=(pl.col("measure") == "tau_loo")
            & (pl.col("group") == "predicted:negative")
            & (pl.col("statistic") == "mean"),
            named=True,
        )

    row = tau([0.0])
    edge = max(row["paper"], row["rerun"]) - row["rerun"] + spreads * row["spread"]
    judged = tau([edge - 0.4, edge, edge + 0.4])["agreement"]
    assert judged == agreement or (
        agreement == "beyond" and judged in (WITHIN_CORPUS, WITHIN_OURS, FARTHER)
    )


def test_one_seed_keeps_its_own_interval_and_several_have_one_over_seeds(tmp_path: Path):
    one, several = (
        over_seeds([_run()]),
        over_seeds([_run(seed=k, shift=0.01 * k) for k in range(3)]),
    )
    assert one["sd"].null_count() == one.height
    row = one.filter(statistic="mean", measure="f1").row(0, named=True)
    np.testing.assert_allclose([row["low"], row["high"]], [row["ours"] - 0.01, row["ours"] + 0.01])
    assert "over instances" in interval_sentence(one)
    assert "(3 seeds)" in interval_sentence(several)
    mixed = pl.concat([one, several.with_columns(encoder=pl.lit("cnn"))])
    assert "of several seeds (3)" in interval_sentence(mixed)
    rare = several.with_columns(
        seeds=pl.when(pl.col("statistic") == "std").then(1).otherwise("seeds")
    )
    assert interval_sentence(rare) == interval_sentence(several)
    assert interval_sentence(EMPTY) == ""
    _, page = _page(_found([_run()]), tmp_path)
    assert "say nothing about other seeds" in page.text


def test_every_number_of_the_table_is_shown_in_its_cell():
    found = _found([_run(model=model, seed=seed) for model in MODELS[:2] for seed in range(2)])
    known = _all_tables(found.table)
    missing = []
    for k, row in enumerate(found.table.iter_rows(named=True)):
        for name in ("paper", "rerun", "ours"):
            other = (
                pl.when(pl.int_range(pl.len()) == k)
                .then(pl.col(name) + 0.2345)
                .otherwise(pl.col(name))
                .alias(name)
            )
            if row[name] is not None and _all_tables(found.table.with_columns(other)) == known:
                missing.append(
                    (name, row["measure"], row["statistic"], row["group"], row["max_alpha"])
                )
    assert missing == []


def test_one_changed_number_changes_page_table_and_markdown(tmp_path: Path):
    found = _found([_run(), _run(model=MODELS[2])])
    write_reproduction(found, tmp_path / "a")
    f1 = pl.when(pl.col("measure") == "f1").then(0.123).otherwise("ours").alias("ours")
    write_reproduction(_found(found.runs, table=found.table.with_columns(f1)), tmp_path / "b")
    for name in ("index.html", "reproduction.md"):
        before, after = ((tmp_path / folder / name).read_text(encoding="utf-8") for folder in "ab")
        assert ("0.123" in before, "0.123" in after) == (False, True)
    assert (tmp_path / "a" / "reproduction.csv").read_bytes() != (
        tmp_path / "b" / "reproduction.csv"
    ).read_bytes()


def _all_tables(numbers: pl.DataFrame) -> list[NumberTable]:
    main = main_table(numbers, "SST")
    return [main, *further_tables(numbers, main.columns)]


def test_the_main_table_shows_paper_rerun_and_ours_with_spread_share_interval_and_mark():
    table = over_seeds([_run()])
    shown = main_table(table, "SST")
    rows = {
        row["statistic"]: row
        for row in table.filter(group="predicted:negative", measure="tau_gradient").iter_rows(
            named=True
        )
    }
    column = next(
        k
        for k, one in enumerate(shown.columns)
        if (one.measure, one.group) == ("tau_gradient", "predicted:negative")
    )
    lines = dict(shown.blocks[0].lines)
    share = table.filter(group="predicted:negative", measure="significant_gradient")["paper"][0]
    assert (
        lines["paper"][column].text
        == f"{figure(rows['mean']['paper'])} ± {figure(rows['std']['paper'])} · {100 * share:.0f} %"
    )
    ours = lines["ours"][column]
    assert ours.interval == f"[{figure(rows['mean']['low'])}, {figure(rows['mean']['high'])}]"
    assert (ours.degree, ours.agreement) == ("cell", WITHIN_CELL)
    assert [column.measure for column in shown.columns] == ["f1"] + 2 * ["tau_gradient"] + 2 * [
        "tau_loo"
    ] + 2 * ["emax_jsd"]


def test_the_verdict_counts_what_both_of_the_authors_runs_have():
    table = over_seeds(
        [
            _run(model=model, shift=shift)
            for model, shift in zip(MODELS, (0.0, 0.03, -0.05, -0.9), strict=True)
        ]
    )
    twice = table.filter(pl.col("spread").is_not_null())
    means = main_means(table)
    assert sum(tally.total for tally in tallies(table)) == twice.height
    chosen = twice.filter(
        pl.col("measure").is_in(["f1", "tau_gradient", "tau_loo", "emax_jsd"]), statistic="mean"
    )
    assert means.total == means.judged == chosen.height
    far = chosen.filter(agreement=FARTHER).height
    sentence = verdict_sentences(table)[0]
    assert sentence.startswith(f"Of {chosen.height} means")
    between = [
        min(one, two) <= ours <= max(one, two)
        for one, two, ours in chosen.select("paper", "rerun", "ours").iter_rows()
    ]
    assert 0 < sum(between) < chosen.filter(agreement=WITHIN_CELL).height
    assert (
        f"{sum(between)} ({100 * sum(between) / chosen.height:.0f} %) lie between the two values"
        in sentence
    )
    assert f": {chosen.filter(agreement=WITHIN_CELL).height} (" in sentence
    assert f"{far} ({100 * far / chosen.height:.0f} %) lie farther off" in sentence
    unmeasured = table.with_columns(agreement=pl.lit(NOT_MEASURED), ours=None)
    assert "nothing to judge" in verdict_sentences(unmeasured)[0]


NEAR = (-0.05, 0.18, 0.3)  # off by more than their spread, and an interval that still holds theirs


def test_wide_intervals_of_few_seeds_are_called_wide():
    table = over_seeds([_run(seed=k, shift=shift) for k, shift in enumerate(NEAR)])
    assert WITHIN_OURS in set(table["agreement"])
    assert any("from 3 seeds are wide" in sentence for sentence in verdict_sentences(table))


@pytest.mark.parametrize(
    ("shifts", "agrees"),
    [
        ((0.12, 0.3, 0.48), True),
        ((0.27, 0.33), False),  # narrow enough, but of two seeds
        ((0.0, 0.3, 0.6), False),  # of three, but as wide as the half of [-1, 1]
    ],
)
def test_an_interval_over_two_seeds_or_wider_than_half_of_the_range_agrees_with_nothing(
    shifts: tuple[float, ...], agrees: bool
):
    means = over_seeds([_run(seed=k, shift=shift) for k, shift in enumerate(shifts)]).filter(
        measure="tau_gradient", statistic="mean"
    )
    row = means.row(by_predicate=pl.col("group") == "predicted:negative", named=True)
    assert row["low"] <= row["rerun"] <= row["high"]
    assert row["agreement"] == (WITHIN_OURS if agrees else FARTHER)


@pytest.mark.parametrize("shifts", [(-0.5, 0.4), (-0.6, 0.1, 0.3)])
def test_intervals_over_seeds_stay_within_what_a_measure_can_be(shifts: tuple[float, ...]):
    runs = [_run(seed=k, shift=shift) for k, shift in enumerate(shifts)]
    numbers = all_numbers(over_seeds(runs), runs).drop_nulls(["low", "high"])
    told = [
        (row["low"], row["high"], *possible(row["measure"], row["statistic"]))
        for row in numbers.iter_rows(named=True)
    ]
    assert all(least <= low and high <= most for low, high, least, most in told)
    assert any(low == least for low, _, least, _ in told)
    assert any(high == most for _, high, _, most in told)


def test_what_a_measure_can_be():
    assert possible("tau_loo") == (-1, 1)
    assert possible("tau_loo", "std") == (0, 1)
    assert possible("tau_gradient_loo_minus_tau_loo") == (-2, 2)
    assert possible("emax_jsd", "median") == possible("emax_jsd_upper") == (0, np.log(2))
    assert {
        possible(name)
        for name in ("f1", "accuracy", "roc_auc", "median_delta_y", "certified", "significant_loo")
    } == {(0, 1)}


def test_a_number_published_once_is_shown_as_that_and_counted_nowhere(tmp_path: Path):
    table = over_seeds([_run()])
    once = table.filter(pl.col("spread").is_null(), pl.col("ours").is_not_null())
    assert set(once["agreement"]) == {PUBLISHED_ONCE}
    assert f"{once.height} further numbers were published only once" in " ".join(
        verdict_sentences(table)
    )
    assert (
        sum(one.total for one in tallies(table))
        == table.filter(pl.col("spread").is_not_null()).height
    )
    text, page = _page(_found([_run()]), tmp_path)
    assert '<span class="degree once" title="published once">' in text
    assert "published once, not counted" in page.text
    assert "no wider than half of that range" in page.text


def test_a_page_is_balanced_fetches_nothing(tmp_path: Path):
    text, page = _page(
        _found(
            [_run(corpus, model) for corpus in ("sst", "babi_qa1_10k", "mr") for model in MODELS]
        ),
        tmp_path,
    )
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link for link in page.links if link.startswith("#")} <= {
        f"#{name}" for name in page.ids
    }
    assert page.tags.count("script") == 1  # the switch of colours
    assert "url(http" not in text
    assert all(not link.startswith(("http", "//")) for link in page.links)
    assert text.count("<caption") == page.tags.count("table")
    assert {"sst-bilstm-dot-s0.html", "mr-average-additive-s0.html"} <= set(page.links)


def test_reasons_notes_and_names_are_shown_and_stay_text(tmp_path: Path):
    run = _run()
    about = About.of(
        {"corpus": {"name": EVIL}, "model": {"encoder": EVIL, "attention": "'\" + \\"}},
        {"class_names": [EVIL, "b"]},
    )
    not_run = (NotRun("snli", "", "", f"data not here: {EVIL}"), NotRun("imdb", "cnn", "dot", "interrupted"),
               NotRun("imdb", "bilstm", "dot", "interrupted"))  # fmt: skip
    found = Reproduction(over_seeds([run]), runs=(run, RunRecord(EVIL, run.summary, about)), pages={EVIL: f'"{EVIL}'}, not_run=not_run,
                   corpus_notes={"sst": (f"vectors differ {EVIL}",)})  # fmt: skip
    text, page = _page(found, tmp_path)
    assert page.tags.count("script") == 1  # the switch of colours
    assert page.open == []
    assert f"data not here: {EVIL}" in page.text
    assert f"Vectors differ {EVIL}." in page.text
    assert re.search(r"IMDB</th><td>cnn \+ dot, bilstm \+ dot</td><td>interrupted", text)
    markdown = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert "<script" not in markdown.replace("\\<", "")


def test_nothing_run_gives_a_page_that_says_so(tmp_path: Path):
    found = Reproduction(
        EMPTY, (), {}, {}, (NotRun("sst", "", "", "data not here: sst/train.txt"),)
    )
    _, page = _page(found, tmp_path)
    assert "Nothing was run." in page.text
    assert "nothing to judge" in page.text
    assert "data not here: sst/train.txt" in page.text
    assert "Nothing was run." in (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert pl.read_csv(tmp_path / "reproduction.csv", schema=SEEDS_SCHEMA).height == 0


def test_a_corpus_that_the_paper_lacks_is_listed_with_its_own_numbers(tmp_path: Path):
    runs = [_run("mr", model, seed, 0.01 * seed) for model in MODELS for seed in range(2)]
    _, page = _page(_found(runs), tmp_path)
    assert "This corpus is not in the paper" in page.text
    assert "Of these corpora the paper lacks 1." in page.text
    numbers = all_numbers(EMPTY, runs)
    assert set(numbers["corpus"]) == {"mr"}
    assert models(numbers) == MODELS
    tau = numbers.filter(
        encoder="bilstm", attention="dot", measure="tau_loo", statistic="mean"
    ).row(0, named=True)
    theirs = published_cell("sst", "bilstm", "dot").numbers.filter(
        measure="tau_loo", statistic="mean", revision="rerun_head"
    )
    assert tau["ours"] == pytest.approx(theirs.filter(pl.col("class") == "all")["value"][0] + 0.005)
    assert tau["seeds"] == 2
    assert figure(tau["ours"]) in page.text
    assert "97 %" in page.text


def test_what_the_paper_never_measured_stands_beside_what_it_did():
    runs = [_run()]
    numbers = all_numbers(over_seeds(runs), runs)
    assert "certified" in set(numbers["measure"])
    assert numbers.select("measure", "statistic", "group", "max_alpha").is_duplicated().sum() == 0


def test_scores_are_f1_or_what_the_paper_has_instead():
    assert score_measure(over_seeds([_run()])) == "f1"
    assert score_measure(over_seeds([_run("babi_qa1_10k")])) == "accuracy"
    alone = all_numbers(EMPTY, [_run("mr")])
    assert (score_measure(alone), score_measure(alone, has_question=True)) == ("f1", "accuracy")


def test_the_average_encoder_stands_out_where_the_table_says_so():
    table = over_seeds([_run(model=model) for model in MODELS])
    found = contrasts(table)
    assert [(one.attention, one.measure) for one in found] == [
        (attention, measure)
        for attention in ("additive", "dot")
        for measure in ("tau_gradient", "tau_loo")
    ]
    rows = table.filter(attention="dot", measure="tau_loo", statistic="mean").filter(
        pl.col("group") != "all"
    )
    gap = (
        rows.filter(encoder="average")["paper"].to_numpy()
        - rows.filter(encoder="bilstm")["paper"].to_numpy()
    )
    one = next(one for one in found if (one.attention, one.measure) == ("dot", "tau_loo"))
    assert one.paper == pytest.approx(gap.mean())
    assert one.ours == pytest.approx(one.rerun)
    assert one.degree == "cell"
    lower = pl.when(pl.col("encoder") == "average").then(pl.col("ours") - 2).otherwise("ours")
    assert {one.degree for one in contrasts(table.with_columns(ours=lower))} == {"farther"}
    third = pl.col("ours") - pl.col("rerun") + pl.col("rerun") * 0.3
    assert {one.degree for one in contrasts(table.with_columns(ours=third))} == {"corpus"}
    assert "in 0 of these" in contrast_sentence(contrasts(table.with_columns(ours=lower)))
    assert contrasts(table.filter(encoder="bilstm")) == []


def test_the_table_comes_back_from_csv_as_it_was(tmp_path: Path):
    found = _found(
        [
            _run(corpus, model, seed, 0.013 * seed)
            for corpus in ("sst", "snli")
            for model in MODELS
            for seed in range(2)
        ]
    )
    write_reproduction(found, tmp_path)
    read = pl.read_csv(tmp_path / "reproduction.csv", schema=SEEDS_SCHEMA)
    assert_frame_equal(
        read.with_columns(pl.col("note").fill_null("")), found.table, check_exact=True
    )


def test_real_run_folders_end_in_a_page_with_medians_by_weight(tmp_path: Path):
    records = [
        read_record(write_run(tmp_path / f"s{seed}", make_trace(60, (2, 20), seed=seed)))
        for seed in range(2)
    ]
    text, page = _page(_found(records), tmp_path / "out")
    table = over_seeds(records)
    middle = (
        table.filter(statistic="median", measure="median_delta_y", max_alpha="[0, .25)")
        .drop_nulls("ours")
        .row(0, named=True)
    )
    assert middle["seeds"] == 2
    assert figure(middle["ours"], 3) in page.text
    assert text.count("<figure") == 4
    assert not list((tmp_path / "out").glob(".*"))


def test_the_page_opens_offline_fits_a_phone_and_draws_in_both_schemes(
    browser: Browser, tmp_path: Path
):
    path = write_reproduction(
        _found([_run(corpus, model) for corpus in ("sst", "snli") for model in MODELS]), tmp_path
    )
    for scheme, width in (("light", 400), ("dark", 1200)):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # pyright: ignore[reportArgumentType]
            offline=True,
        )
        page = context.new_page()
        heard: list[str] = []
        page.on("request", lambda request, heard=heard: heard.append(request.url))
        page.on("console", lambda message, heard=heard: heard.append(message.text))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert [one for one in heard if one not in (path.as_uri(), "data:,")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        picture = np.asarray(
            Image.open(io.BytesIO(page.locator(".chart").first.screenshot())).convert("RGB"),
            dtype=float,
        )
        assert (picture.max(axis=2) - picture.min(axis=2) > 40).mean() > 0.004, "axes and no data"
        context.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="file"):
        write_reproduction(_found([]), tmp_path / "file" / "out")


PAGE = Path(__file__).parents[2] / "docs" / "jain2019.md"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_counts_what_its_tables_hold():
    """The 270 means of docs/jain2019.md, from the first table of each corpus: how many agree, and how many lie between the two."""
    text = PAGE.read_text(encoding="utf-8")
    degrees, between = Counter[str](), 0
    for section in re.split(r"\n## ", text.split("<!-- reproduce jain2019")[1])[1:]:
        begun = dropwhile(lambda line: not line.startswith("| model |"), section.splitlines())
        lines = [_cells(line) for line in takewhile(lambda line: line.startswith("|"), begun)][2:]
        lines = [
            line for line in lines if "odds" not in line[0]
        ]  # of which the paper has no numbers
        for paper, rerun, ours in (lines[k : k + 3] for k in range(0, len(lines), 3)):
            assert [line[1] for line in (paper, rerun, ours)] == ["paper", "re-run", "ours"]
            for cells in zip(paper[2:], rerun[2:], ours[2:], strict=True):
                numbers = [re.search(r"[−-]?\d+\.\d+", cell) for cell in cells]
                if all(numbers) and cells[2][0] != MARKS["once"][0]:
                    one, two, value = (
                        float(number[0].replace("−", "-")) for number in numbers if number
                    )
                    degrees[cells[2][0]] += 1
                    between += min(one, two) <= value <= max(one, two)
    total, within = degrees.total(), degrees[MARKS["cell"][0]]
    assert f"Of the {total} means below, {within} ({within / total:.0%})".replace("%", " %") in text
    made = re.search(r"(\d+ \(\d+ %\)) lie between the two values;", text)
    assert made is not None
    assert f"{made[1]} lie\nbetween the two values." in text, (
        "the text before the tables says what they say"
    )
    assert abs(int(made[1].split()[0]) - between) <= 10, (
        "the tables are rounded, the records are not"
    )
