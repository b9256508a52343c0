"""The page of dynamics: its curves, its tables, and the texts that a reader walks through."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.report.cards.studies import STUDY_CARDS
from attnaudit.report.charts.svg import Figure
from attnaudit.report.sections.growth import growth_section
from attnaudit.report.study_page import study_card, study_tables
from attnaudit.results.about import About
from attnaudit.results.measures import label_of
from attnaudit.studies.dynamics.study import Dynamics
from tests.report.runs import summary_of
from tests.studies.identity import identified
from tests.studies.test_dynamics import STEPS, STUDY, some


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return STUDY(identified(some(STUDY)))


@pytest.fixture(scope="module")
def summary(table: pl.DataFrame) -> pl.DataFrame:
    return STUDY.summarise(table)


def drawn(table: pl.DataFrame, summary: pl.DataFrame) -> list[Figure]:
    return list(STUDY_CARDS[STUDY.name].figures(table, summary))


def test_every_number_of_the_summary_is_in_one_cell_and_has_a_name(summary: pl.DataFrame) -> None:
    tables = study_tables("dynamics", summary)
    cells = [cell for one in tables for _, _, row in one.rows for cell in row if cell is not None]
    assert len(cells) == summary.height
    labels = [label_of(Dynamics.measures, measure) for measure in summary["measure"].unique()]
    assert not any("_" in label for label in labels)
    assert len(set(labels)) == len(labels)


def test_the_curves_are_drawn_and_a_single_seed_has_none_to_compare(
    table: pl.DataFrame, summary: pl.DataFrame
) -> None:
    figures = drawn(table, summary)
    for figure in figures:
        assert all(panel.svg.startswith("<svg") for panel in figure.panels)
        assert len({panel.title for panel in figure.panels}) == 3
    assert "25 instances of test, 2 seeds" in figures[0].caption
    alone = table.filter((pl.col("model") != "base") | (pl.col("seed") == 3))
    _, figure = drawn(alone, STUDY.summarise(alone))
    assert "uniform attention" in figure.panels[0].svg


@pytest.fixture(scope="module")
def of_tokens(table: pl.DataFrame) -> pl.DataFrame:
    """The table as a translator has it: a row for each gold token, whose relevance is a log-probability."""
    scores = [
        pl.col(name).list.eval(pl.element() - 40) for name in ("relevance", "relevance_uniform")
    ]
    return table.with_columns(
        *scores, pl.lit(0).alias("query"), pl.col("tokens").list.eval("▁" + pl.element())
    )


def test_shades_are_shares_of_the_most_there_ever_is(
    table: pl.DataFrame, of_tokens: pl.DataFrame
) -> None:
    """The relevance of a gold token is shaded above and below the mean of its sentence."""
    for read in (table, of_tokens):
        section = growth_section(read)
        assert section is not None
        assert section.data["growth-data"]["steps"] == list(STEPS)
        json.dumps(section.data, allow_nan=False)
        for one in section.data["growth-data"]["instances"]:
            number = int(one["name"].partition(",")[0])
            rows = read.filter(pl.col("tokens").is_not_null(), instance=number).sort("step")
            assert one["tokens"] == rows["tokens"][0].to_list()
            for kind, shades in one["shades"].items():
                values, full = np.array(rows[kind].to_list()), one["full"][kind]
                if read is of_tokens and kind != "alpha":
                    assert (values < 0).all()
                    values -= values.mean(axis=1, keepdims=True)
                np.testing.assert_allclose(np.array(shades) * full / 1000, values, atol=1e-3 * full)
                assert np.abs(shades).max() <= 1000
            if read is table:
                assert np.abs(one["shades"]["relevance"]).max() == 1000
    assert growth_section(table.drop("tokens")) is None
    assert growth_section(table.filter(pl.col("tokens").is_null())) is None


@pytest.mark.parametrize("translates", [False, True])
def test_a_class_is_spoken_for_and_a_token_is_likely(
    table: pl.DataFrame,
    of_tokens: pl.DataFrame,
    summary: pl.DataFrame,
    tmp_path: Path,
    translates: bool,
) -> None:
    chosen = of_tokens if translates else table
    page = write_page(tmp_path, chosen, summary).read_text()
    lead = page[page.index('<section id="growth"') : page.index("<noscript>")]
    for text in (drawn(chosen, summary)[0].caption, lead):
        assert ("gold token" in text, "gold class" in text) == (translates, not translates)
    assert ("▁ marks the beginning of a word" in lead) == translates


def figures(**changed: Any) -> pl.DataFrame:
    known = {
        "agreement_alpha_uniform": (0.4, 0.3, 0.5),
        "chance": 0.08,
        "xi": (0.61, 0.55, 0.66),
        "xi_step": 50.0,
        "best_accuracy_minus_xi": 0.21,
        "xi_reached": 0.7,
        "xi_threshold": (0.35, 0.3, 0.4),
    }
    return summary_of(**{f"dynamics__{name}": row for name, row in (known | changed).items()})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "So attention goes to tokens whose relevance is learned without it"),
        ({}, "after 50 steps; by then accuracy is 0.61 [0.55, 0.66], of 0.82 at the best step"),
        ({"agreement_alpha_uniform": (0.09, 0.07, 0.1)}, "The interval contains chance"),
        ({"agreement_alpha_uniform": (0.03, 0.02, 0.04)}, "less often than by chance"),
        ({"xi": {}}, "(0.70 at most) better than relevance under uniform attention does (0.35)"),
        ({"xi": {"value": 0.6, "undefined": 2}}, "2 seeds never reach it"),
        ({"xi_threshold": (0.1, 0.07, 0.12)}, "no better than chance, within its interval"),
        ({"xi_threshold": {}}, "Timing needs more than one seed"),
        ({"xi_early": 0.8}, "In 80 % of the seeds that do, there is no checkpoint between"),
    ],
)
def test_the_card_says_no_more_than_the_figures(changed: dict[str, Any], said: str) -> None:
    (row,) = study_card(figures(**changed), About()).rows
    assert said in row.sentence
    assert ("says little about the order" in row.sentence) == ("xi_early" in changed)
    assert row.mark == 0.08
    assert row.yardstick == "0.08 by chance"


def test_the_policy_lets_only_the_page_s_own_script_run(
    tmp_path: Path, table: pl.DataFrame, summary: pl.DataFrame
) -> None:
    page = write_page(tmp_path, table, summary).read_text()
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 2
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in script]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'" in page
    assert "<b>" not in re.findall(r'id="growth-data">(.*?)</script>', page, re.DOTALL)[0]


def write_page(folder: Path, table: pl.DataFrame, summary: pl.DataFrame) -> Path:
    """The page as a study writes it."""
    from attnaudit.core.files import write_json
    from attnaudit.report.study_page import write_study

    (folder / "results").mkdir(parents=True)
    table.write_parquet(folder / "results" / "dynamics.parquet")
    write_json(folder / "summary.json", summary.to_dicts())
    write_json(folder / "spec.json", {
        "schema": 1, "kind": "study", "study": {"name": "dynamics", "seeds": 2}, "corpus": {"source": "sst"}, "seed": 0,
        "model": {"encoder": "bilstm", "attention": "additive"},
    })  # fmt: skip
    return write_study(folder, {})
