"""Which tasks need attention: losses on tables whose answer is known, hard attention, and planted corpora."""

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.metrics import f1_score

from attnaudit.core import read_json
from attnaudit.models.attention import attend
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.report.cards.studies.need import CARD
from attnaudit.results import About, SummaryRows
from attnaudit.studies.need import Need, PairNeed, deciding_share
from attnaudit.studies.uniform import Uniform
from tests.pairs import write_pairs
from tests.studies.identity import values_of

SEEDS, TEXTS = 8, 1000
TINY = {
    "corpus.size": 400, "corpus.length": (10, 12), "model.embedding": 16, "model.hidden": 8, "training.epochs": 12, "need.seeds": 2,
    "training.batch_size": 16, "collect.scores": (),
}  # fmt: skip


def made(lost, seed=0):
    """A base that is right on 0.9 of the texts, and a uniform model that is right on ``lost`` fewer."""
    random, parts = np.random.default_rng(seed), []
    label = np.arange(TEXTS) % 2
    for model, share in (("base", 0.9), ("uniform", 0.9 - lost)):
        for s in range(SEEDS):
            right = random.random(TEXTS) < share
            parts.append(pl.DataFrame({
                "model": model, "seed": s, "instance": np.arange(TEXTS), "label": label,
                "predicted": np.where(right, label, 1 - label), "correct": right, "length": np.arange(TEXTS) % 5,
            }))  # fmt: skip
    return pl.concat(parts)


def outcomes(summary):
    return [one.outcome(summary) for one in Need.hypotheses[:2]]


@pytest.mark.parametrize(
    ("lost", "expected"), [(0.0, ["supported", "open"]), (0.15, ["contradicted", "supported"])]
)
def test_a_planted_loss_is_found_and_its_absence_is_shown(lost, expected):
    summary = Need().summarise(made(lost))
    assert outcomes(summary) == expected
    values = values_of(summary)
    assert values["loss_uniform"] == pytest.approx(
        values["f1_macro_base"] - values["f1_macro_uniform"]
    )
    assert values["length"] == 2.0


def test_scores_are_macro_f1_whatever_the_order_of_rows():
    table = made(0.1)
    values = values_of(Need().summarise(table))
    mean = np.mean([
        f1_score(part["label"], part["predicted"], average="macro")
        for part in table.filter(model="base").partition_by("seed")
    ])  # fmt: skip
    assert values["f1_macro_base"] == pytest.approx(mean)
    mixed = Need().summarise(table.sample(fraction=1.0, shuffle=True, seed=1))
    assert values_of(mixed) == pytest.approx(values)


def test_pairs_count_by_the_share_of_their_gold_tokens():
    table = made(0.0).with_columns(instance=pl.col("instance") // 4)
    values = values_of(PairNeed().summarise(table))
    assert values["accuracy_base"] == pytest.approx(table.filter(model="base")["correct"].mean())


def test_deciding_words_are_the_fewest_with_half_of_the_weight():
    weights = pl.Series([[0.0, -3.0, 1.0, 1.0], [1.0] * 4, [0.0, 0.0], None])
    np.testing.assert_array_equal(deciding_share(weights), [0.25, 0.5, np.nan, np.nan])


def test_hard_attention_is_one_position_with_the_gradient_of_the_softmax():
    torch.manual_seed(0)
    attended = torch.ones(6, 5, dtype=torch.bool)
    attended[0, 2:] = attended[1] = False
    weights, gradients, values = torch.randn(6, 5), [], []
    for hard in (False, True):
        scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
        values.append(attend(scores, attended, hard))
        (values[-1] * weights).sum().backward()
        gradients.append(scores.grad)
    soft, one = values
    assert torch.equal(one.argmax(dim=-1), soft.argmax(dim=-1))
    assert set(one.unique().tolist()) == {0.0, 1.0}
    assert one.sum(dim=-1).tolist() == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert torch.equal(*gradients)


@pytest.mark.slow
def test_a_decisive_word_needs_attention_to_nothing_else(tmp_path, no_pages):
    spec = StudySpec.of("need", "planted-decisive", device="cpu", settings=TINY)
    rows = read_json(run_study(spec, tmp_path) / "summary.json")
    values = {row["measure"]: row["value"] for row in rows}
    assert values["f1_macro_base"] > 0.8
    assert values["f1_macro_hard"] > 0.55
    assert values["f1_macro_words"] > 0.8
    assert 0.0 < values["deciding_share"] <= 0.5
    assert values["equivalence_p_uniform"] is not None


@pytest.mark.slow
def test_translators_and_transformers_are_trained_with_uniform_attention(tmp_path, no_pages):
    pairs = write_pairs(tmp_path / "pairs")
    settings = {"corpus.units": "words", "corpus.min_df": 1, "model.embedding": 8, "model.hidden": 8, "training.epochs": 1, "need.seeds": 1, "collect.pairs": 6}  # fmt: skip
    spec = StudySpec.of("need", pairs, device="cpu", settings=settings)
    rows = read_json(run_study(spec, tmp_path / "out") / "summary.json")
    assert {"accuracy_base", "loss_uniform", "base_bleu"} <= {row["measure"] for row in rows}


def test_the_paper_s_form_is_uniform_at_its_scale():
    spec = StudySpec.of("need", "sst", paper=True)
    assert spec.study == Uniform(seeds=5)
    full = StudySpec.of("need", "sst", full=True)
    assert full.study == Need(seeds=10)
    assert (full.base.training.epochs, full.base.training.patience) == (60, 8)


@pytest.mark.parametrize(
    ("lost", "said"), [(0.3, "is worse"), (-0.09, "is better"), (0.0, "is within 0.03")]
)
def test_the_card_says_which_model_is_better(lost, said):
    found = SummaryRows.of(Need().summarise(made(lost)))
    (row,) = CARD.rows(found, About.of(None, {}))
    assert said in row.sentence
