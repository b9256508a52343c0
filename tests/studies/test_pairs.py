"""Studies of translators: dynamics and deception on pairs whose alignments are known."""

import re

import numpy as np
import polars as pl
import pytest
from sacrebleu.metrics.bleu import BLEU

from attnaudit.core import InputError, RunError, read_json
from attnaudit.recipes.job import read_translations
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.stats.agreement import agreement
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_over_seeds
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies import PAIR_STUDIES
from attnaudit.trace import Trace
from tests.cli.test_cli import fails
from tests.pairs import write_pairs
from tests.steps.calls import made as digests
from tests.studies.identity import assert_order_is_nothing
from tests.studies.identity import training_of as training

TINY = {
    "corpus.units": "words", "corpus.min_df": 1, "model.embedding": 8, "model.hidden": 8, "training.epochs": 2, "training.batch_size": 16,
    "collect.pairs": 6, "decode.beam": 2, "dynamics.seeds": 2, "dynamics.steps": (0, 3, 12), "dynamics.probe": 4,
    "deceive.seeds": 2, "need.seeds": 1, "deceive.strengths": (0.0, 1.0),
}  # fmt: skip


def tiny(study, pairs, **settings):
    others = {*PAIR_STUDIES} - {study}
    known = {key: value for key, value in TINY.items() if key.partition(".")[0] not in others}
    if study == "dynamics":  # which trains for a number of steps
        del known["training.epochs"]
    return StudySpec.of(study, pairs, device="cpu", settings=known | settings)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("texts") / "pairs")


