"""Folders of saved transformers, checked before a large library is loaded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, describe_error
from attnaudit.core.files import content_key, sha256

SAVE_MODEL = "save it with model.save_pretrained(DIR)"
CONFIG, ADAPTER, TOKENIZER = "config.json", "adapter_config.json", "tokenizer.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_LARGEST = 1_000_000  # layers or classes; a class of transformers makes lists of them at once
# Fields that bring in code, weights or layers besides the class and its saved weights.
_REFUSED = {
    "auto_map": (
        "a class of its own code",
        "a class of transformers",
        "remove auto_map if transformers has the class; code in a folder is never run",
    ),
    "quantization_config": (
        "a quantised model",
        "a model in floating point",
        "use the model as it was before quantisation",
    ),
    "transformers_weights": ("weights in other files", "weights in the usual files", SAVE_MODEL),
    "fusion_config": ("fused layers", "the layers of the class", "remove fusion_config"),
}
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def refusal(place: Path | str, got: str, expected: str, do: str = SAVE_MODEL) -> InputError:
    """Return the error for a folder without a model that can be read."""
    return InputError("read model", str(place), got, expected, do)


def check_model_folder(folder: Path) -> dict[str, Any]:
    """Return the configuration of a saved model.

    Raises:
        InputError: There is no folder, no configuration or no weights in safetensors, or the model
            needs code or weights from elsewhere.
    """
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise refusal(folder, got, "the folder of a saved model")
    has_weights = any((folder / name).is_file() for name in WEIGHTS)
    if (folder / ADAPTER).is_file():
        merge = "model.merge_and_unload().save_pretrained(DIR), with the tokenizer, and use DIR"
        got = f"{'a' if has_weights else 'only a'} PEFT adapter ({ADAPTER})"
        raise refusal(folder, got, "a whole model", f"merge it in Python: {merge}")
    path = folder / CONFIG
    if not path.is_file():
        raise refusal(folder, f"no {CONFIG}", "the folder of a saved model")
    config = _read_object(path, "the configuration of a model, in JSON")
    for key, value in _entries(config):
        if value and key in _REFUSED:
            got, expected, do = _REFUSED[key]
            raise refusal(path, f"{got} ({key})", expected, do)
        if (
            isinstance(value, int)
            and value > _LARGEST
            and key.endswith(("layer", "layers", "labels"))
        ):
            raise refusal(path, f"{key}: {value}", f"at most {_LARGEST}")
    if not has_weights:
        pickles = (f"weights only in {name}" for name in PICKLES if (folder / name).is_file())
        got = next(pickles, "no weights")
        raise refusal(folder, got, f"{WEIGHTS[0]}, because pickles are never read")
    weight_files(folder)
    return config


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a saved model.

    Raises:
        InputError: One of them is not a safetensors file of the folder itself.
    """
    names, index = [WEIGHTS[0]], folder / WEIGHTS[1]
    if not (folder / WEIGHTS[0]).is_file():
        expected = "an index of weights, in JSON"
        by_weight = _read_object(index, expected).get("weight_map")
        if not isinstance(by_weight, dict) or not by_weight:
            raise refusal(index, "no weight_map", expected)
        names = sorted(set(map(str, by_weight.values())))
    own = folder.resolve()
    # The cache of Hugging Face has links in snapshots/<revision> to the files in blobs.
    cache = own.parents[1] / "blobs" if own.parent.name == "snapshots" else own
    for name in names:
        file = folder / name
        inside = Path(name).name == name and file.resolve().parent in (own, cache)
        if not (inside and file.suffix == ".safetensors" and file.is_file()):
            raise refusal(folder, f"weights in {name}", "*.safetensors files in the folder itself")
    return [folder / name for name in names]


def _read_object(path: Path, expected: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"a JSON {type(value).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        raise refusal(path, describe_error(error), expected) from error
    return value


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an object and of all objects within it."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one


def check_to_tune(folder: Path) -> str:
    """Check that a folder holds a model that can be trained further; return its weights' sha256.

    Raises:
        InputError: As for `check_model_folder`, or it has no fast tokenizer.
    """
    check_model_folder(folder)
    if not (folder / TOKENIZER).is_file():
        do = "write it in Python: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
        raise refusal(folder, f"no {TOKENIZER}", "a fast tokenizer beside the model", do)
    return content_key({path.name: sha256(path) for path in weight_files(folder)})
