"""Models as programs hold them: in pipelines, in parallel, compiled, with adapters, and under any state of torch."""

import copy
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from attnaudit.core.errors import InputError
from attnaudit.hf import check_model, collect
from attnaudit.hf.network import replay_of
from tests.hf.tokenizing import small, tokenizer

TEXTS = ["a good film", "it was bad", "one more"]
TOKENIZER = tokenizer("wordpiece")
QUICK = {"layers": "all", "heads": [0], "scores": ["gradient"]}


class Adapted(nn.Module):
    """A model with an adapter of rank 1 on its output, in the shape of a `PeftModel`."""

    def __init__(self, model, factor=1.0):
        super().__init__()
        self.base_model, self.factor = model, factor
        width, classes = model.classifier.in_features, model.classifier.out_features
        self.up, self.down = (
            nn.Parameter(torch.ones(classes, 1)),
            nn.Parameter(torch.ones(1, width)),
        )
        self.up.data[0] = -1.0

    def forward(self, **inputs):
        given = []
        hook = self.base_model.classifier.register_forward_hook(
            lambda layer, args, out: given.append(args) or out + args[0] @ (self.up @ self.down).T
        )
        with hook:
            return self.base_model(**inputs)

    def merge_and_unload(self):
        with torch.no_grad():
            self.base_model.classifier.weight += self.factor * self.up @ self.down
        return self.base_model


def bert(**settings):
    model = small()
    for name, value in settings.items():
        setattr(model.config, name, value)
    return model


def compiled_in_place():
    model = bert()
    model.compile(backend="eager")
    return model


@contextmanager
def without_gradients():
    torch.set_grad_enabled(False)
    yield
    torch.set_grad_enabled(True)


@contextmanager
def on_another_device():
    torch.set_default_device("meta")
    yield
    torch.set_default_device("cpu")


@pytest.fixture(scope="module")
def plain():
    return collect(bert(), TOKENIZER, TEXTS, **QUICK)


def same(one, other):
    for name in ("prediction", "alpha", "gradient"):
        assert one.table[name].to_list() == other.table[name].to_list()
    assert one.metadata["model"]["fingerprint"] == other.metadata["model"]["fingerprint"]


WRAPPED = {
    "DataParallel": lambda: nn.DataParallel(bert()),
    "torch.compile": lambda: torch.compile(bert(), backend="eager"),
    "compile": compiled_in_place,
    "tuples": lambda: bert(return_dict=False),
    "both": lambda: nn.DataParallel(torch.compile(bert(return_dict=False), backend="eager")),  # pyright: ignore
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_model_gives_the_trace_of_the_model_inside(name, plain):
    model = WRAPPED[name]()
    compiled, dictionary = getattr(model, "_compiled_call_impl", None), name != "tuples"
    same(collect(model, TOKENIZER, TEXTS, **QUICK), plain)
    assert getattr(model, "_compiled_call_impl", None) is compiled
    assert name == "both" or getattr(model, "module", model).config.return_dict is dictionary


def test_a_pipeline_has_its_own_tokenizer(plain):
    pipeline = transformers.pipeline("text-classification", model=bert(), tokenizer=TOKENIZER)
    same(collect(pipeline, TEXTS, **QUICK), plain)
    same(collect(pipeline, corpus=TEXTS, **QUICK), plain)
    assert check_model(pipeline).can_be_audited


@pytest.mark.parametrize("state", [without_gradients, torch.no_grad, on_another_device])
def test_the_state_of_torch_changes_nothing(state, plain):
    model = bert()
    with state():
        trace = collect(model, TOKENIZER, TEXTS, **QUICK)
    same(trace, plain)


def state_of(model):
    """What a caller may have set, and would notice to be changed."""
    modes = [module.training for module in model.modules()]
    weights = [(one.requires_grad, one.grad, one._version) for one in model.parameters()]
    # Not that of Python's own generator, from which the type checker of the tests draws.
    rng, numbers = torch.get_rng_state().tolist(), str(np.random.get_state())  # noqa: NPY002
    hooks = [len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules()]
    switches = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device()
    determinism = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    settings = model.config.to_dict(), model.config._attn_implementation
    return [modes, weights, rng, numbers, hooks, switches, determinism, settings]


@pytest.mark.parametrize("mode", ["train", "frozen", "partly"])
@pytest.mark.parametrize("state", [nullcontext, torch.no_grad])
def test_the_model_and_the_state_of_torch_are_left_as_they_were(mode, state, plain):
    """Dropout is off for the audit and on again after it; weights that are frozen stay so."""
    model = bert()
    model.train(mode != "frozen").requires_grad_(mode != "frozen")
    if mode == "partly":
        model.bert.eval().requires_grad_(False)
    with state():
        before = state_of(model)
        trace = collect(model, TOKENIZER, TEXTS, **QUICK)
        assert state_of(model) == before
        with pytest.raises(InputError):
            collect(model, TOKENIZER, TEXTS, layers=[99])
        assert state_of(model) == before
    same(trace, plain)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_another_default_type_is_refused_and_stays(kind):
    model = bert()
    torch.set_default_dtype(kind)
    try:
        before = state_of(model)
        with pytest.raises(InputError, match=r"torch.set_default_dtype\(torch.float32\)"):
            collect(model, TOKENIZER, TEXTS, **QUICK)
        assert state_of(model) == before
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_mode_without_gradients_for_good_is_refused_and_stays():
    model = bert()
    with torch.inference_mode():
        before = state_of(model)
        with pytest.raises(InputError, match=r"torch.inference_mode\(\)"):
            collect(model, TOKENIZER, TEXTS, **QUICK)
        assert state_of(model) == before


def test_adapters_are_merged_into_a_copy(plain):
    model = Adapted(bert())
    before = copy.deepcopy(model.state_dict())
    trace = collect(model, TOKENIZER, TEXTS, **QUICK)
    assert trace.table["prediction"].to_list() != plain.table["prediction"].to_list()
    assert all(before[name].equal(one) for name, one in model.state_dict().items())
    same(collect(copy.deepcopy(model).merge_and_unload(), TOKENIZER, TEXTS, **QUICK), trace)
    assert replay_of(model).fingerprint == trace.metadata["model"]["fingerprint"]


def test_adapters_that_predict_something_else_are_refused():
    with pytest.raises(
        InputError, match=r"when they are merged, by .* audit model\.merge_and_unload"
    ):
        collect(Adapted(bert(), factor=0.9), TOKENIZER, TEXTS)


def test_another_wrapper_is_told_which_attribute_holds_the_model():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = bert()

    with pytest.raises(InputError, match="take its attribute backbone, if that predicts the same"):
        check_model(Owner())
