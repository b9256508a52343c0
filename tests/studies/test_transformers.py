"""Studies of small transformers: the trainings of `hf train`, uniform layers, and what an audit uncovers against a naive count."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from attnaudit.core import InputError, read_json
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.recipes.trained import train_into
from attnaudit.report.models import model_label
from attnaudit.studies import TRANSFORMER_STUDIES
from attnaudit.studies.uncovering import UNCOVERING, uncovering
from attnaudit.trace import Trace
from tests.cli.test_cli import fails
from tests.hf.test_train import spec as training_spec
from tests.pages import summaries_as_pages
from tests.studies.identity import assert_order_is_nothing, shuffled_traces
from tests.studies.identity import training_of as training
from tests.traces import make_trace, with_columns

CORPUS = "planted-decisive"
TINY = {
    "model.width": 32, "model.inner": 32, "corpus.size": 120, "corpus.length": (10, 14), "training.epochs": 3, "uniform.seeds": 2, "need.seeds": 1,
    "deceive.strengths": (0.0, 1.0), "deceive.seeds": 1, "collect.sample": 9,
}  # fmt: skip


def tiny(study, source=CORPUS, config="tiny-bert", **settings):
    others = set(TRANSFORMER_STUDIES) - {study}
    known = {key: value for key, value in TINY.items() if key.partition(".")[0] not in others}
    return StudySpec.of(study, source, config=config, full=True, settings=known | settings)


@pytest.fixture(scope="module")
def folder(one_registry, tmp_path_factory):
    """Both studies of one tiny model, with their pages, but for that of the audit."""
    out = tmp_path_factory.mktemp("studies") / "all"
    with summaries_as_pages():
        for study in TRANSFORMER_STUDIES:
            run_study(tiny(study), out)
    return out


def measures(folder, study):
    return {row["measure"]: row for row in read_json(folder / study / "summary.json")}


@pytest.mark.slow
def test_the_base_is_the_model_that_hf_train_gives(folder, tmp_path):
    alone = train_into(training_spec(), tmp_path / "alone", further=()) / "model"
    saved = training(folder, "base-s0") / "model"
    for name in ("model.safetensors", "tokenizer.json"):
        assert (saved / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.slow
def test_uniform_layers_attend_uniformly_and_others_do_not(folder):
    def farthest(name):
        alpha = Trace.read(training(folder, name) / "trace").alpha
        return float(np.abs(alpha.values - 1.0 / alpha.spread(alpha.lengths)).max())

    assert farthest("uniform-s0") < 1e-6
    assert farthest("uniform-layer1-s0") < 1e-6
    assert farthest("base-s0") > 1e-4
    config = Trace.read(training(folder, "uniform-s0") / "trace").metadata["model"]
    assert config["name"] == "tiny-bert"
    assert config["uniform"] == [0, 1]


@pytest.mark.slow
def test_the_differences_are_paired_by_text_and_seed(folder):
    table = pl.read_parquet(folder / "uniform/results/uniform.parquet")
    # There is no row for each head.
    assert set(table.group_by("model", "seed").len()["len"]) == {9}
    right = table.with_columns(right=pl.col("probabilities").list.arg_max() == pl.col("label"))
    means = dict(right.group_by("model").agg(pl.col("right").mean()).iter_rows())
    found = measures(folder, "uniform")
    for model in ("uniform", "uniform_layer1"):
        gap = means[model] - means["base"]
        for name, value in (("accuracy", means[model]), ("difference_accuracy", gap)):
            assert found[f"{name}_{model}"]["value"] == pytest.approx(value)
    assert model_label("uniform_layer1") == "uniform attention in layer 1"


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_of_the_trainings(folder):
    for study in TRANSFORMER_STUDIES:
        assert_order_is_nothing(tiny(study), folder)


@pytest.mark.slow
def test_seeds_of_deceive_are_kept_apart(folder):
    """Traces of one seed stand for those of another: that of λ = 0 for λ = 1, and the other way round."""
    spec = tiny("deceive")
    first = dict(shuffled_traces(spec, folder))
    second = {
        replace(one, seed=1, strength=None if one.strength is None else 1.0 - one.strength): trace
        for one, trace in first.items()
    }
    table = spec.study({**second, **first})
    assert table.equals(spec.study({**first, **second}))
    assert (table.filter(strength=0.0)["jsd"] < 1e-9).all()
    assert (table.filter(strength=1.0)["jsd"] > 1e-9).all()


@pytest.mark.slow
def test_deceive_says_how_often_an_audit_names_what_is_hidden(folder):
    found = measures(folder, "deceive")
    names = [measure.name for measure in UNCOVERING]
    assert {
        f"{name}_tiny-bert_{strength}"
        for name in ("accuracy", "mass", *names)
        for strength in (0, 1)
    } <= set(found)
    assert found["mass_tiny-bert_1"]["value"] < found["mass_tiny-bert_0"]["value"]
    assert found["accuracy_tiny-bert_removed"]["n"] == 9
    assert not any(name.endswith("_removed") and not name.startswith("accuracy") for name in found)
    page = (folder / "deceive/report.html").read_text()
    assert "share where leave-one-out names an impermissible token" in page
    index = (folder / "index.html").read_text()
    assert 'href="audit/report.html"' in index
    assert "attnaudit study seeds" not in index  # no study of transformers


def several_heads(n, seed):
    """Rows of two heads of a text, with a special token at either end, and random marks."""
    rng = np.random.default_rng(seed)
    trace = make_trace(n, (4, 12), 1, seed, gradient=True, loo=True)
    lengths = trace.alpha.lengths
    special = np.zeros(lengths.sum(), bool)
    special[trace.alpha.offsets[:-1]] = special[trace.alpha.offsets[1:] - 1] = True
    marks = (rng.random(lengths.sum()) < 0.3) & ~special
    trace = with_columns(
        trace,
        special=trace.alpha.with_values(special),
        instance=np.arange(n) // 2,
        layer=np.ones(n, np.int32),
        head=np.arange(n, dtype=np.int32) % 2,
        query=np.zeros(n, np.int32),
    )
    return trace, trace.alpha.with_values(marks)


def naive(trace, marked, row):
    """What a reader would count of a row, token by token."""
    marks, special = marked[row].tolist(), trace.cell("special", row)
    words = [place for place in range(len(marks)) if not special[place]]
    hidden = [place for place in words if marks[place]]
    found = {}
    for name, column in (("attention", "alpha"), ("gradient", "gradient"), ("loo", "loo")):
        values = trace.cell(column, row)
        found[f"found_{name}"] = float(max(words, key=lambda place: values[place]) in hidden)
    one = trace.take(np.array([row]))
    change = MaximalChange()(one)
    found["found_change"] = float(change["position"][0] in hidden)
    found["found_erasure"] = float(bool(set(Erasure()(one)["minimum"][0]) & set(hidden)))
    found["found_random"] = len(hidden) / len(words)
    found["max_delta_y"] = float(change["max_delta_y"][0])
    found["flips"] = float(change["flips"][0])
    return {
        name: value if 0 < len(hidden) < len(words) else np.nan for name, value in found.items()
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_uncovering_counts_as_a_reader_would(seed):
    trace, marked = several_heads(24, seed)
    table = uncovering(trace, marked).fill_null(np.nan)
    assert table.columns == [measure.name for measure in UNCOVERING]
    for row in range(len(trace)):
        for name, value in naive(trace, marked, row).items():
            assert table[name][row] == pytest.approx(value, nan_ok=True), (row, name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"seeds {CORPUS} --model tiny-bert", "one of need, uniform, deceive for tiny-bert"),
        (f"uniform {CORPUS} --model tiny-gpt2", "a model of next tokens; expected a classifier"),
        (f"uniform {CORPUS} --model tiny-bert --set uniform.layers=2", "layers from 0 to 1"),
        (f"need {CORPUS} --model tiny-bert --set need.layers=2", "setting need.layers"),
        (f"uniform {CORPUS} --model tiny-bert --set uniform.layers=top", "all, last, or layers"),
        (f"deceive {CORPUS} --model tiny-bert --set deceive.strengths=-1", "a λ of 0 or more"),
        ("deceive planted-question --model tiny-bert", "texts without questions"),
    ],
)
def test_bad_input_is_one_line(arguments, said, tmp_path, capsys):
    out = tmp_path / "out"
    command = ("study", *arguments.split(), "--set", "corpus.size=60", "--out", out)
    assert said in fails(capsys, *command)
    assert not out.exists()


@pytest.mark.slow
def test_deceive_needs_words_to_hide(tmp_path):
    films = [f"a {word} film number {k},{word}" for k in range(30) for word in ("good", "bad")]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *films]))
    settings = {
        **{name: TINY[name] for name in ("model.width", "model.inner", "collect.sample")},
        **{"training.epochs": 1, "deceive.strengths": (1.0,), "deceive.seeds": 1},
    }
    options = {"config": "tiny-bert", "settings": settings}
    with pytest.raises(InputError, match="rationale"):
        run_study(StudySpec.of("deceive", tmp_path / "texts.csv", **options), tmp_path / "out")
    settings["deceive.words"] = ("good", "bad")
    run_study(StudySpec.of("deceive", tmp_path / "texts.csv", **options), tmp_path / "out")
    trace = Trace.read(training(tmp_path / "out", "deceive-tiny-bert-1-s0") / "trace")
    marked = trace.table.select("tokens", "rationale").explode("tokens", "rationale")
    hidden = set(marked.filter("rationale")["tokens"])
    assert hidden == {"good", "bad"}
