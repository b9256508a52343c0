"""What the pages of studies say of the numbers that there are."""

import html
import json
from dataclasses import asdict

import polars as pl
import pytest

from attnaudit.experiments.findings import AGAINST
from attnaudit.report.study_page import study_card, write_study
from attnaudit.results import SUMMARY_SCHEMA, About
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.guide import Guide
from attnaudit.studies.study import Hypothesis
from attnaudit.studies.uniform import Uniform
from tests.studies.identity import identified
from tests.studies.test_numbers import some

BOTH = "bootstrap intervals that resample both"


def write_page(folder, study, traces, **metadata):
    """What a study makes of traces."""
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
    return write_study(folder, metadata)


def text_of(page):
    return html.unescape(page.read_text())


def named(*names):
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
def test_of_one_seed_intervals_are_told_to_draw_instances_alone(tmp_path, study, names):
    text = text_of(write_page(tmp_path, study, named(*names)))
    assert "intervals only over texts: one seed does not show what another would give" in text
    assert "over seeds" not in text
    assert "seeds and texts" not in text
    assert BOTH not in text


def test_of_several_seeds_intervals_are_told_to_draw_both(tmp_path):
    traces = named("base-s0", "uniform-s0", "base-s1", "uniform-s1")
    text = text_of(write_page(tmp_path, Uniform(seeds=2), traces))
    assert f"{BOTH}; s.d. is the spread over seeds" in text
    assert "2 seeds: means over seeds, intervals over seeds and texts" in text


def summary(study, measure, value, std=None):
    row = {"experiment": study, "measure": measure, "group": "all", "value": value, "std": std}
    return row | {"low": value - 0.05, "high": value + 0.05, "n": 100, "undefined": 0}


def card_of(rows, about=None):
    frame = pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    (row,) = study_card(frame, about or About(corpus="sst")).rows
    return row


def uniform_rows(f1, std=None):
    """Rows of a uniform model with this F1, where the base has 0.9."""
    figures = {
        "difference_f1_macro_uniform": f1 - 0.9,
        "f1_macro_base": 0.9,
        "f1_macro_uniform": f1,
    }
    return [summary("uniform", name, value, std) for name, value in figures.items()]


@pytest.mark.parametrize(
    ("std", "told"),
    [
        (0.01, "beyond what seeds and texts explain:"),
        (None, "beyond what texts explain, although one seed says nothing"),
    ],
)
def test_a_loss_of_one_seed_is_not_said_to_be_beyond_that_of_seeds(std, told):
    assert told in card_of(uniform_rows(0.7, std=std)).sentence


@pytest.mark.parametrize("n", [12, 20])
def test_a_study_of_few_instances_carries_no_conclusion(n):
    rows = (row | {"low": row["value"] - 0.01, "n": n} for row in uniform_rows(0.9))
    finding = card_of(rows).finding
    assert finding is not None
    assert (finding.code == "few") == (n < 20)


@pytest.mark.parametrize(
    ("f1", "value"),
    [
        ({"learned": 0.72, "base": 0.8, "adversary": 0.6}, 0.1),
        ({"learned": 0.8, "gradient": 0.6}, -0.1),
        ({}, 0.7),
    ],
)
def test_the_guide_s_row_is_of_the_base_s_attention_or_tells_what_is_there(f1, value):
    rows = [
        summary("guide", f"{start}f1_macro_{name}", score - less)
        for name, score in f1.items()
        for start, less in (("", 0.0), ("difference_", 0.7))
    ]
    row = card_of([summary("guide", "f1_macro_uniform", 0.7), *rows])
    assert row.value == pytest.approx(value)
    missing = row.sentence.endswith("was not among the weights (guide.weights).")
    assert missing == ("base" not in f1)


@pytest.mark.parametrize(
    ("mass", "honest", "hiding", "bare", "hides"),
    [
        (0.1, 0.9, 0.85, 0.6, True),
        (0.1, 0.9, 0.75, 0.6, True),
        (0.1, 0.9, 0.65, 0.6, False),
        (0.1, 0.9, 0.9, 0.85, False),
        (0.6, 0.9, 0.85, 0.6, False),
    ],
)
@pytest.mark.parametrize("translates", [False, True])
def test_attention_hides_what_it_left_if_the_model_is_better_than_without(
    mass, honest, hiding, bare, hides, translates
):
    """Intervals reach 0.05 to each side."""
    figures = {
        "mass_bilstm_0": 0.6,
        "mass_bilstm_1": mass,
        "accuracy_bilstm_0": honest,
        "accuracy_bilstm_1": hiding,
        "accuracy_uniform" if translates else "accuracy_bilstm_removed": bare,
    }
    rows = [summary("deceive", name, value) for name, value in figures.items()]
    metadata = {"corpus": {"task": "translation"}} if translates else {}
    row = card_of(rows, About(corpus="sst", metadata=metadata))
    assert row.finding is not None
    assert (row.finding.side == AGAINST) == hides


def test_claims_that_were_stated_before_have_an_outcome_on_the_page(tmp_path, monkeypatch):
    claims = (
        Hypothesis("Uniform attention costs macro F1.", "difference_f1_macro_uniform", high=0.0),
        Hypothesis("F1 is a share.", "f1_macro_base", low=-1.0, high=2.0),
        Hypothesis("It is measured.", "nothing"),
    )
    monkeypatch.setattr(Uniform, "hypotheses", claims)
    monkeypatch.setattr(Uniform, "exclusions", ("Texts without words.",))
    study, trainings = ONE_SEED[0]
    text = text_of(write_page(tmp_path, study, named(*trainings), tail="identity"))
    assert "Uniform attention costs macro F1." in text
    assert "Rules: Texts without words." in text
    assert text.count("not enough to tell</td>") >= 1
    assert "not measured" in text