@pytest.fixture(scope="module")
def folder(pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("studies") / "all"
    for study in PAIR_STUDIES:
        run_study(tiny(study, pairs), out)
    return out


def summary(folder, study, group="all"):
    return {
        row["measure"]: row
        for row in read_json(folder / study / "summary.json")
        if row["group"] == group
    }


@pytest.mark.slow
def test_the_mean_embedding_knows_neither_order_nor_what_is_written(folder):
    trace = Trace.read(training(folder, "embedding-s0") / "trace")
    relevance = trace.ragged("importance_relevance")
    of_words = {}
    gold = trace.table["gold"].to_list()
    for row in range(len(trace)):
        for word, value in zip(trace.tokens(row), relevance[row], strict=True):
            assert value == pytest.approx(of_words.setdefault((word, gold[row]), value), abs=1e-5)
    assert np.std(list(of_words.values())) > 0


def places(trace):
    return list(zip(trace.instance.tolist(), trace.array("query").tolist(), strict=True))


def test_dynamics_of_pairs_by_hand(folder):
    """A watched translator is not compared with the most frequent token, which a language model of the targets exceeds by far."""
    table = pl.read_parquet(folder / "dynamics/results/dynamics.parquet")
    trace = Trace.read(training(folder, "watched-s1") / "steps/00003")
    even = Trace.read(training(folder, "watched-uniform-s2") / "trace")
    rows = table.filter(model="base", seed=1, step=3)
    assert rows.select("instance", "query").rows() == places(trace)
    row_of = {place: row for row, place in enumerate(places(even))}
    relevance = even.ragged("importance_relevance")
    other = relevance.take(np.array([row_of[place] for place in places(trace)]))
    other = other.with_values(other.values.astype(np.float64))
    assert rows["agreement_alpha_uniform"].to_list() == agreement(trace.alpha, other).tolist()
    tau = kendall_tau(trace.alpha, other)[0]
    assert rows["tau_alpha_uniform"].fill_null(np.nan).to_numpy() == pytest.approx(tau, nan_ok=True)
    found = summary(folder, "dynamics", "step:3")["agreement_alpha_uniform"]
    of_step = table.filter(model="base", step=3)
    by_pair = of_step.group_by("seed", "instance").agg(pl.col("agreement_alpha_uniform").mean())
    assert found["value"] == pytest.approx(by_pair["agreement_alpha_uniform"].mean())
    assert found["n"] == 4
    finished = summary(folder, "dynamics")
    shown = {"accuracy_embedding", "agreement_alpha_embedding", "xi_threshold"}
    assert shown <= finished.keys()
    assert "agreement_alpha_logistic" not in finished
    base = {name for name in finished if name.startswith("base_")}
    assert base == {"base_bleu", "base_bleu_copy", "base_bleu_other"}
    assert finished["base_bleu"]["value"] == pytest.approx(mean_bleu(folder, "watched"))


def mean_bleu(folder, name):
    """BLEU of sacrebleu, mean over two seeds."""
    written = (read_translations(training(folder, f"{name}-s{seed}")) for seed in (0, 1))
    texts = ([[row[key] for row in one] for key in ("translation", "reference")] for one in written)
    return float(np.mean([BLEU().corpus_score(ours, [theirs]).score for ours, theirs in texts]))


def test_deception_by_hand(folder):
    table = pl.read_parquet(folder / "deceive/results/deceive.parquet")
    trace = Trace.read(training(folder, "deceive-bilinear-1-s0") / "trace")
    both = table.filter(pl.col("query").is_not_null(), model="bilinear", strength=1.0)
    rows = both.filter(seed=0)
    marked = trace.table["rationale"].to_list()
    for row, marks in enumerate(marked):
        known = marks is not None and not all(marks)
        mass = float(trace.alpha[row][np.array(marks)].sum()) if known else None
        assert rows["mass"][row] == (mass if mass is None else pytest.approx(mass))
    assert rows["covered"].to_list() == [bool(marks) and all(marks) for marks in marked]
    assert rows["accuracy"].to_list() == (trace.predicted == trace.array("label")).tolist()
    means = summary(folder, "deceive")
    by_pair = both.group_by("seed", "instance").agg(pl.col("mass").mean()).drop_nulls()
    by_seed = by_pair.group_by("seed").agg(pl.col("mass").mean())
    assert means["mass_bilinear_1"]["value"] == pytest.approx(by_seed["mass"].mean())
    bleu = means["bleu_bilinear_1"]
    assert (bleu["value"], bleu["n"]) == (
        pytest.approx(mean_bleu(folder, "deceive-bilinear-1")),
        16,
    )
    uniform = {"accuracy_uniform", "mass_uniform", "bleu_uniform", "tau_loo_bilinear_0"}
    assert uniform <= means.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pages")
def test_a_penalty_takes_attention_off_what_is_aligned(pairs, tmp_path):
    settings = {"training.epochs": 8, "training.learning_rate": 0.01, "deceive.seeds": 1}
    spec = tiny("deceive", pairs, **settings, **{"deceive.strengths": (0.0, 2.0)})
    run_study(spec, tmp_path / "out")
    means = summary(tmp_path / "out", "deceive")
    assert means["mass_bilinear_2"]["high"] < means["mass_bilinear_0"]["low"]


def test_bleu_is_that_of_sacrebleu_and_resamples_pairs_whole():
    references = ["a man in a blue shirt stands on a ladder", "two dogs run", "a b c d"]
    written = ["a man in a blue shirt is on a ladder", "two dogs are running", "e f"]
    counts = bleu_counts(written, references)
    expected = BLEU().corpus_score(written, [references]).score
    assert bleu(counts.sum(axis=0)) == pytest.approx(expected)
    values, again = bleu_over_seeds(np.stack([counts, counts[::-1]]), seed=3, resamples=50)
    assert values == pytest.approx([bleu(counts.sum(axis=0))] * 2)
    assert again.min() < values[0] < again.max()
    alike = np.stack([counts[:1].repeat(4, axis=0)] * 2)
    resampled = bleu_over_seeds(alike, seed=3, resamples=5)[1]
    assert resampled == pytest.approx([bleu(counts[0])] * 5)


@pytest.mark.parametrize("study", PAIR_STUDIES)
def test_the_order_of_a_plan_changes_nothing(pairs, folder, study):
    assert_order_is_nothing(tiny(study, pairs), folder)


@pytest.mark.usefixtures("no_pages")
def test_seed_by_seed_is_the_same_as_all(pairs, folder, tmp_path):
    spec = tiny("dynamics", pairs, **{"dynamics.seeds": 1})
    one = run_study(spec, tmp_path / "one").parent
    assert digests(training(one, "watched-s0")) == digests(training(folder, "watched-s0"))


@pytest.mark.parametrize(("study", "settings", "told"), [
    ("dynamics", {"model.attention": "uniform"}, "an attention that is learned"),
    ("dynamics", {"model.heads": 2}, "one attention a text"),
    ("deceive", {"model.attention": "none"}, "an attention that is learned"),
    ("deceive", {"deceive.strengths": (0.0, 1.0, -0.0)}, "none twice"),
    ("dynamics", {"training.steps": 50}, "setting training.steps: 50, which has no effect in dynamics; expected dynamics.steps"),
    ("dynamics", {"collect.scores": ("gradient",)}, "setting collect.scores: "),
])  # fmt: skip
def test_what_is_refused(pairs, tmp_path, study, settings, told):
    with pytest.raises(InputError, match=re.escape(told)):
        run_study(tiny(study, pairs, **settings), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pages")
def test_a_study_that_counts_steps_lies_beside_one_of_other_epochs(pairs, tmp_path):
    steps = tiny("dynamics", pairs, **{"dynamics.steps": (0, 1), "dynamics.seeds": 1})
    short = {"training.epochs": 1, "deceive.seeds": 1, "deceive.strengths": (0.0,)}
    for spec in (steps, tiny("deceive", pairs, **short), steps):
        run_study(spec, tmp_path / "out")
    with pytest.raises(RunError, match=r"of another model or corpus: model\.hidden = 12, there 8;"):
        run_study(tiny("deceive", pairs, **short, **{"model.hidden": 12}), tmp_path / "out")


def test_a_corpus_of_pairs_is_known_by_its_endings_and_a_misspelt_one_by_its_name(tmp_path, capsys):
    bare = write_pairs(tmp_path / "p1")
    for given, told in (
        (f"uniform {bare}", "one of need, deceive, dynamics"),
        (f"deceive {bare} --model cnn", "--model: cnn"),
        (f"dynamics {bare} --set corpus.source_ending=xx", "no pairs among"),
        (f"dynamics {bare} --set corpus.target_ending=xx", "no file .xx"),
        ("dynamics multi30k", "did you mean multi30k_en_de?"),
    ):
        assert told in fails(capsys, "study", *given.split(), "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
