"""Models: encoders × attention × heads, built from settings and kept without pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from attnaudit.core.errors import RunError
from attnaudit.core.files import atomic, read_json, write_json
from attnaudit.corpora import Vocabulary
from attnaudit.models.classifier import AttentionModel
from attnaudit.models.presets import ModelSettings, model_preset

__all__ = ["AttentionModel", "ModelSettings", "build_model", "load_model", "model_preset", "save_model"]

# MKL settles which machine code its vector functions run when the first of them is called. Of threads that call it at once, one may now and
# then run another, with other last bits; so the first call is made here, by one.
torch.ones(1).exp()


def build_model(
    settings: ModelSettings, vocabulary: Vocabulary, vectors: Float[np.ndarray, "V E"], class_names: Sequence[str], seed: int,
    has_question: bool = False,
) -> AttentionModel:  # fmt: skip
    """A fresh model whose embeddings start from ``vectors`` (and have their width); all else is drawn from ``seed`` alone.

    With ``has_question`` it reads a question beside each text.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AttentionModel(replace(settings, embedding=vectors.shape[1]), vocabulary, class_names, has_question)
    with torch.no_grad():
        for embedding in (model.embedding, *([model.question.embedding] if model.question else [])):
            embedding.weight.copy_(torch.from_numpy(vectors))
    return model


def save_model(model: AttentionModel, folder: Path) -> None:
    """Write ``weights.safetensors`` (settings and class names in its metadata) and ``vocab.json``. Raises RunError."""
    told = {"settings": asdict(model.settings), "class_names": model.class_names, "asks": model.has_question}
    metadata = {"attnaudit": json.dumps(told, sort_keys=True)}
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with atomic(folder / "weights.safetensors") as temporary:
        save_file(weights, temporary, metadata=metadata)
    write_json(folder / "vocab.json", model.vocabulary.to_json())


def load_model(folder: str | Path) -> AttentionModel:
    """The model that `save_model` wrote. Raises RunError when it is missing or damaged."""
    path = Path(folder) / "weights.safetensors"
    vocabulary = Vocabulary.from_json(read_json(Path(folder) / "vocab.json"))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads(file.metadata()["attnaudit"])
        stored = metadata["settings"]
        settings = ModelSettings(**{**stored, "kernels": tuple(stored["kernels"])})
        model = AttentionModel(settings, vocabulary, metadata["class_names"], metadata["asks"])
        model.load_state_dict(load_file(path))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RunError("load model", str(path), reason, "weights written by attnaudit", "train the model again") from error
    return model
