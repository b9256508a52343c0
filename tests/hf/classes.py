"""Tiny models with random weights of many classes of transformers, each of two layers with four heads."""

from typing import Any

import pytest
import torch
import transformers

_ALL = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
_GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
_EXPERTS = {
    **_GROUPED, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}  # fmt: skip
_STACKS = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 2,
}  # fmt: skip
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 2,
}
_RELATIVE = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "max_relative_positions": -1,
    "position_biased_input": False,
}
_LATENT = {
    "num_key_value_heads": 4, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "kv_lora_rank": 8, "q_lora_rank": 16, "qk_rope_head_dim": 4, "v_head_dim": 8, "qk_nope_head_dim": 8, "first_k_dense_replace": 1,
}  # fmt: skip
_GROUPS = dict.fromkeys(
    (
        "q_groups",
        "k_groups",
        "v_groups",
        "post_attention_groups",
        "intermediate_groups",
        "output_groups",
    ),
    2,
)

_PLAIN: dict[str, Any] = {}
ENCODERS: dict[str, dict[str, Any]] = {
    "Albert": {"embedding_size": 16}, "BigBird": {"attention_type": "original_full"}, "Deberta": _RELATIVE,
    "DebertaV2": {**_RELATIVE, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "Esm": {"mask_token_id": 4, "position_embedding_type": "absolute"}, "Flaubert": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "Luke": {"entity_vocab_size": 9, "entity_emb_size": 16},
    "MobileBert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32, "num_feedforward_networks": 2},
    "ModernBert": {"cls_token_id": 2, "sep_token_id": 3, "local_attention": 8},
    "RemBert": {"input_embedding_size": 16, "output_embedding_size": 16}, "SqueezeBert": {"embedding_size": 32, **_GROUPS},
    "XLM": {"emb_dim": 32, "n_layers": 2, "n_heads": 4}, "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    **dict.fromkeys(("Bert", "Camembert", "ConvBert", "Data2VecText", "Electra", "Ernie", "GPT2", "IBert", "LayoutLM"), _PLAIN),
    **dict.fromkeys(("MPNet", "MegatronBert", "RoFormer", "Roberta", "RobertaPreLayerNorm", "XLMRoberta", "XLMRobertaXL"), _PLAIN),
    **dict.fromkeys(("Llama", "Mistral", "Qwen3"), _GROUPED),
}  # fmt: skip
DECODERS: dict[str, dict[str, Any]] = {
    "CodeGen": {"rotary_dim": 4}, "DeepseekV3": _LATENT, "Falcon": {"new_decoder_architecture": False, "alibi": False},
    "GPTJ": {"rotary_dim": 4}, "GPTNeo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "Gemma2": {**_GROUPED, "query_pre_attn_scalar": 8},
    "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2},
    "OPT": {"ffn_dim": 48, "word_embed_proj_dim": 32}, "XGLM": {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4},
    **dict.fromkeys(("BioGpt", "Bloom", "GPTBigCode", "GPTNeoX", "Persimmon", "Phi"), _PLAIN),
    **dict.fromkeys(("Arcee", "Cohere", "Cohere2", "Ernie4_5", "Exaone4", "Gemma", "Gemma3", "Glm", "Glm4", "Granite", "Helium"), _GROUPED),
    **dict.fromkeys(("Llama", "Ministral", "Mistral", "Nemotron", "Olmo", "Olmo2", "Olmo3", "Phi3", "Qwen2", "Qwen3", "SeedOss"), _GROUPED),
    **dict.fromkeys(("SmolLM3", "StableLm", "Starcoder2"), _GROUPED),
    **dict.fromkeys(("GptOss", "GraniteMoe", "Mixtral", "Olmoe", "Phimoe", "Qwen2Moe", "Qwen3Moe"), _EXPERTS),
}  # fmt: skip
WITH_BOTH: dict[str, dict[str, Any]] = {
    "NllbMoe": {**_STACKS, "num_experts": 4}, "BigBirdPegasus": {**_STACKS, "attention_type": "original_full"},
    "FSMT": {**_STACKS, "src_vocab_size": 99, "tgt_vocab_size": 99, "langs": ["en", "de"]},
    "SwitchTransformers": {**_T5, "num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    **dict.fromkeys(("Bart", "Blenderbot", "BlenderbotSmall", "M2M100", "MBart", "Mvp", "PLBart", "Pegasus"), _STACKS),
    **dict.fromkeys(("MT5", "T5", "UMT5"), _T5),
}  # fmt: skip
AUDITED: dict[str, dict[str, Any]] = {
    **{f"{name}ForSequenceClassification": settings for name, settings in ENCODERS.items()},
    **{f"{name}ForCausalLM": settings for name, settings in DECODERS.items()},
    **{f"{name}ForConditionalGeneration": settings for name, settings in WITH_BOTH.items()},
    "BertForMaskedLM": {}, "BertLMHeadModel": {"is_decoder": True}, "CTRLLMHeadModel": {"dff": 48}, "GPT2LMHeadModel": {},
    "MarianMTModel": _STACKS, "OpenAIGPTLMHeadModel": {},
}  # fmt: skip
MECHANISMS = {
    "BertForSequenceClassification",  # an encoder with absolute positions
    "XLNetForSequenceClassification",  # relative positions
    "RoFormerForSequenceClassification",  # rotary positions
    "DebertaV2ForSequenceClassification",  # disentangled attention
    "ModernBertForSequenceClassification",  # local and global attention
    "ConvBertForSequenceClassification",  # convolutions beside attention
    "GPT2LMHeadModel",  # a decoder
    "LlamaForCausalLM",  # grouped queries
    "BloomForCausalLM",  # ALiBi
    "GptOssForCausalLM",  # sinks, windows and experts
    "DeepseekV3ForCausalLM",  # latent attention
    "T5ForConditionalGeneration",  # biases of positions that layers hand on
    "MarianMTModel",  # an encoder with a decoder
}
"""Classes that stand for the others; `make test-all` tries them all."""
_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_CONVOLVING = {"layer_types": ["conv", "full_attention"]}
HYBRIDS: dict[str, dict[str, Any]] = {
    "JambaForCausalLM": {**_EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "Lfm2ForCausalLM": {**_GROUPED, **_CONVOLVING}, "Qwen3NextForCausalLM": {**_EXPERTS, **_LINEAR},
    "RecurrentGemmaForCausalLM": {**_GROUPED, "block_types": ["recurrent", "attention"], "lru_width": 32, "attention_window_size": 8},
}  # fmt: skip
"""Attention in the second of two layers alone."""
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "BartForSequenceClassification": (_STACKS, "a classifier with encoder and decoder"),
    "BertModel": ({}, "no head that an audit knows"),
    "CanineForSequenceClassification": (
        {"num_hash_buckets": 64, "upsampling_kernel_size": 4, "downsampling_rate": 2, "local_transformer_stride": 16}, "2 × 4 × 6 × 6"
    ),
    "FNetForSequenceClassification": ({}, "no attention"),
    "FunnelForSequenceClassification": ({"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1]}, "2 × 4 × 7 × 13"),
    "LEDForConditionalGeneration": ({**_STACKS, "attention_window": 4, "max_encoder_position_embeddings": 64}, "more or fewer than"),
    "LongT5ForConditionalGeneration": (_T5, "2 × 1 × 4 × 128 × 384"),
    "LongformerForSequenceClassification": ({"attention_window": 4}, "2 × 4 × 1 × 16"),
    "MambaForCausalLM": ({}, "no attention"),
    "NystromformerForSequenceClassification": ({"num_landmarks": 8, "segment_means_seq_len": 16}, "logits for texts of 13 and 9 tokens"),
    "PegasusXForConditionalGeneration": (_STACKS, "in model.encoder.layers.0.self_attn"),
    "ProphetNetForConditionalGeneration": (
        {"num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "ngram": 2},
        "2 × 4 × 21 × 13",
    ),
    "T5ForSequenceClassification": (_T5, "a classifier with encoder and decoder"),
    "RobertaForCausalLM": ({"is_decoder": False}, "attention to later tokens"),
    "ViTForImageClassification": ({"image_size": 8, "patch_size": 4}, "a model of pixel_values"),
    "XLMWithLMHeadModel": ({"emb_dim": 32, "n_layers": 2, "n_heads": 4}, "attention to later tokens"),
    "XLNetLMHeadModel": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, "attention to later tokens"),
    "YosoForSequenceClassification": ({}, "no attention"),
}  # fmt: skip
_WITHOUT = {"Funnel": 1, "ProphetNet": 1, "XLNet": 2}  # so many of these settings
_ABSENT = ("num_hidden_layers", "max_position_embeddings")

USUAL: tuple[dict[str, Any], ...] = (_GROUPED, {}, _EXPERTS, _STACKS, _T5, _LATENT)
"""Settings of which one suits most classes."""


def configured(name, **settings):
    """The configuration of a small model of the class."""
    known = AUDITED.get(name) or HYBRIDS.get(name) or REFUSED.get(name, ({},))[0]
    number = next((number for start, number in _WITHOUT.items() if name.startswith(start)), 0)
    given = {**_ALL, **known, **settings}
    for key in _ABSENT[:number]:
        given.pop(key, None)
    return getattr(transformers, name).config_class(**given)


def some_slow(names, fast):
    """Names as parameters; all but the ``fast`` ones are slow."""
    return [pytest.param(one, marks=() if one in fast else pytest.mark.slow) for one in names]


def tiny(name, **settings):
    """A model of the class, in evaluation mode, with weights large enough that attention matters to its output."""
    config = configured(name, **settings)
    if name.endswith("Classification"):
        config.num_labels = 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, name)(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.3 * (32 / weight.shape[-1]) ** 0.5)
    return model
