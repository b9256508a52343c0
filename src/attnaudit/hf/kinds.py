"""Kinds of models that cannot be audited, found before anything is computed."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedModel

from attnaudit.hf.labels import OneEnd, require_end
from attnaudit.hf.model import WRITING, no_task, task_of


def objections(model: Any) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with the kind of a model: what was found, expected, and what to do."""
    if not isinstance(model, PreTrainedModel):
        parts = {**getattr(model, "__dict__", {}), **getattr(model, "_modules", {})}
        inner = (name for name, part in parts.items() if isinstance(part, PreTrainedModel))
        name = next(inner, None)
        read = f"take its attribute {name}, if that predicts the same" if name else ""
        read = read or "read it with from_pretrained"
        yield "no model of the transformers library", "a PreTrainedModel", read
    kinds = (type(module) for module in model.modules())
    quantised = next((kind.__name__ for kind in kinds if ".quantized" in kind.__module__), None)
    if quantised is not None:
        got = f"a quantised model (torch.ao.quantization, modules of class {quantised})"
        expected = "a model in floating point, as gradients need it"
        yield got, expected, "audit the model before it is quantised"
    weights = dict(model.named_parameters())
    if any(weight.is_meta for weight in weights.values()):
        got, expected = "weights without values (device meta)", "a model with its weights"
        yield got, expected, "read it with from_pretrained"
    if model.main_input_name != "input_ids":
        yield f"a model of {model.main_input_name}", "a model of tokens"
    task = task_of(model)
    if model.config.is_encoder_decoder and task not in (None, *WRITING):
        yield "a classifier with encoder and decoder", "one with a single stack of layers"
    if task == "question-answering" and not issubclass(type(model), OneEnd):
        require_end(type(model).__name__, None)
    from_library = type(model).__module__.startswith("transformers.")
    if task is None and from_library and model.get_output_embeddings() is None:
        raise no_task(type(model).__name__)
    halves = (torch.float16, torch.bfloat16) if model.device.type == "cpu" else ()
    others = {torch.float64, *halves} & {weight.dtype for weight in weights.values()}
    if others:
        got = f"weights in {', '.join(sorted(map(str, others)))}"
        got += "" if torch.float64 in others else " on a CPU"
        save = "model.float().save_pretrained(DIR), with its tokenizer, and audit DIR"
        yield got, "float32", f"save it so in Python: {save}"
    if torch.is_inference_mode_enabled() or any(w.is_inference() for w in weights.values()):
        do = "read the model and audit it outside of it; torch.no_grad() may stay"
        yield "torch.inference_mode()", "tensors that may have gradients", do
    if (default := torch.get_default_dtype()) != torch.float32:
        expected = "torch.float32, as the weights are"
        yield f"torch's default type {default}", expected, "torch.set_default_dtype(torch.float32)"
    damaged = next((path for path, w in weights.items() if not w.isfinite().all()), None)
    if damaged is not None:
        got, do = (
            f"weights {damaged} that are no finite numbers",
            "train it again, or take an earlier",
        )
        yield got, "finite weights", f"{do} checkpoint"
