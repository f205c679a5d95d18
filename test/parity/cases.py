"""The table: which models train on which meshes."""

from tools import Case

GPT2_TENSOR = ("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", "*wte.weight=[tensor,-]")
GPT2_SEQUENCE = GPT2_TENSOR + ("out(transformer.h.*.ln_*)=[data,tensor,-]",)
MLP_TENSOR = ("fc1.weight=[tensor,-]",)

CASES = [
    Case("gpt2", "data=1"),
    Case("gpt2", "data=1", microbatches=4),
    Case("gpt2", "data=2"),
    Case("gpt2", "data=2", microbatches=4),
    Case("gpt2", "tensor=2", GPT2_TENSOR),
    Case("gpt2", "data=2,tensor=2", GPT2_TENSOR),
    Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4),
    Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE),
    Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, microbatches=4),
    Case("gpt2", "data=4"),
    Case("gpt2", "tensor=4", GPT2_TENSOR),
    Case("gpt2", "data=8"),
    Case("gpt2-six-heads", "data=1"),
    Case("gpt2-six-heads", "data=2,tensor=2", GPT2_TENSOR),
    Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR),  # heads padded to 8, tokens to 68
    Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR, microbatches=4),
    Case("mlp", "data=1"),
    Case("mlp", "data=2", microbatches=4),
    Case("mlp", "tensor=2", MLP_TENSOR),
    Case("mlp", "data=2,tensor=2", MLP_TENSOR),
    Case("mlp", "data=8"),
    Case("mlp-mse", "data=2,tensor=2", MLP_TENSOR, microbatches=4),
]
