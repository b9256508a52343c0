"""Every class of the installed transformers library that classifies texts, predicts the next token or translates: does it pass the gate?

    python benchmarks/transformer_classes.py [NAME ...]

Models of two layers with random weights; those of the tests are not tried again, nor classes that have no small configuration among those
below or need what is not installed. A class that passes is tried once more on another text: stored graphs, replays and the whole model,
padded and not, must agree to 1e-5 under five random attentions of each layer. Without NAME, parts of names, all classes, in 10 minutes of
one core. Prints lists of names in Markdown, and on stderr a line for each class.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto as auto

from attnaudit.core.errors import InputError
from attnaudit.hf.gate import check_model
from attnaudit.hf.layers import Probe
from attnaudit.hf.model import reading
from tests.hf.classes import AUDITED, DECODERS, HYBRIDS, REFUSED, USUAL, WITH_BOTH, configured, tiny
from tests.hf.exact import assert_exact_under_any_attention

MOST = 3_000_000  # parameters of a model that is tried
NOT_TRIED, NOT_EXACT = "not tried", "PASSES, AND IS NOT EXACT"
_STATE_SPACE = {
    "mamba_expand": 1,
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_WORDS = {
    "vocab_size_per_layer_input": 99,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
}
_SHAPES = {
    "shape_embed_dim": 8,
    "pronunciation_embed_dim": 8,
    "shape_vocab_size": 20,
    "pronunciation_vocab_size": 20,
}
OWN: dict[str, dict[str, Any]] = {
    "BailingHybrid": {**DECODERS["DeepseekV3"], **_LINEAR}, "Bamba": {**_STATE_SPACE, "attn_layer_indices": [1]},
    "Gemma3n": {**_WORDS, "layer_types": ["full_attention"] * 2, "altup_num_inputs": 2, "laurel_rank": 4}, "Gemma4": _WORDS,
    "GraniteMoeHybrid": {**_STATE_SPACE, "layer_types": ["mamba", "attention"]}, "Lfm": {"layer_types": ["conv", "full_attention"]},
    "MiniCPM3": DECODERS["DeepseekV3"], "Qwen3_5": _LINEAR, "RoCBert": _SHAPES, "Xmod": {"default_language": "en_XX"},
    "Reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"], "attention_head_size": 8, "num_buckets": 4},
    "Zamba2": {"layers_block_type": ["mamba", "hybrid"], "mamba_expand": 1, "n_mamba_heads": 4, "mamba_d_state": 8, "num_mem_blocks": 1},
}  # fmt: skip
"""Settings of classes whose names begin so."""


def names(parts: Iterable[str]) -> Iterator[str]:
    """The classes, without those of the tests, whose names have one of ``parts``, or all."""
    tasks = (
        auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )  # fmt: skip
    listed = [
        name
        for task in tasks
        for found in task.values()
        for name in ([found] if isinstance(found, str) else found)
    ]
    tested = {*AUDITED, *HYBRIDS, *REFUSED}
    return (
        name
        for name in dict.fromkeys(listed)
        if name not in tested and (not parts or any(part in name for part in parts))
    )


def settings_of(name: str) -> dict[str, Any]:
    """What a class needs besides the usual: that of the tests' classes of the same kind, or its own."""
    kinds = {
        **AUDITED,
        **HYBRIDS,
        **{f"{kind}For": settings for kind, settings in {**DECODERS, **WITH_BOTH}.items()},
    }
    alike = next(
        (
            settings
            for kind, settings in kinds.items()
            if kind.partition("For")[0] == name.partition("For")[0]
        ),
        {},
    )
    own = next((settings for kind, settings in OWN.items() if name.startswith(kind)), {})
    return {
        **alike,
        **own,
        **({"is_decoder": True} if "CausalLM" in name or "LMHead" in name else {}),
    }


def built(name: str) -> tuple[Any, str]:
    """A small model of the class, with the first settings that it takes; or None and why there is none."""
    why = ""
    for usual in USUAL:
        settings = {**usual, **settings_of(name)}
        try:
            with torch.device("meta"):
                size = sum(
                    weights.numel()
                    for weights in getattr(transformers, name)(
                        configured(name, **settings)
                    ).parameters()
                )
            if size <= MOST:
                model = tiny(name, **settings)
                with torch.no_grad():
                    model(**Probe.of(model).inputs)
                return model, ""
            why = f"{size:,} parameters"
        except Exception as error:  # noqa: BLE001 - whatever a class makes of settings that are not its own
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
    return None, why


def outcome(name: str) -> tuple[str, str]:
    """What became of a class, in words, and the figure or message."""
    model, why = built(name)
    if model is None:
        return NOT_TRIED, why
    try:
        gate = check_model(model)
    except InputError as error:
        return "refused", str(error)
    if not gate.can_be_audited:
        return "passes, but has no one position that the prediction reads", ""
    try:
        with reading(model), tempfile.TemporaryDirectory() as folder:
            assert_exact_under_any_attention(model, gate, Path(folder))
    except AssertionError as error:
        return NOT_EXACT, " ".join(str(error).split())
    return ("passes, with other layers besides" if gate.notes else "passes"), ""


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names(sys.argv[1:]):
        became, why = outcome(name)
        print(f"{name}: {became} {why}"[:400], file=sys.stderr, flush=True)
        found[became].append(name)
    print(
        f"transformers {transformers.__version__}, {sum(map(len, found.values()))} classes besides those of the tests\n"
    )
    for became, listed in sorted(found.items()):
        print(f"- {became} ({len(listed)}): {', '.join(sorted(listed))}")


if __name__ == "__main__":
    main()
