"""Folders of saved transformers, checked before a large library is loaded."""

import json
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, describe_error
from attnaudit.core.files import content_key, sha256

SAVE_MODEL = "save it with model.save_pretrained(DIR)"
CONFIG, ADAPTER, TOKENIZER = "config.json", "adapter_config.json", "tokenizer.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def refusal(place: Path | str, got: str, expected: str, do: str = SAVE_MODEL) -> InputError:
    """Return the error for a folder without a model that can be read."""
    return InputError("read model", str(place), got, expected, do)


def check_model_folder(folder: Path) -> dict[str, Any]:
    """Return the configuration of a saved model.

    Raises:
        InputError: There is no folder, no configuration or no weights in safetensors, or the model
            is of a class of its own.
    """
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise refusal(folder, got, "the folder of a saved model")
    has_weights = any((folder / name).is_file() for name in WEIGHTS)
    if (folder / ADAPTER).is_file() and not has_weights:
        merge = "model.merge_and_unload().save_pretrained(DIR), with the tokenizer, and use DIR"
        got = f"an adapter of PEFT alone ({ADAPTER})"
        raise refusal(folder, got, "a whole model", f"merge it in Python: {merge}")
    path = folder / CONFIG
    if not path.is_file():
        raise refusal(folder, f"no {CONFIG}", "the folder of a saved model")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        own_code = config.get("auto_map")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        expected = "the configuration of a model, in JSON"
        raise refusal(path, describe_error(error), expected) from error
    if own_code:
        got, expected = "a class of its own code (auto_map)", "a class of transformers"
        do = "remove auto_map where transformers has the class; code of a folder is never run"
        raise refusal(path, got, expected, do)
    if not has_weights:
        pickles = (f"weights in {name} alone" for name in PICKLES if (folder / name).is_file())
        got = next(pickles, "no weights")
        raise refusal(folder, got, f"{WEIGHTS[0]}, as no pickle is ever read")
    return config


def check_to_tune(folder: Path) -> str:
    """Check that a folder holds a model that can be trained further; return its weights' sha256.

    Raises:
        InputError: As for `check_model_folder`, or it has no fast tokenizer.
    """
    check_model_folder(folder)
    if not (folder / TOKENIZER).is_file():
        got, expected = f"no {TOKENIZER}", "a fast tokenizer beside the model"
        do = "write it in Python: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
        raise refusal(folder, got, expected, do)
    files = sorted(folder.glob("*.safetensors"))
    return content_key({path.name: sha256(path) for path in files})
