"""Evidence for and against classes: against loops over predictions, and words of known classes."""

import numpy as np
import pytest
from scipy.stats import kendalltau

import attnaudit as aa
from attnaudit.experiments import make_experiment, refusal
from attnaudit.experiments.class_evidence import ClassEvidence
from attnaudit.experiments.copies import copies_of
from attnaudit.experiments.surrogate import fit_surrogate
from benchmarks.class_evidence import PLANTED, SCORES, separate, summary
from tests.experiments.test_invariances import of_translator
from tests.oracles.class_evidence import naive_evidence, naive_share
from tests.tails import opaque
from tests.traces import known, make_trace, trace_of

LINEAR = {
    "one sigmoid": make_trace(12, (2, 9), seed=1, copies=30),
    "two of a softmax": make_trace(12, (2, 9), 2, seed=2, copies=30),
    "allowed classes": make_trace(12, (2, 9), 6, seed=3, candidates=True, copies=30),
}
BEHIND = {
    "a tanh tail": make_trace(8, (2, 7), 3, seed=4, hidden=5),
    "a network": opaque(make_trace(6, (2, 7), 3, seed=4, hidden=5)),
}


@pytest.mark.parametrize("kind", [*LINEAR, *BEHIND])
def test_every_number_is_that_of_loops(kind):
    trace = (LINEAR | BEHIND)[kind]
    for row, found in enumerate(ClassEvidence()(trace).iter_rows(named=True)):
        classes = [c for c in found["evidence_classes"] if c >= 0]
        if trace.candidates is not None and trace.candidates[row].sum() < 2:
            assert (classes, found["evidence"]) == ([trace.predicted[row]], None)
            continue
        evidence, falls = zip(*(naive_evidence(trace, row, c) for c in classes), strict=True)
        for k, name in enumerate(("erasure", "runner_up")[: len(classes)]):
            share = known(naive_share(trace.alpha[row].tolist(), falls[k]), 1e-9)
            assert found[f"attention_against_{name}"] == share
        even = [1.0] * len(trace.alpha[row])
        assert found["words_against_erasure"] == known(naive_share(even, falls[0]))
        own = np.array(found["evidence"])[:, : len(classes)].T
        assert own == pytest.approx(np.array(evidence if kind in LINEAR else falls), abs=1e-5)
        if kind in LINEAR:
            tau = [kendalltau(*pair)[0] for pair in zip(evidence, falls, strict=True)]
            assert found["tau_erasure"] == known(tau[0], 1e-9)
            if len(found["evidence_classes"]) > 1:
                assert found["tau_erasure_others"] == known(
                    np.nanmean(np.array(tau[1:] or [np.nan], float)), 1e-9
                )


def test_the_surrogate_of_a_class_is_fitted_to_its_own_log_odds():
    trace = LINEAR["one sigmoid"]
    table = ClassEvidence()(trace)
    for row, copies in copies_of(trace, np.ones(len(trace), bool)):
        weights = fit_surrogate(copies.lost, copies.fall)[0].tolist()
        found, evidence = (
            table.row(row, named=True),
            naive_evidence(trace, row, trace.predicted[row])[0],
        )
        if any(weights):
            share = naive_share(trace.alpha[row].tolist(), weights)
            assert found["attention_against_surrogate"] == known(share, 1e-9)
        assert found["tau_surrogate"] == known(kendalltau(evidence, weights)[0], 1e-9)


@pytest.mark.parametrize("kind", LINEAR)
def test_evidence_is_what_attention_adds_to_the_logit_of_uniform_weights(kind):
    trace = LINEAR[kind]
    table, n = ClassEvidence()(trace), len(trace)
    uniform = trace.alpha.with_values(1.0 / trace.alpha.spread(trace.lengths))
    own, even = trace.readout(trace.alpha), trace.readout(uniform)
    for row in range(n):
        numbers, c = table["evidence"][row], trace.predicted[row]
        if numbers is None:
            continue
        logs = []
        for p in (own[row], even[row]):
            both = np.array([1 - p[0], p[0]]) if len(p) == 1 else p
            logs.append(np.log(both[c]) - np.log(np.delete(both, c)[np.delete(both, c) > 0]).mean())
        assert np.array(numbers.to_list())[:, 0].sum() == pytest.approx(logs[0] - logs[1], abs=1e-4)


def test_a_number_added_to_the_logits_of_all_classes_changes_nothing():
    rng = np.random.default_rng(0)
    alpha = [rng.dirichlet(np.ones(5)) for _ in range(6)]
    readout, added = rng.normal(size=(30, 4)), 3.0 * rng.normal(size=(30, 1))
    tables = [ClassEvidence()(trace_of(alpha, parts)) for parts in (readout, readout + added)]
    one, other = (np.array(table["evidence"].to_list()) for table in tables)
    assert one == pytest.approx(other, abs=1e-5)


def test_undefined_rows_and_models_without_classes():
    table = ClassEvidence()(trace_of([[1.0], [0.0, 1.0]], [1.0, 2.0, -1.0]))
    assert table["attention_against_erasure"].to_list() == [None, None]
    assert [one is None for one in table["evidence"].to_list()] == [True, False]
    assert "vocabulary" in (
        refusal(make_experiment("class_evidence"), of_translator(make_trace(3))) or ""
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_the_class_of_planted_words_is_told_without_error(classes):
    """Readouts as they are built: a word adds to its own class, and attention is random."""
    rng = np.random.default_rng(classes)
    words = ["the", "tedious", "tedious", "lovely", "a", "film"]
    alpha = [rng.dirichlet(np.ones(6)) for _ in range(40)]
    readout = np.zeros((6, classes))
    readout[[1, 2, 3], [0, 0, 1]] = 4.0
    trace = trace_of(alpha, np.tile(readout, (40, 1)), tokens=[words] * 40)
    found = separate(trace, ("evidence",))
    assert found["evidence"].to_list() == [1.0] * 40


@pytest.mark.slow
def test_a_trained_model_tells_words_against_its_prediction(tmp_path):
    settings = {f"corpus.{name}": value for name, value in PLANTED.items()}
    settings |= {"corpus.size": 2000, "training.epochs": 15}
    aa.run("planted-prior", tmp_path / "run", model="average", settings=settings)
    trace = aa.Trace.read(tmp_path / "run")
    assert (trace.predicted == trace.array("label")).mean() > 0.95
    means = summary(trace)
    assert all(means[name]["low"] > 0.9 for name in SCORES)
    assert means["erasure_neutral"]["value"] > means["evidence_neutral"]["value"]
