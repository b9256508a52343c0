"""What the pages of studies say of the numbers that there are."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from attnaudit.report.cards.card import CardRow
from attnaudit.report.charts.marks import interval_chart
from attnaudit.report.charts.svg import drawn
from attnaudit.report.study_page import study_card, write_study
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.studies import Study
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.guide import Guide
from attnaudit.studies.uniform import Uniform
from attnaudit.trace import Trace
from tests.studies.identity import identified
from tests.studies.test_numbers import some

BOTH = "bootstrap intervals that resample both"


def write_results(folder: Path, study: Study, traces: dict[str, Trace]) -> Path:
    """What a study makes of traces, but for its page."""
    table = study(identified(traces))
    model = {"encoder": "bilstm", "attention": "additive"}
    spec = {
        "study": {"name": study.name, **asdict(study)},
        "corpus": {"name": "sst"},
        "model": model,
    }
    (folder / "results").mkdir(parents=True)
    table.write_parquet(folder / "results" / f"{study.name}.parquet")
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "summary.json").write_text(json.dumps(study.summarise(table).to_dicts()))
    return folder


def text_of(page: Path) -> str:
    return html.unescape(page.read_text(encoding="utf-8"))


def named(*names: str) -> dict[str, Trace]:
    return dict(zip(names, some(seeds=len(names) - 1), strict=True))


ONE_SEED = [
    (Uniform(seeds=1), ["base-s0", "uniform-s0"]),
    (Guide(seeds=1), ["guide-uniform-s0", "guide-base-s0"]),
    (Guide(seeds=1, weights=("uniform",)), ["guide-uniform-s0"]),
    (
        Deceive(models=("bilstm",), strengths=(0.0, 1.0), seeds=1),
        ["deceive-bilstm-0-s0", "deceive-bilstm-1-s0", "removed-bilstm-s0"],
    ),
    (
        ModelAdversary(strengths=(0.1,), controls=1),
        ["base-s0", "base-s1", "uniform-s0", "adversary-0.1-s1"],
    ),
]


@pytest.mark.parametrize(("study", "names"), ONE_SEED)
def test_of_one_seed_intervals_are_told_to_draw_instances_alone(
    tmp_path: Path, study: Study, names: list[str]
) -> None:
    text = text_of(write_study(write_results(tmp_path / "one", study, named(*names)), {}))
    assert "intervals over instances alone: one seed does not show what another would give" in text
    assert "over seeds" not in text
    assert "seeds and instances" not in text
    assert BOTH not in text


def test_of_several_seeds_intervals_are_told_to_draw_both(tmp_path: Path) -> None:
    traces = named("base-s0", "uniform-s0", "base-s1", "uniform-s1")
    text = text_of(write_study(write_results(tmp_path / "two", Uniform(seeds=2), traces), {}))
    assert f"{BOTH}; s.d. is the spread over seeds" in text
    assert "2 seeds: means over seeds, intervals over seeds and instances" in text


def summary(study: str, measure: str, value: float, std: float | None = None) -> dict[str, object]:
    told = {
        "experiment": study,
        "measure": measure,
        "group": "all",
        "value": value,
        "std": std,
        "low": value - 0.05,
        "high": value + 0.05,
    }
    return told | {"n": 100, "undefined": 0, "reference": None, "source": None}


def card_of(rows: list[dict[str, object]]) -> CardRow:
    (row,) = study_card(pl.DataFrame(rows, schema=SUMMARY_SCHEMA), About(corpus="sst")).rows
    return row


@pytest.mark.parametrize(
    ("std", "told"),
    [
        (0.01, "beyond what seeds and instances explain:"),
        (None, "beyond what instances explain, although one seed says nothing"),
    ],
)
def test_a_loss_of_one_seed_is_not_said_to_be_beyond_that_of_seeds(
    std: float | None, told: str
) -> None:
    figures = {"difference_f1_uniform": -0.2, "f1_base": 0.9, "f1_uniform": 0.7}
    assert (
        told
        in card_of(
            [summary("uniform", name, value, std) for name, value in figures.items()]
        ).sentence
    )


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (12, "No conclusion from 12 instances: 20 or more are needed."),
        (20, "hardly needs attention"),
    ],
)
def test_a_study_of_few_instances_carries_no_conclusion(n: int, told: str) -> None:
    figures = {"difference_f1_uniform": 0.0, "f1_base": 0.9, "f1_uniform": 0.9}
    row = card_of(
        [
            summary("uniform", name, value) | {"low": value - 0.01, "n": n}
            for name, value in figures.items()
        ]
    )
    assert told in row.sentence
    assert row.finding is not None
    assert (row.finding.code == "few") == (n < 20)


def guided(**f1: float) -> CardRow:
    rows = [summary("guide", f"f1_{name}", value) for name, value in f1.items()]
    rows += [
        summary("guide", f"difference_f1_{name}", value - f1["uniform"])
        for name, value in f1.items()
        if name != "uniform"
    ]
    return card_of(rows)


def test_the_guide_s_row_is_of_the_base_s_attention_where_that_is_there() -> None:
    row = guided(uniform=0.7, learned=0.72, base=0.8, adversary=0.6)
    assert row.value == pytest.approx(0.1)
    assert (
        "0.80 with this attention, 0.70 with uniform weights. So its weights tell" in row.sentence
    )
    assert row.yardstick == "its own attention 0.72; an adversary's 0.60"


@pytest.mark.parametrize(
    ("others", "value", "told"),
    [
        (
            {"learned": 0.8},
            0.1,
            "0.80 with its own learned weights, 0.70 with uniform weights. The attention of the model under study",
        ),
        (
            {"learned": 0.8, "gradient": 0.6},
            -0.1,
            "0.60 with the base's gradients, 0.70 with uniform weights. So its weights do not help another",
        ),
        (
            {"adversary": 0.7},
            0.0,
            "0.70 with an adversary's attention, 0.70 with uniform weights. The interval contains 0",
        ),
        ({}, 0.7, "reaches F1 0.70 with uniform weights. The attention of the model under study"),
    ],
)
def test_without_the_base_s_attention_the_guide_s_row_tells_what_is_there(
    others: dict[str, float], value: float, told: str
) -> None:
    row = guided(uniform=0.7, **others)
    assert row.value == pytest.approx(value)
    assert told in row.sentence
    assert row.sentence.endswith("was not among the weights (guide.weights).")


def deceived(model: str = "bilstm", about: About | None = None, **accuracy: float) -> CardRow:
    """The card's row where attention on impermissible tokens fell from 0.6 to 0.1, and accuracies are such."""
    bare = f"{model}_removed" if about is None else "uniform"
    names = {"honest": f"{model}_0", "hiding": f"{model}_1", "bare": bare}
    rows = [
        summary("deceive", f"mass_{model}_{strength}", value)
        for strength, value in (("0", 0.6), ("1", 0.1))
    ]
    rows += [
        summary("deceive", f"accuracy_{names[name]}", value) for name, value in accuracy.items()
    ]
    (row,) = study_card(
        pl.DataFrame(rows, schema=SUMMARY_SCHEMA), about or About(corpus="sst")
    ).rows
    return row


