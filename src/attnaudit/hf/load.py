"""Read a model that was saved on disk, without running any code of its folder and without a network."""

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

OPERATION = "read model"
CONFIG, ADAPTER = "config.json", "adapter_config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def load_pretrained(folder: str | Path) -> PreTrainedModel:
    """The model that ``model.save_pretrained(folder)`` has written, of its own class, in evaluation mode.

    Weights are read from safetensors alone, in the precision in which they are saved. Raises InputError for a folder without configuration
    or weights, for a class that transformers does not have, and where a weight of the class is not in the file, or has another shape there:
    from_pretrained would draw it at random.
    """
    folder = Path(folder)
    name = _class_of(folder)
    if not any((folder / weights).is_file() for weights in WEIGHTS):
        pickled = [pickle for pickle in PICKLES if (folder / pickle).is_file()]
        got = f"weights in {pickled[0]} alone" if pickled else "no weights"
        raise InputError(
            OPERATION, str(folder), got, f"{WEIGHTS[0]}, as no pickle is ever read", SAVE_MODEL
        )
    model, found = _read(folder, name)
    if found["mismatched_keys"]:
        weight, saved, wanted = sorted(found["mismatched_keys"])[0]
        got, expected = (
            f"{weight} of shape {_shape(saved)}",
            f"{_shape(wanted)}, by the sizes in {CONFIG}",
        )
        raise InputError(OPERATION, str(folder), got, expected, SAVE_MODEL)
    if found["missing_keys"]:
        missing = sorted(found["missing_keys"])
        shown = ", ".join(missing[:3]) + (
            f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        )
        do = (
            "save the fine-tuned model, head included"
            if name.endswith("Classification")
            else SAVE_MODEL
        )
        raise InputError(
            OPERATION, str(folder), f"no weights {shown}", f"all weights of {name}", do
        )
    return model.eval()


def _class_of(folder: Path) -> str:
    """The class of the saved model, by its configuration."""
    check_model_folder(folder)
    if (folder / ADAPTER).is_file() and not any(
        (folder / weights).is_file() for weights in WEIGHTS
    ):
        do = "merge it in Python: model.merge_and_unload().save_pretrained(DIR), with the tokenizer, and audit DIR"
        raise InputError(
            OPERATION, str(folder), f"an adapter of PEFT alone ({ADAPTER})", "a whole model", do
        )
    if not (folder / CONFIG).is_file():
        raise InputError(
            OPERATION, str(folder), f"no {CONFIG}", "the folder of a saved model", SAVE_MODEL
        )
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        got, expected = describe_error(error), "the configuration of a model, in JSON"
        raise InputError(OPERATION, str(folder / CONFIG), got, expected, SAVE_MODEL) from error
    if not isinstance(config, dict):
        raise InputError(
            OPERATION,
            str(folder / CONFIG),
            f"a {type(config).__name__}",
            "the configuration of a model",
        )
    if config.get("auto_map"):
        got = "a class of its own code (auto_map)"
        do = "code of a model folder is never run; remove auto_map where transformers has the class, else use the Python interface"
        raise InputError(OPERATION, str(folder / CONFIG), got, "a class of transformers", do)
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1:
        raise InputError(
            OPERATION,
            str(folder / CONFIG),
            f"architectures: {names!r}",
            "the name of one class",
            SAVE_MODEL,
        )
    if not _is_model(names[0]):
        version = f"transformers {transformers.__version__}"
        raise InputError(
            OPERATION,
            str(folder / CONFIG),
            f"architectures: {names[0]!r}",
            f"a model class of {version}",
            "check the versions",
        )
    own, stated = getattr(transformers, names[0]).config_class.model_type, config.get("model_type")
    if stated not in (own, None):
        raise InputError(
            OPERATION,
            str(folder / CONFIG),
            f"model_type {stated!r}",
            f"{own!r}, that of {names[0]}",
            "correct one of the two",
        )
    return names[0]


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _is_model(name: Any) -> bool:
    known = getattr(transformers, name, None) if isinstance(name, str) else None
    return isinstance(known, type) and issubclass(known, PreTrainedModel)


def _read(folder: Path, name: str) -> tuple[PreTrainedModel, dict[str, Any]]:
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what is missing is an error here
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            return getattr(transformers, name).from_pretrained(
                folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype="auto", output_loading_info=True,
                ignore_mismatched_sizes=True,
            )  # fmt: skip
    except SafetensorError as error:
        do = "copy or download it again"
        raise InputError(
            OPERATION,
            f"{folder}: {_weights(folder)}",
            f"damaged ({error})",
            "whole safetensors",
            do,
        ) from error
    except Exception as error:  # whatever a configuration makes a class do
        raise InputError(
            OPERATION, str(folder), describe_error(error), f"a model of class {name}", SAVE_MODEL
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def _weights(folder: Path) -> str:
    """The files that hold the weights."""
    return ", ".join(path.name for path in sorted(folder.glob("*.safetensors")))
