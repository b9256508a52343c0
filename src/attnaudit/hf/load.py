"""Read a saved model from disk, without running any code of its folder and without a network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError
from transformers import PreTrainedModel, logging

from attnaudit.core.errors import InputError, describe_error
from attnaudit.core.files import SAVE_MODEL, check_model_folder

CONFIG, ADAPTER = "config.json", "adapter_config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def load_pretrained(folder: str | Path) -> PreTrainedModel:
    """Read the model that ``model.save_pretrained(folder)`` has written.

    Weights are only read from safetensors, in their saved precision.

    Args:
        folder: The folder.

    Returns:
        The model, of its own class, in evaluation mode.

    Raises:
        InputError: There is no configuration or no weights, transformers lacks the class, or a
            weight of the class is missing or has another shape: from_pretrained would draw it at
            random.
    """
    folder = Path(folder)
    check_model_folder(folder)
    has_weights = any((folder / name).is_file() for name in WEIGHTS)
    if (folder / ADAPTER).is_file() and not has_weights:
        merge = "model.merge_and_unload().save_pretrained(DIR), with the tokenizer, and audit DIR"
        got = f"an adapter of PEFT alone ({ADAPTER})"
        raise _error(folder, got, "a whole model", f"merge it in Python: {merge}")
    name = _class_name(folder)
    if not has_weights:
        pickles = (f"weights in {name} alone" for name in PICKLES if (folder / name).is_file())
        got = next(pickles, "no weights")
        raise _error(folder, got, f"{WEIGHTS[0]}, as no pickle is ever read")
    model, loaded = _read(folder, name)
    for weight, saved, wanted in sorted(loaded["mismatched_keys"]):
        got = f"{weight} of shape {_sizes(saved)}"
        raise _error(folder, got, f"{_sizes(wanted)}, by the sizes in {CONFIG}")
    if missing := sorted(loaded["missing_keys"]):
        head = name.endswith("Classification")
        do = "save the fine-tuned model, head included" if head else SAVE_MODEL
        got = f"no weights {', '.join(missing[:3])}"
        raise _error(folder, got, f"all weights of {name}", do)
    return model.eval()


def _error(place: Path | str, got: str, expected: str, do: str = SAVE_MODEL) -> InputError:
    return InputError("read model", str(place), got, expected, do)


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _class_name(folder: Path) -> str:
    """Return the class of the saved model, by its configuration."""
    path = folder / CONFIG
    if not path.is_file():
        raise _error(folder, f"no {CONFIG}", "the folder of a saved model")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        own_code, names = config.get("auto_map"), config.get("architectures")
    except (OSError, ValueError, AttributeError) as error:
        expected = "the configuration of a model, in JSON"
        raise _error(path, describe_error(error), expected) from error
    if own_code:
        got, expected = "a class of its own code (auto_map)", "a class of transformers"
        do = "remove auto_map where transformers has the class; code of a folder is never run"
        raise _error(path, got, expected, do)
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    kind: Any = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
        expected = f"one model class of transformers {transformers.__version__}"
        raise _error(path, f"architectures: {names!r}", expected, "check the versions")
    return kind.__name__


def _read(folder: Path, name: str) -> tuple[PreTrainedModel, dict[str, Any]]:
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what is missing is an error here
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            return getattr(transformers, name).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype="auto",
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except SafetensorError as error:
        files = ", ".join(path.name for path in sorted(folder.glob("*.safetensors")))
        place, do = f"{folder}: {files}", "copy or download it again"
        raise _error(place, f"damaged ({error})", "whole safetensors", do) from error
    except Exception as error:  # whatever a configuration makes a class do
        raise _error(folder, describe_error(error), f"a model of class {name}") from error
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