@pytest.mark.parametrize(
    ("accuracy", "told"),
    [
        (
            (0.9, 0.85, 0.6),
            "That is no lower, within the intervals, and higher than without these tokens: its attention hides what",
        ),
        (
            (0.9, 0.75, 0.6),
            "That is lower, within the intervals, and higher than without these tokens: its attention hides what it uses, at a cost.",
        ),
        (
            (0.9, 0.65, 0.6),
            "and no higher than without these tokens: no evidence that its attention hides anything",
        ),
        (
            (0.9, 0.4, 0.6),
            "and no higher than without these tokens: no evidence that its attention hides anything",
        ),
        (
            (0.9, 0.9, 0.85),
            "and no higher than without these tokens: no evidence that its attention hides anything",
        ),
    ],
)
def test_the_card_says_whether_attention_hides_anything(
    accuracy: tuple[float, float, float], told: str
) -> None:
    """Intervals reach 0.05 to each side."""
    honest, hiding, bare = accuracy
    sentence = deceived(honest=honest, hiding=hiding, bare=bare).sentence
    assert told in sentence
    assert (
        f"Its accuracy is {100 * hiding:.0f} % ({100 * honest:.0f} % without the penalty; {100 * bare:.0f} % without these tokens)"
        in sentence
    )


def test_a_translator_is_held_against_even_attention_and_the_comparison_is_drawn() -> None:
    about = About(corpus="pairs", metadata={"corpus": {"task": "translation"}})
    row = deceived("bilinear", about, honest=0.55, hiding=0.31, bare=0.38)
    assert (
        "Its accuracy is 31 % of the gold tokens (55 % without the penalty; 38 % with uniform attention)"
        in row.sentence
    )
    assert "no higher than with uniform attention: no evidence" in row.sentence
    assert row.mark == 0.6
    assert row.yardstick == "60 % without the penalty"


def test_a_small_loss_is_told_as_small_and_attention_that_stays_hides_nothing() -> None:
    narrow = [summary("deceive", name, value) | {"low": value - 0.001, "high": value + 0.001} for name, value in {
        "mass_bilstm_0": 0.6, "mass_bilstm_1": 0.1, "accuracy_bilstm_0": 0.99, "accuracy_bilstm_1": 0.98, "accuracy_bilstm_removed": 0.6,
    }.items()]  # fmt: skip
    assert "its attention hides what it uses, at little cost" in card_of(narrow).sentence
    stays = [
        row | {"value": 0.6, "low": 0.59, "high": 0.61}
        if row["measure"] == "mass_bilstm_1"
        else row
        for row in narrow
    ]
    assert (
        "does not avoid these tokens, within the intervals: it hides nothing"
        in card_of(stays).sentence
    )


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.27, 0.62), (0.3, 0.9), (0.0, 1.0), (0.985, 1.0), (0.251, 0.329), (12.0, 47.0)],
)
def test_tick_labels_of_intervals_stand_apart(low: float, high: float) -> None:
    rows = pl.DataFrame(
        {"name": ["one", "other"], "value": [low, high], "low": [low, high], "high": [low, high]}
    )
    svg = drawn("", interval_chart(rows, "accuracy"), "some", "some").svg
    axis = svg[svg.index("role-axis-label") :].partition("role-axis-domain")[0]
    ticks = sorted(
        float(x) for x in re.findall(r"translate\(([\d.]+),\d+\)[^>]*>[−\d.]+</text>", axis)
    )
    assert 2 <= len(ticks) <= 7
    assert min(b - a for a, b in pairwise(ticks)) > 40
