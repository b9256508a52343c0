"""Wrappers around a model, taken off where the model inside predicts the same."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import Pipeline, PreTrainedModel

from attnaudit.core.errors import describe_error
from attnaudit.hf.layers import Probe, refusal
from attnaudit.hf.model import FAILURES, reading, tvd

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
            change = tvd(merged(**inputs).logits, model(**inputs).logits)
    except FAILURES as error:
        expected, do = f"{merge} to give a model of the same output", "audit such a model"
        raise refusal(name, describe_error(error), expected, do) from error
    if change > EXACT:
        got = f"adapters that predict something else when they are merged, by {change:.2g} (TVD)"
        raise refusal(
            name, got, f"at most {EXACT:g}", f"audit {merge}, if it predicts as it should"
        )
    return merged
