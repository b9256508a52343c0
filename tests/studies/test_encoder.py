"""What the encoder does to attention: matched texts, slopes and the mediator, on tables whose answer is known."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.read import read_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.study import StudySpec
from attnaudit.studies.encoder import MODELS, Encoder
from tests.studies.identity import values_of

SEEDS, TEXTS = 4, 50
NAMES = ("none", "average", "cnn3", "mixed50", "bilstm", "transformer")


def made(through=0.3, direct=0.1, random=None):
    """A table in which the replacement correlation is 0.2 + through · own word + direct · context."""
    random = random or np.random.default_rng(0)
    easy, parts = random.normal(0.0, 0.05, TEXTS), []
    for name in NAMES:
        context = MODELS[name][0]
        for seed in range(SEEDS):
            # Cells add up to nothing over the texts, so the means are exact.
            own = 1.0 - 0.7 * context + (random.normal(0.0, 0.05) if context else 0.0)
            cells = random.normal(0.0, 0.1, TEXTS) + easy
            areas = random.uniform(0.2, 0.5, TEXTS)
            columns = {
                "instance": np.arange(TEXTS),
                "label": np.arange(TEXTS) % 2,
                "predicted": np.arange(TEXTS) % 2,
                "correct": np.ones(TEXTS, bool),
                "replacement": 0.2 + through * own + direct * context + cells - cells.mean(),
                "area_random": areas,
                "area_attention": areas + 0.25 * (1.0 - context) * (0.9 - areas),
                "area_minimum": np.full(TEXTS, 0.9),
                "own_token": np.where(np.arange(TEXTS) < 20, own, np.nan),
            }
            rows = pl.DataFrame(columns).with_columns(pl.col("own_token").fill_nan(None))
            parts.append(rows.select(pl.lit(name).alias("model"), pl.lit(seed).alias("seed"), "*"))
    return pl.concat(parts)


def values(table):
    rows = Encoder(models=NAMES, seeds=SEEDS).summarise(table)
    return values_of(rows)


def test_the_slope_divides_into_what_was_put_through_the_own_word_and_the_rest():
    found = values(made(0.3, 0.1))
    assert found["indirect_replacement"] == pytest.approx(0.3 * -0.7, abs=0.03)
    assert found["direct_replacement"] == pytest.approx(0.1, abs=0.03)
    parts = found["indirect_replacement"] + found["direct_replacement"]
    assert found["total_replacement"] == pytest.approx(parts)
    half = found["indirect_replacement"] - 0.5 * found["total_replacement"]
    assert found["half_replacement"] == pytest.approx(half)
    assert found["total_gain"] == pytest.approx(-0.25)


@pytest.mark.parametrize(
    ("through", "direct", "outcomes"),
    [
        (0.5, 0.0, ["supported", "supported"]),
        (0.1, -0.4, ["supported", "contradicted"]),
        (-0.5, 0.0, ["contradicted", "contradicted"]),
    ],
)
def test_hypotheses_are_decided_as_the_table_was_made(through, direct, outcomes):
    summary = Encoder(models=NAMES).summarise(made(through, direct))
    by_measure = {one.measure: one.outcome(summary) for one in Encoder.hypotheses}
    assert [by_measure[f"{part}_replacement"] for part in ("total", "half")] == outcomes


def test_the_gain_is_a_ratio_of_means_over_the_matched_texts():
    table = made().with_columns(correct=pl.col("instance") % 7 > 0)
    found = values(table)
    of_none = table.filter(pl.col("correct"), model="none").group_by("seed").agg(
        part=(pl.col("area_attention") - pl.col("area_random")).sum(),
        whole=(pl.col("area_minimum") - pl.col("area_random")).sum(),
    )  # fmt: skip
    assert found["gain_none"] == pytest.approx((of_none["part"] / of_none["whole"]).mean())


def test_a_text_that_one_model_gets_wrong_counts_for_none_of_its_seed():
    wrong = (pl.col("model") == "cnn3") & (pl.col("seed") == 1) & (pl.col("instance") < 10)
    table = made().with_columns(correct=~wrong)
    spoiled = (pl.col("seed") == 1) & (pl.col("instance") < 10)
    other = table.with_columns(
        pl.when(spoiled).then(0.7).otherwise(pl.col(name)).alias(name)
        for name in ("replacement", "area_attention")
    )
    assert values(table) == values(other)


def test_without_any_matched_text_nothing_is_known():
    found = values(made().with_columns(correct=False))
    assert found["replacement_none"] is found["total_gain"] is found["half_gain"] is None
    assert found["own_token_none"] == 1.0


def test_states_are_as_wide_as_the_base_s():
    base = RunSpec.of("planted-decisive", settings={"model.hidden": 16})
    plan = Encoder(seeds=1).plan(base, read_corpus("planted-decisive"))
    assert len(plan) == len(MODELS)
    specs: dict[str, Any] = {one.id.variant or "bilstm": one.spec for one in plan}
    hidden = {name: spec.model.hidden for name, spec in specs.items()}
    assert all(
        hidden[name] == (32 if name.startswith(("average", "cnn", "trans")) else 16)
        for name in MODELS
    )
    assert {one.spec.model.heads for one in plan} == {1}


@pytest.mark.parametrize(
    ("settings", "options", "named"),
    [
        ({"encoder.models": ("average", "cnn3", "bilstm", "mixed50")}, {}, "encoder.models"),
        ({"encoder.models": ("none", "cnn3", "bilstm")}, {}, "encoder.models"),
        ({"encoder.models": ("none", "cnn3", "bilstm", "cnn3")}, {}, "encoder.models"),
        ({}, {"encoder": "cnn"}, "--encoder"),
        ({"model.mixing": 0.3}, {}, "model.mixing"),
    ],
)
def test_what_has_no_effect_is_refused(settings, options, named):
    with pytest.raises(InputError, match=named):
        StudySpec.of("encoder", "planted-decisive", settings=settings, **options)
