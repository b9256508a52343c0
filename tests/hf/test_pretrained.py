"""A pretrained folder that is trained further: resumed as if never stopped, never written to, and refused before it is loaded."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from attnaudit.cli import main
from attnaudit.core.errors import InputError
from attnaudit.core.files import sha256
from attnaudit.core.model_folder import check_to_tune
from attnaudit.core.progress import silent
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.encode import encode, load_tokenizer
from attnaudit.hf.load import load_pretrained, load_to_tune
from attnaudit.hf.texts import texts_of
from attnaudit.hf.train import Tuned
from attnaudit.plans.transformer import FineTuning
from attnaudit.recipes.kinds import model_options
from attnaudit.recipes.small_transformer import marked_inside
from attnaudit.recipes.trained import train_into
from attnaudit.steps import read_manifest
from attnaudit.trace import Trace
from attnaudit.training.settings import Deceive
from attnaudit.training.texts import objective_loss
from benchmarks.pretrained import installed_model
from tests.cli.test_cli import fails
from tests.hf.tokenizing import small, tokenizer

CLASSES = ("negative", "positive")
SMALL = {"corpus.size": 120, "corpus.length": (10, 14), "training.learning_rate": 0.003}
GIVEN = [f"--set={name}={value}" for name, value in (SMALL | {"corpus.length": "10,14"}).items()]
HEADLESS = ("BertModel", "BertForMaskedLM", "RobertaModel", "DistilBertModel", "GPT2Model")


def save(folder, name, **config):
    small(name, **config).save_pretrained(folder)
    tokenizer("wordpiece").save_pretrained(folder)
    return folder


def digests(folder):
    return {path.name: sha256(path) for path in sorted(folder.iterdir())}


def train(folder, out, progress=silent, settings=SMALL):
    spec = FineTuning.of("planted-decisive", folder=folder, settings=settings)
    return train_into(spec, out, progress, further=()) / "model"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save(tmp_path_factory.mktemp("bert"), "BertModel")


@pytest.fixture(scope="module")
def trained(bert, tmp_path_factory):
    return train(bert, tmp_path_factory.mktemp("trained") / "run")


def test_the_folder_stays_and_its_weights_have_changed_in_the_run(bert, trained):
    before = digests(bert)
    spec = json.loads((trained.parent / "spec.json").read_text())
    assert spec["model"] == {"name": bert.name, "weights": check_to_tune(bert), "length": 128}
    assert str(bert) not in json.dumps(spec)
    old, new = load_pretrained(bert).state_dict(), load_pretrained(trained).state_dict()
    assert any(not old[name].equal(new[f"bert.{name}"]) for name in old)
    assert load_pretrained(trained).config.id2label == dict(enumerate(CLASSES))
    assert digests(bert) == before


def test_a_penalty_is_on_the_attention_to_the_marked_tokens(bert):
    corpus = read_corpus("planted-decisive", size=40, length=(10, 24))
    model = Tuned(load_to_tune(bert, CLASSES, 0), load_tokenizer(bert), watched=True).eval()
    encoded = encode(model.model, model.tokenizer, texts_of(corpus))
    rows: Any = np.arange(6)
    inside: Any = marked_inside(encoded, None)
    done = model(model.inputs(inside).batch(rows))
    loss = objective_loss(Deceive(1.0), model, inside, lambda *_: torch.zeros(()))(done, rows)
    alpha = done.alpha.mean(dim=1).detach().numpy()
    marks = list(map(np.flatnonzero, (encoded.rationale or [])[: len(rows)]))
    masses = [alpha[row, marked].sum() for row, marked in enumerate(marks)]
    assert any(map(len, marks))
    assert float(loss.detach()) == pytest.approx(-np.log1p(-np.array(masses)).mean(), rel=1e-4)


def test_a_training_that_was_stopped_ends_with_the_same_bytes(bert, trained, tmp_path):
    def stop(what, done, total):
        if what.startswith("train, epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(bert, tmp_path / "m", stop)
    begun = set()
    again = train(bert, tmp_path / "m", lambda what, done, total: begun.add(what))
    assert {what for what in begun if what.startswith("train")} == {"train, epoch 2 of 2"}
    assert digests(again) == digests(trained)


@pytest.mark.parametrize("name", HEADLESS)
def test_a_head_is_drawn_by_the_seed_and_the_rest_is_read(name, tmp_path):
    folder = save(tmp_path, name)
    one, same, other = (load_to_tune(folder, CLASSES, seed).state_dict() for seed in (0, 0, 1))
    saved = load_pretrained(folder).base_model.state_dict()
    assert all(one[key].equal(same[key]) for key in one)
    body = load_to_tune(folder, CLASSES, 0).base_model.state_dict()
    assert all(saved[key].equal(body[key]) for key in saved.keys() & body.keys())
    assert not all(one[key].equal(other[key]) for key in one)


def test_a_head_of_the_same_classes_goes_on_in_its_own_order(tmp_path):
    names = ["Positive", "NEGATIVE", "neutral"]
    folder = save(tmp_path, "BertForSequenceClassification")
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": dict(enumerate(names)), "label2id": {n: k for k, n in enumerate(names)}}
    (folder / "config.json").write_text(json.dumps(config))
    model: Any = load_to_tune(folder, ("negative", "neutral", "positive"), 5)
    saved = load_pretrained(folder)
    assert list(model.config.id2label.values()) == names
    for one, other in zip(model.parameters(), saved.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def without(name):
    return lambda folder: (folder / name).unlink()


def of(name, **config):
    return lambda folder: save(folder, name, **config)


def lacking_a_layer(folder):
    model: Any = load_pretrained(folder)
    left = {key: one for key, one in model.state_dict().items() if ".layer.1." not in key}
    model.save_pretrained(folder, state_dict=left)


REFUSED = {
    "no classifier": (of("MarianMTModel"), "model_type marian, an encoder with a decoder"),
    "no texts": (of("MambaForCausalLM"), "model_type mamba, no classifier of texts"),
    "no fast tokenizer": (without("tokenizer.json"), "AutoTokenizer.from_pretrained(DIR)"),
    "no configuration": (without("config.json"), "no config.json"),
    "pickles": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "weights only in pytorch_model.bin",
    ),
    "other classes": (
        of("BertForSequenceClassification"),
        "classes LABEL_0, LABEL_1, LABEL_2; expected the corpus's, negative, positive, or no head",
    ),
    "classes of tokens": (of("BertForTokenClassification"), "a trained BertForTokenClassification"),
    "weights that are missing": (lacking_a_layer, "no weights bert.encoder.layer.1."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused_in_one_line(name, bert, tmp_path, capsys):
    change, message = REFUSED[name]
    folder, out = save(tmp_path / "model", "BertModel"), tmp_path / "out"
    change(folder)
    command = ("run", "planted-decisive", "--model", folder, *GIVEN, "--out", out)
    assert message in fails(capsys, *command)
    assert not out.exists()


def test_a_name_goes_before_a_folder(bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cnn").mkdir()
    assert model_options("cnn") == {"encoder": "cnn"}
    assert model_options(str(bert)) == {"folder": str(bert)}
    with pytest.raises(InputError, match="or the folder of a pretrained transformer"):
        model_options("models/bert")


@pytest.mark.slow
@pytest.mark.skipif(installed_model() is None, reason="the extra pretrained is not installed")
def test_a_real_encoder_learns_from_a_few_rows(tmp_path):
    folder: Any = installed_model()
    before = digests(folder / "1_Pooling") | {"weights": sha256(folder / "model.safetensors")}
    settings = SMALL | {"corpus.size": 400, "training.learning_rate": 2e-4, "training.epochs": 3}
    history = read_manifest(train(folder, tmp_path / "run", settings=settings).parent)
    assert history["steps"]["train"]["notes"]["history"][-1]["dev_accuracy"] > 0.9
    after = digests(folder / "1_Pooling") | {"weights": sha256(folder / "model.safetensors")}
    assert after == before


@pytest.mark.slow
def test_heads_are_compared_with_themselves_over_seeds(bert, tmp_path):
    command = ["study", "seeds", "planted-decisive", "--model", str(bert), *GIVEN]
    few = ["--set=seeds.seeds=1", "--set=replacement.texts=0", "--out", str(tmp_path)]
    assert main([*command, *few]) == 0
    table = pl.read_parquet(tmp_path / "seeds/results/seeds.parquet")
    one, other = (
        Trace.read(next(tmp_path.glob(f"trainings/base-s{seed}-*")) / "trace") for seed in (0, 1)
    )
    assert table["head"].to_list() == one.table["head"].to_list() == other.table["head"].to_list()
    pairs = zip(one.alpha, other.alpha, strict=True)
    np.testing.assert_allclose(
        table["jsd"], [jensenshannon(*pair) ** 2 for pair in pairs], atol=1e-6
    )


@pytest.mark.slow
def test_one_command_ends_with_a_verdict(bert, tmp_path):
    few = ["--set=replacement.texts=4", "--set=replacement.copies=10", "--set=model.length=12"]
    command = ["run", "planted-decisive", "--model", str(bert), *GIVEN, *few]
    assert main([*command, "--out", str(tmp_path)]) == 0
    trace = Trace.read(tmp_path / "trace")
    assert trace.metadata["model"]["class"] == "BertForSequenceClassification"
    assert set(trace.array("layer")) == {1}
    assert trace.alpha.lengths.max() == 12
    assert any("longer than 12 tokens" in note for note in read_manifest(tmp_path)["notes"])
    assert (tmp_path / "report.html").exists()
