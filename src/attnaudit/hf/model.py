"""A model of the transformers library: its task, its identity, and the modes it is read in."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import logging
from transformers.pytorch_utils import Conv1D

from attnaudit.core import InputError
from attnaudit.models.weights import weights_fingerprint
from attnaudit.training.loop import evaluating, without_gradients

ModelTask = Literal[
    "classification", "token-classification", "question-answering", "causal-lm", "seq2seq"
]
TASKS: dict[str, ModelTask] = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
}
"""Tasks of models with one stack of layers, by the end of the name of their class."""
OF_TOKENS = ("token-classification", "question-answering")
WRITING = ("causal-lm", "seq2seq")
NO_TOKEN = -1  # as the padding token of a configuration, it occurs in no text
LOGITS = 2**27  # of a pass: 512 MiB
# Outputs of the widest layer in a pass. More are new memory for every layer, which takes longer to
# get than to compute on.
NUMBERS = 2**21
# The library's mark of a model with hooks that record what it reports.
MARK = "_output_capturing_hooks_installed"
# Failures of a model that is run in a way that its class does not allow.
FAILURES = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    KeyError,
    AssertionError,
    NotImplementedError,
)
# Parts of a configuration, or their beginnings, that do not change what the model computes.
_NAMES = {
    "_name_or_path",
    "name_or_path",
    "architectures",
    "dtype",
    "torch_dtype",
    "finetuning_task",
    "id2label",
    "label2id",
    "problem_type",
    "return_dict",
    "task_specific_params",
    "tokenizer_class",
    "torchscript",
    "transformers_version",
    "use_cache",
}
_BEGINNINGS = (
    "_attn_implementation",
    "_experts_implementation",
    "chunk_size_feed_forward",
    "initializer",
    "output_",
)


def task_of(model: Any) -> ModelTask | None:
    """Return the task of a model by its class, None if it is none of these."""
    return task_of_class(type(model).__name__, model.config.is_encoder_decoder)


def task_of_class(name: str, has_both: bool) -> ModelTask | None:
    """Return the task of a class by its name, and whether it is an encoder with a decoder."""
    task: ModelTask | None = next((one for end, one in TASKS.items() if name.endswith(end)), None)
    both: ModelTask = "seq2seq"
    return both if has_both and task in (None, *WRITING) else task


def require_task(model: Any) -> ModelTask:
    """Return the task of a model.

    Raises:
        InputError: It is none that an audit knows.
    """
    task = task_of(model)
    if task is None:
        raise no_task(type(model).__name__)
    return task


def no_task(name: str) -> InputError:
    """Return the error for a class without a head that an audit knows."""
    ends = ", ".join(f"…{end}" for end in TASKS)
    expected = f"{ends} or an encoder–decoder that writes"
    do = "an encoder gets a head by attnaudit run TEXTS --model DIR"
    return InputError("check model", name, "no head that an audit knows", expected, do)


def logits_at_query(output: Any, task: ModelTask, position: int = -1) -> Float[Tensor, "N C"]:
    """Return the logits of the prediction: those of a text, or of one of its positions.

    A pass of one position has only that one.
    """
    if task == "classification":
        return output.logits
    return output.logits[:, min(position, output.logits.shape[1] - 1)]


def positions_per_pass(model: Any, budget: int) -> int:
    """Bound the positions of a pass, so that wide layers and large vocabularies fit into memory."""
    output = model.get_output_embeddings()
    layers = [one for one in model.modules() if isinstance(one, nn.Linear | Conv1D)]
    widest = max((max(one.weight.shape) for one in layers if one is not output), default=1)
    parameters = signature(model.forward).parameters
    if require_task(model) in WRITING and "logits_to_keep" not in parameters:
        budget = min(budget, LOGITS // model.config.get_text_config().vocab_size)
    return max(1, min(budget, NUMBERS // widest))


def model_fingerprint(model: Any) -> str:
    """Compute the sha256 of the class, weights and configuration of a model.

    Two models with the same weights may compute differently, as with another activation, number of
    heads or padding token. Names of outputs, dropout and the implementation of attention change
    nothing.
    """

    def computing(config):
        if not isinstance(config, dict):
            return config
        return {
            str(name): computing(value)
            for name, value in config.items()
            if name not in _NAMES
            and not str(name).startswith(_BEGINNINGS)
            and "drop" not in str(name)
        }

    parts = [type(model).__name__, weights_fingerprint(model), computing(model.config.to_dict())]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@contextmanager
def configured(config: Any, **values: Any) -> Iterator[None]:
    """Set values of a configuration inside the block, and restore them afterwards."""
    before = {name: getattr(config, name) for name in values}
    try:
        for name, value in values.items():
            setattr(config, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


@contextmanager
def reading(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode inside the block, without a cache that no call asks for.

    A pass over all positions needs no cache, and the decoder of FSMT sees later tokens in a pass
    that keeps one. A decoder that classifies and has no padding token refuses batches: inside the
    block, it reads the last token of each text of a batch, as of one text. What `model.compile` has
    made is not used, as its functions cannot be watched.
    """
    config = getattr(model, "config", None)
    values: dict[str, Any] = {"use_cache": False} if getattr(config, "use_cache", None) else {}
    if getattr(config, "return_dict", None) is False:
        values["return_dict"] = True
    classifies = type(model).__name__.endswith("ForSequenceClassification")
    if classifies and getattr(config, "pad_token_id", 0) is None:
        values["pad_token_id"] = NO_TOKEN
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(configured(config, **values))
        for module in model.modules():
            if module._compiled_call_impl is not None:
                stack.enter_context(configured(module, _compiled_call_impl=None))
        if torch.get_default_device().type != "cpu":  # of tensors that are made from arrays
            stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Do as `reading`, and let no parameter have a gradient."""
    with reading(model), without_gradients(model):
        yield


def without_padding(model: Any) -> Any:
    """Let no token be padding to a classifier, so that it reads the last of texts of one length."""
    return configured(model.config.get_text_config(), pad_token_id=NO_TOKEN)


def difference(logits: Tensor, others: Tensor) -> float:
    """Return the largest difference of logits, relative to the largest of the others."""
    return float((logits - others).abs().max() / others.abs().max().clamp(min=1e-30))


def tvd(logits: Float[Tensor, "N C"], others: Float[Tensor, "N C"]) -> float:
    """Return the largest total variation distance of the predictions; NaN counts as infinite."""
    gap = (logits.double().softmax(dim=-1) - others.double().softmax(dim=-1)).abs().sum(dim=-1)
    return float(gap.max() / 2) if bool(gap.isfinite().all()) else torch.inf


@contextmanager
def reporting(model: Any) -> Iterator[None]:
    """Let the model compute attention by its own code, and remove the hooks that record reports.

    The library's hooks are local functions, with which a model can no longer be pickled.
    """
    own, verbosity = model.config._attn_implementation, logging.get_verbosity()
    before = [(one, set(one._forward_hooks), MARK in vars(one)) for one in model.modules()]
    logging.set_verbosity_error()  # a class without a choice of implementations says so
    try:
        if own != "eager":
            model.set_attn_implementation("eager")
        yield
    finally:
        if own != "eager":
            model.set_attn_implementation(own)
        logging.set_verbosity(verbosity)
        for module, known, marked in before:
            for key in set(module._forward_hooks) - known:
                del module._forward_hooks[key]
            if not marked:
                vars(module).pop(MARK, None)
