"""The table: which models train on which meshes."""

import sampling

from tools import Case

GPT2_TENSOR = ("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", "*wte.weight=[tensor,-]")
GPT2_SEQUENCE = GPT2_TENSOR + ("out(transformer.h.*.ln_*)=[data,tensor,-]",)
LLAMA_TENSOR = ("*.q_proj.weight=[tensor,-]", "*.k_proj.weight=[tensor,-]", "*.v_proj.weight=[tensor,-]",
                "*.gate_proj.weight=[tensor,-]", "*.up_proj.weight=[tensor,-]",
                "*embed_tokens.weight=[tensor,-]", "*lm_head.weight=[tensor,-]")
LLAMA_SEQUENCE = LLAMA_TENSOR + ("out(model.layers.*layernorm)=[data,tensor,-]",)
VIT_TENSOR = ("*.q_proj.weight=[tensor,-]", "*.k_proj.weight=[tensor,-]", "*.v_proj.weight=[tensor,-]",
              "*.mlp.fc1.weight=[tensor,-]")
RESNET_TENSOR = ("blocks.*.conv1.weight=[tensor,-,-,-]",)  # output channels
VIT_SEQUENCE = VIT_TENSOR + ("out(vit.layers.*.layernorm_*)=[data,tensor,-]",)  # 17 tokens, padded to 18
RESNET50_TENSOR = ("layer*.conv1.weight=[tensor,-,-,-]", "layer*.conv2.weight=[-,tensor,-,-]")
HEIGHT_ALONE = ("x=[-,-,space,-]",)
HEIGHT = ("x=[data,-,space,-]",)  # rows of the image, with halos
BERT_TENSOR = ("*.query.weight=[tensor,-]", "*.key.weight=[tensor,-]", "*.value.weight=[tensor,-]",
               "*.intermediate.dense.weight=[tensor,-]")
BERT_SEQUENCE = BERT_TENSOR + ("out(*.LayerNorm)=[data,tensor,-]",)
MLP_TENSOR = ("fc1.weight=[tensor,-]",)

CASES = [
    Case("gpt2", "data=1"),
    Case("gpt2", "data=1", microbatches=4),
    Case("gpt2", "data=2"),
    Case("gpt2", "data=2", zero=0),
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
    Case("llama", "data=1"),
    Case("llama", "data=2"),
    Case("llama", "data=4"),
    Case("llama", "tensor=2", LLAMA_TENSOR),
    Case("llama", "data=2,tensor=2", LLAMA_TENSOR, microbatches=4),
    Case("llama", "tensor=4", LLAMA_TENSOR),  # two heads of keys and values, each on two ranks
    Case("llama", "data=2,tensor=2", LLAMA_SEQUENCE),
    Case("llama", "data=2,tensor=2", LLAMA_SEQUENCE, microbatches=4, zero=0),
    Case("llama-tied", "data=2", microbatches=4),
    Case("llama-tied", "tensor=2", LLAMA_TENSOR[:-1]),
    Case("bert", "data=1"),
    Case("bert", "data=2"),
    Case("bert", "data=4"),
    Case("bert", "tensor=2", BERT_TENSOR),
    Case("bert", "data=2,tensor=2", BERT_TENSOR),
    Case("bert", "data=2,tensor=2", BERT_SEQUENCE),
    Case("vit", "data=1"),
    Case("vit", "data=2"),
    Case("vit", "data=4"),
    Case("vit", "tensor=2", VIT_TENSOR),
    Case("vit", "data=2,tensor=2", VIT_TENSOR),
    Case("vit", "data=2,tensor=2", VIT_SEQUENCE),
    Case("resnet", "data=1"),
    Case("resnet", "data=2"),
    Case("resnet", "data=4"),
    Case("resnet", "tensor=2", RESNET_TENSOR),
    Case("resnet", "data=2,tensor=2", RESNET_TENSOR),
    Case("resnet", "space=2", HEIGHT_ALONE),
    Case("resnet", "data=2,space=2", HEIGHT),
    Case("resnet", "space=4", HEIGHT_ALONE),
    Case("resnet50", "data=1"),
    Case("resnet50", "data=2"),
    Case("resnet50", "data=4"),
    Case("resnet50", "tensor=2", RESNET50_TENSOR),
    Case("resnet50", "space=2", HEIGHT_ALONE),
    Case("resnet50", "data=2,space=2", HEIGHT),
    Case("resnet50", "space=4", HEIGHT_ALONE),
]

