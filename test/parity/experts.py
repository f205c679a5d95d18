"""Mixtures of experts of transformers, exported with the one implementation of their experts that ONNX can hold."""

import torch

VOCAB, CONTEXT, WIDTH, BATCH = 64, 16, 32, 4
TEXT = dict(
    vocab_size=VOCAB,
    hidden_size=WIDTH,
    intermediate_size=2 * WIDTH,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=CONTEXT,
    use_cache=False,
    experts_implementation="batched_mm",
)


def mixtral():
    """Each token goes to two of four experts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(MixtralConfig(**TEXT, num_key_value_heads=2, num_local_experts=4))


def qwen2moe():
    """Beside those experts that are chosen, one serves all tokens."""
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    return Qwen2MoeForCausalLM(
        Qwen2MoeConfig(
            **TEXT,
            num_key_value_heads=2,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
        )
    )


def deepseek():
    """First groups of experts are chosen, then experts in them; the first layer is dense."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    return DeepseekV3ForCausalLM(
        DeepseekV3Config(
            **TEXT,
            num_key_value_heads=4,
            n_routed_experts=8,
            num_experts_per_tok=2,
            n_group=4,
            topk_group=2,
            moe_intermediate_size=16,
            n_shared_experts=1,
            first_k_dense_replace=1,
            q_lora_rank=16,
            kv_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=8,
        )
    )


# Mixtral itself is in zoo.py, from every format.
MODELS = [qwen2moe, deepseek]


def draw():
    random = torch.Generator().manual_seed(2)
    return {name: torch.randint(VOCAB, (BATCH, CONTEXT), generator=random) for name in ("input_ids", "labels")}
