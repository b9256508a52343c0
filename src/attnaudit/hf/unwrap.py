"""Models in the form that is audited: without wrappers, and with one of several outputs."""

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import Pipeline, PreTrainedModel

from attnaudit.core import describe_error
from attnaudit.hf.labels import one_end, with_logits
from attnaudit.hf.layers import Probe, refusal
from attnaudit.hf.model import FAILURES, reading, tvd

LOGITS = ("logits", "start_logits", "end_logits")
EXACT = 1e-6  # TVD of the predictions with adapters apart, and merged


def unwrap(model: Any) -> Any:
    """Return the model of a pipeline, of DataParallel, of `torch.compile`, or with adapters.

    Adapters of PEFT are merged into a copy. Anything else is returned as it is.

    Raises:
        InputError: The merged copy predicts something else.
    """
    if isinstance(model, Pipeline):
        return unwrap(model.model)
    if isinstance(model, nn.DataParallel | DistributedDataParallel):
        return unwrap(model.module)
    if isinstance(model, nn.Module) and hasattr(model, "_orig_mod"):
        return unwrap(model._orig_mod)
    return _merged(model) if hasattr(model, "merge_and_unload") else model


def _merged(model: Any) -> PreTrainedModel:
    """Merge the adapters of PEFT into a copy of their model."""
    name, merge = type(model).__name__, "model.merge_and_unload()"
    try:
        merged = copy.deepcopy(model).merge_and_unload()
        with reading(model), reading(merged), torch.no_grad():
            inputs = Probe.of(merged).inputs
            own, other = model(**inputs), merged(**inputs)
            change = max(tvd(other[name], own[name]) for name in LOGITS if name in own)
    except FAILURES as error:
        expected = f"{merge} to give a model of the same output"
        raise refusal(name, describe_error(error), expected, "audit such a model") from error
    if change > EXACT:
        got = f"adapters that predict something else when they are merged, by {change:.2g} (TVD)"
        raise refusal(
            name, got, f"at most {EXACT:g}", f"audit {merge}, if it predicts as it should"
        )
    return merged


def one_output(model: Any, name: str | None) -> Any:
    """Return a copy of a classifier with independent outputs that only decides one of them.

    For extractive question answering, the output is one end of the answer (`one_end`).

    The copy has two classes, with the logits 0 and z of that output: their softmax is sigmoid(z).

    Args:
        model: The model.
        name: Name of the output; None for the model as it is.

    Raises:
        InputError: The outputs are not probabilities of their own, or none has this name.
    """
    if type(model).__name__.endswith("ForQuestionAnswering"):
        return one_end(model, name)
    if name is None:
        return model
    config, kind = model.config, type(model).__name__
    names = [str(config.id2label.get(k)) for k in range(config.num_labels)]
    several = config.problem_type == "multi_label_classification"
    if not (several or (len(names) == 1 and config.problem_type != "regression")):
        got = f"num_labels {len(names)}, problem_type {config.problem_type}"
        expected = "outputs that are each the logit of a probability (multi_label_classification)"
        raise refusal(kind, got, expected, "leave output out, or correct config.json")
    if name not in names:
        raise refusal(kind, f"no output {name!r}", f"one of {', '.join(names)}", "")
    k = names.index(name)

    def logits(output, inputs):
        own = output.logits[:, k]
        return torch.stack([torch.zeros_like(own), own], dim=1)

    return with_logits(model, (f"not {name}", name), logits)
