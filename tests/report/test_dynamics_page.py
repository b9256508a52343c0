"""The page of dynamics: its curves, its tables, and its card."""

import polars as pl
import pytest

from attnaudit.report.cards.studies import STUDY_CARDS
from attnaudit.report.study_page import study_card, study_numbers
from attnaudit.results import About, measure_of
from attnaudit.studies.dynamics.study import Dynamics
from tests.report.runs import summary_of
from tests.studies.identity import identified
from tests.studies.test_dynamics import STUDY, some


@pytest.fixture(scope="module")
def table():
    return STUDY(identified(some(STUDY)))


@pytest.fixture(scope="module")
def summary(table):
    return STUDY.summarise(table)


def drawn(table, summary):
    return list(STUDY_CARDS[STUDY.name].figures(table, summary))


def test_every_number_of_the_summary_is_in_one_cell_and_has_a_name(summary):
    places = {number[:3] for number in study_numbers("dynamics", summary)}
    assert len(places) == summary.height
    labels = [
        measure_of(Dynamics.measures, measure).label for measure in summary["measure"].unique()
    ]
    assert not any("_" in label for label in labels)
    assert len(set(labels)) == len(labels)


def test_the_curves_are_drawn_and_a_single_seed_has_none_to_compare(table, summary):
    figures = drawn(table, summary)
    for figure in figures:
        assert all(panel.svg.startswith("<svg") for panel in figure.panels)
        assert len({panel.title for panel in figure.panels}) == 3
    assert "25 texts of test, 2 seeds" in figures[0].caption
    alone = table.filter((pl.col("model") != "base") | (pl.col("seed") == 3))
    _, figure = drawn(alone, STUDY.summarise(alone))
    assert "uniform attention" in figure.panels[0].svg


def figures(**changed):
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
def test_the_card_says_no_more_than_the_figures(changed, said):
    (row,) = study_card(figures(**changed), About()).rows
    assert said in row.sentence
    assert ("says little about the order" in row.sentence) == ("xi_early" in changed)
    assert row.yardstick == "0.08 by chance"
