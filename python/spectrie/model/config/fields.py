"""Checks that every field of `config.json` is understood or has no effect.

An unknown field may change the arithmetic: without it, the model would produce plausible nonsense. So
it is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.families import Family
from spectrie.model.config.reader import shown

__all__ = ["DECODER_FIELDS", "refuse_other_fields", "refuse_quantised", "refuse_unknown"]

DECODER_FIELDS = frozenset(
    """
    architectures attention_bias bos_token_id eos_token_id head_dim hidden_act hidden_size
    intermediate_size layer_types max_position_embeddings max_window_layers mlp_bias model_type
    no_rope_layer_interval no_rope_layers num_attention_heads num_hidden_layers num_key_value_heads
    partial_rotary_factor quantization_config rms_norm_eps rope_parameters rope_scaling rope_theta
    sliding_window tie_word_embeddings use_sliding_window vocab_size
    """.split()
)
"""Fields that every family of decoders reads."""

# Of training, of storage, of layers for multi-token prediction, of other heads than the language model's, and of generation (which older
# versions wrote here, and which `generation_config.json` decides).
_HARMLESS = frozenset(
    """
    attention_dropout auto_map bad_words_ids begin_suppress_tokens chunk_size_feed_forward
    classifier_dropout decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    embd_pdrop encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id hidden_dropout id2label initializer_range is_decoder
    is_llama_config keys_to_ignore_at_inference label2id length_penalty max_length min_length
    mtp_num_hidden_layers no_repeat_ngram_size num_beam_groups num_beams num_nextn_predict_layers num_return_sequences output_attentions
    output_hidden_states output_router_logits output_scores pad_token_id prefix pretraining_tp
    problem_type remove_invalid_values repetition_penalty resid_pdrop return_dict
    return_dict_in_generate router_aux_loss_coef router_jitter_noise sep_token_id suppress_tokens
    task_specific_params temperature tokenizer_class top_k top_p torch_dtype torchscript
    transformers.js_config transformers_version typical_p unk_token_id unsloth_fixed unsloth_version
    use_bfloat16 use_cache
    """.split()
)

# Multipliers that some families have; these values do nothing.
_NEUTRAL = {
    "embedding_multiplier": 1.0,
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
}


def refuse_unknown(values: Mapping[str, Any], where: str, family: Family) -> None:
    """Checks that every field of `config.json` is read, or known to have no effect.

    Fields that are null, false or empty count as absent, as do private ones (`_name_or_path`).

    Args:
        values: `config.json`.
        where: The file to name in the error.
        family: Family of the architecture; only those with mixtures of experts read their fields.

    Raises:
        ModelError: There are unknown fields; the message lists them with their values.
    """
    read = DECODER_FIELDS if family.mixture is None else DECODER_FIELDS | family.mixture.fields
    refuse_other_fields(values, where, read)


def refuse_other_fields(values: Mapping[str, Any], where: str, read: frozenset[str]) -> None:
    """Like `refuse_unknown`, of a file whose fields `read` are read."""
    unknown = [
        f"{name} ({shown(value)})"
        for name, value in sorted(values.items())
        if name not in read
        and name not in _HARMLESS
        and not name.startswith("_")
        and value not in (None, False, "", [], {})
        and value != _NEUTRAL.get(name)
    ]
    if unknown:
        raise ModelError(
            f"{where}: fields that are not supported and may change what the model computes: "
            f"{', '.join(unknown)}; remove those without effect from the file"
        )


def refuse_quantised(values: Mapping[str, Any], where: str) -> None:
    """Checks that the weights are not quantised.

    Args:
        values: `config.json`.
        where: The file to name in the error.

    Raises:
        ModelError: They are; the message names the method, such as `fp8`, `awq`, `gptq`,
            `bitsandbytes` or `compressed-tensors`, and what to use instead.
    """
    described = values.get("quantization_config") or values.get("compression_config")
    if not described:
        return
    facts = dict(described) if isinstance(described, Mapping) else {}
    method = facts.get("quant_method")
    if method is None and any(facts.get(f"load_in_{bits}bit") for bits in (4, 8)):
        method = "bitsandbytes"
    raise ModelError(
        f"{where}: checkpoints quantised with {method or 'an unnamed method'} are not supported; "
        "use the model's original in bfloat16, float16 or float32, or a GGUF file of it"
    )