# Gradients (stage 2) and parameters (stage 3) in parts: each model, mesh and number of microbatches, pairwise.
STAGES = [
    Case("gpt2", "data=2", zero=3),
    Case("gpt2", "data=2", microbatches=4, zero=2),
    Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4, zero=3),
    Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, microbatches=4, zero=2),
    Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, zero=3),
    Case("gpt2", "data=8", microbatches=4, zero=3),
    Case("gpt2-six-heads", "data=2,tensor=2", GPT2_TENSOR, microbatches=4, zero=3),
    Case("gpt2", "replica=2,data=2", zero=3, zeroAxis="data"),
    Case("llama", "replica=2,data=2", microbatches=4, zero=2, zeroAxis="data"),
    Case("mlp", "data=8", zero=3),
    Case("mlp-mse", "data=2,tensor=2", MLP_TENSOR, microbatches=4, zero=2),
    Case("llama", "data=4", microbatches=4, zero=3),
    Case("llama", "data=2,tensor=2", LLAMA_SEQUENCE, microbatches=4, zero=3),
    Case("llama-tied", "data=2", microbatches=4, zero=2),
    Case("bert", "data=4", zero=3),
    Case("bert", "data=2,tensor=2", BERT_SEQUENCE, zero=2),
    Case("vit", "data=2,tensor=2", VIT_SEQUENCE, zero=3),
    Case("resnet", "data=2,space=2", HEIGHT, zero=3),
    Case("resnet50", "data=4", zero=3),
    Case("resnet50", "data=2,space=2", HEIGHT, zero=2),
]

# Trained twice, for equal bits: each model, with and without microbatches, on the meshes that differ most.
REPEATED = [case for case in CASES + STAGES if str(case) in {
    "gpt2-data1-m1", "gpt2-data2-m4", "gpt2-data2-m1-whole", "gpt2-data2-tensor2-m4", "gpt2-data2-tensor2-sequence-m1",
    "gpt2-data8-m1", "gpt2-six-heads-tensor4-m4", "mlp-data2-m4", "mlp-mse-data2-tensor2-m4", "llama-tensor4-m1",
    "llama-data2-tensor2-sequence-m4-whole", "llama-tied-data2-m4", "bert-data4-m1", "bert-data2-tensor2-sequence-m1",
    "vit-data2-tensor2-sequence-m1", "resnet-data2-tensor2-m1", "resnet-data2-space2-m1", "resnet50-data4-m1",
    "resnet50-tensor2-m1", "resnet50-space4-m1", "gpt2-data2-m4-zero2", "gpt2-data2-tensor2-m4-zero3"}]
assert len(REPEATED) == 22, "a name in REPEATED is no case's"


def valuesOf(case):
    """What a row stands for in a sample: each mesh, each stage and what else there is once, and the constraints of each model."""
    axes = frozenset(axis for axis in ("tensor", "space") if case.size(axis) > 1)
    return {("mesh", case.mesh), ("stage", case.zero, case.microbatches > 1), ("over", case.zeroAxis), ("model", case.model, axes),
            ("sequence", "-sequence" in str(case), case.model)}


# Mutants meet these (test/mutations/suites.toml).
TRIED_WITH_MUTANTS = [str(case) for case in CASES + STAGES if str(case).startswith(("gpt2-data2-tensor2", "bert-data2"))]


def rows(cases, always=()):
    """These cases for parametrize, of which a run takes a sample."""
    return sampling.rows(cases, valuesOf, always)
