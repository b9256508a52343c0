"""How easily attention moves by the complexity of model and data: the area against its definition, and slopes."""

import numpy as np
import polars as pl
import pytest
from scipy.special import softmax

from attnaudit.core import InputError, read_json
from attnaudit.corpora.prepare.derived import of_classes
from attnaudit.corpora.read import read_corpus
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.confidence import CONFIDENCE, at_same_confidence
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.studies.adversary import EPSILONS
from attnaudit.studies.complexity import Complexity, room, toward_uniform
from tests.experiments.test_confidence import scaled
from tests.oracles.readout import naive_jsd, naive_tvd
from tests.studies.identity import values_of
from tests.traces import make_trace

LENGTHS = np.array([2, 5, 9, 3, 7])


def naive_way(logits, own, alpha, epsilon):
    """The furthest of 2,001 steps towards uniform attention whose output is within ε."""
    even = np.full(len(alpha), 1.0 / len(alpha))
    best = 0.0
    for step in np.linspace(0.0, 1.0, 2_001):
        p = softmax(logits @ ((1 - step) * alpha + step * even))
        best = step if naive_tvd(p.tolist(), own.tolist()) <= epsilon else best
    return naive_jsd((1 - best) * alpha + best * even, alpha)


@pytest.mark.parametrize("outputs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_area_is_what_its_definition_gives(outputs):
    trace = make_trace(len(LENGTHS), LENGTHS, outputs, seed=3)
    matched = at_same_confidence(trace)
    assert matched is not None
    found = room(trace, np.arange(len(trace)))
    for row in range(len(trace)):
        alpha = trace.alpha[row].astype(np.float64)
        alpha /= alpha.sum()
        # The offset is the same under any attention, so it may be a share of each word.
        logits = matched.readout.contribution[row].T + matched.readout.offset[row][:, None]
        logits = np.vstack([np.zeros(len(alpha)), logits]) if outputs == 1 else logits
        own = softmax(logits @ alpha)
        assert own.max() == pytest.approx(CONFIDENCE, abs=1e-5)
        lead = []
        for epsilon in EPSILONS:
            bounded = Adversary(epsilon=epsilon).bounded(matched.readout, trace.alpha)
            furthest = naive_jsd(bounded.attention[row], alpha)
            lead.append(furthest - naive_way(logits, own, alpha, epsilon))
        parts = zip(EPSILONS, EPSILONS[1:], lead, lead[1:], strict=False)
        area = sum(0.5 * (b - a) * (left + right) for a, b, left, right in parts)
        expected = area / (EPSILONS[-1] - EPSILONS[0]) / np.log(2.0)
        assert found[row] == pytest.approx(expected, abs=1e-3)


def test_scaled_logits_and_chosen_rows_leave_the_area_as_it_is():
    trace = make_trace(len(LENGTHS), LENGTHS, 1, seed=3)
    every = room(trace, np.arange(len(trace)))
    assert room(scaled(trace, 3.0), np.arange(len(trace))) == pytest.approx(every, abs=1e-6)
    assert room(trace, np.array([3, 1])) == pytest.approx(every[[3, 1]])


def test_the_whole_way_to_uniform_is_gone_where_it_is_allowed():
    trace = make_trace(len(LENGTHS), LENGTHS, 1, seed=3)
    found = toward_uniform(trace.readout, trace.alpha, 1.0)
    assert found.values == pytest.approx(1.0 / trace.alpha.spread(trace.alpha.lengths))
    found = toward_uniform(trace.readout, trace.alpha, 0.0)
    assert found.values == pytest.approx(trace.alpha.values, abs=1e-6)


def made(slope, far=0.0):
    """A table whose area rises by ``slope`` for each doubling of the width, with seeds apart."""
    parts, noise = [], np.random.default_rng(0).normal(0.0, 0.1, 40)
    for model, hidden in (("base", 64.0), ("hidden16", 16.0), ("hidden256", 256.0)):
        for seed in range(3):
            parts.append(
                pl.DataFrame({
                    "model": model, "seed": seed, "instance": np.arange(40), "hidden": hidden, "train": 1.0,
                    "length": 9.0, "classes": 2.0, "area": 0.5 + slope * np.log2(hidden) + 0.1 * seed + noise,
                    "jsd": 0.3, "seed_jsd": 0.1, "tvd": 0.05 + far * (hidden == 16.0), "seed_tvd": 0.1,
                })
            )  # fmt: skip
    return Complexity(seeds=3).summarise(pl.concat(parts))


@pytest.mark.parametrize(("slope", "outcome"), [(0.02, "supported"), (-0.02, "contradicted")])
def test_slopes_are_per_doubling_and_decide_the_claim(slope, outcome):
    summary = made(slope)
    found = values_of(summary)
    assert found["slope_area_hidden"] == pytest.approx(slope)
    assert found["held_out_base"] == pytest.approx(0.2)
    outcomes = {one.measure: one.outcome(summary) for one in Complexity.hypotheses}
    assert outcomes["slope_area_hidden"] == outcome
    assert outcomes["slope_area_train"] == "open", "of no model with fewer rows"


def test_an_adversary_that_predicts_less_alike_than_another_seed_does_not_count():
    names = made(0.0, far=0.1)["measure"].to_list()
    assert "held_out_hidden16" not in names
    assert {"held_out_hidden256", "tvd_hidden16", "slope_held_out_hidden"} <= set(names)


def test_only_factors_that_a_corpus_has_are_varied(tmp_path):
    generated = read_corpus("planted-decisive")
    study = Complexity(hidden=(4, 128), seeds=3)
    plan = study.plan(RunSpec.of("planted-decisive"), generated)
    assert {one.id.variant for one in plan} == {"", "hidden4"}, "128 is the base's"
    roles = [(one.id.role, one.id.seed) for one in plan if not one.id.variant]
    assert roles == [
        (role, seed)
        for seed in range(3)
        for role, seed in (("base", seed), ("adversary", (seed + 1) % 3))
    ]
    rows = [f"{'one two three four five six seven ' * 2}{name},{name}" for name in "abcd" * 30]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    base = RunSpec.of(tmp_path / "texts.csv", settings={"corpus.train_kept": 0.5})
    plan = Complexity(length=(10, 25), train=(0.2,), hidden=()).plan(base, read_corpus(base.corpus))
    assert {one.id.variant for one in plan} == {"", "train0.2", "length10", "classes2"}
    kept = {one.id.variant: one.spec.corpus.train_kept for one in plan}
    assert kept["train0.2"] == pytest.approx(0.1)
    rules = {one.spec.corpus.min_df for one in plan if one.id.variant in ("train0.2", "length10")}
    assert rules == {1}, "as the base's, whatever the number of rows"


@pytest.mark.slow
@pytest.mark.usefixtures("no_pages")
def test_trainings_read_the_corpus_as_their_variant_cuts_it(tmp_path):
    random = np.random.default_rng(0)
    texts = (" ".join(f"w{k}" for k in random.integers(0, 30, 14)) for _ in range(180))
    rows = [f"{text} {'abc'[k % 3] * 3},{'abc'[k % 3]}" for k, text in enumerate(texts)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    own = {"hidden": (), "train": (0.5,), "length": (10,), "seeds": 3, "texts": 4}
    settings = {f"complexity.{name}": value for name, value in own.items()}
    settings |= {"model.embedding": 8, "model.hidden": 4, "training.epochs": 1}
    spec = StudySpec.of("complexity", tmp_path / "texts.csv", vectors="random", settings=settings)
    place = run_study(spec, tmp_path / "out")
    table = pl.read_parquet(place / "results/complexity.parquet")
    levels = table.group_by("model").agg(pl.col("train", "length", "classes").first())
    assert {row[0]: row[1:] for row in levels.iter_rows()} == {
        "base": (1.0, 15.0, 3.0), "train0.5": (0.5, 15.0, 3.0),
        "length10": (1.0, 10.0, 3.0), "classes2": (1.0, 15.0, 2.0),
    }  # fmt: skip
    (half,) = (tmp_path / "out/trainings").glob("base-train0.5-s0-*")
    assert read_json(half / "manifest.json")["corpus"]["rows"] == {
        "train": 72,
        "dev": 18,
        "test": 18,
    }
    said = []
    run_study(spec, tmp_path / "out", say=said.append)
    assert not any(" s (" in line for line in said), "nothing is trained again"


def test_of_classes_keeps_the_first():
    corpus = read_corpus("planted-decisive")
    assert of_classes(corpus, 2).splits["test"].tokens == corpus.splits["test"].tokens
    with pytest.raises(InputError, match=r"corpus\.classes"):
        of_classes(corpus, 3)


@pytest.mark.parametrize(
    "levels",
    [{"train": (1.5,)}, {"train": (0.0,)}, {"hidden": (0,)}, {"classes": (1,)}, {"seeds": 2}],
)
def test_levels_out_of_range_are_refused(levels):
    texts = [f"one two {name}" for name in "abc" * 30]
    corpus = read_corpus(pl.DataFrame({"text": texts, "label": list("abc" * 30)}))
    base = RunSpec.of("texts.csv")
    with pytest.raises(InputError, match=next(iter(levels))):
        Complexity(**levels).plan(base, corpus)
