"""Models of transformers whose attentions the compiler must find, however they are exported.

The cases are some of attention_models.py, which is run by hand for all of them. Each is exported once.
"""

import pytest

import attention_models
import shared

# Masks are padded on the right, on the left and over a whole row. Constants of files in fp16, such as scales, are rounded.
GRADIENTS = [
    "gpt2-eager-onnx-b4-mask-fp32",
    "llama-sdpa-onnx-b4-mask-fp32",
    "bert-eager-pt2-b4-mask-fp16",
    "opt-sdpa-pt2-b4-mask-fp32",
    "mistral-eager-pt2-b4-mask-fp32",
    "gemma2-eager-pt2-b4-mask-fp32",
    "falcon-sdpa-onnx-b1-fp32",
    "bloom-eager-onnx-b4-mask-fp32",
    "t5-eager-pt2-b4-mask-fp32",
    "t5-sdpa-pt2-b4-mask-fp32",
]
DROPOUT = [
    "gpt2-sdpa-pt2-b4-mask-dropout-fp32",
    "llama-eager-pt2-b4-mask-dropout-fp32",
    "bloom-eager-pt2-b4-mask-dropout-fp32",
]
OTHERS = [
    "gpt2-sdpa-onnx-b1-mask-dropout-fp32",
    "gpt2-eager-pt2-b1-dropout-fp16",
    "llama-eager-onnx_optimized-b2-mask-fp32",
    "llama-eager-pt2-b1-mask-fp32",
    "bert-sdpa-onnx-b1-mask-fp16",
    "opt-eager-onnx-b1-mask-dropout-fp32",
    "mistral-sdpa-onnx_optimized-b1-mask-fp32",
    "gemma2-eager-onnx-b1-dropout-fp16",
    "phi3-sdpa-onnx-b2-mask-fp32",
    "phi3-eager-pt2-b1-fp16",
    "qwen3-eager-onnx-b1-fp32",
    "qwen3-sdpa-pt2-b2-mask-dropout-fp16",
    "falcon-eager-pt2-b2-mask-fp16",
    "t5-eager-onnx_optimized-b1-dropout-fp32",
    "t5-sdpa-pt2-b2-dropout-fp32",
    "vit-sdpa-onnx-b1-fp16",
    "vit-eager-pt2-b2-dropout-fp32",
]


@pytest.fixture
def exported(sharedFolder):
    """Name of a case -> the case and its file."""
    def get(name):
        case = attention_models.named(name)
        return case, attention_models.export(case, shared.made(name, lambda folder: attention_models.export(case, folder)))

    return get


@pytest.mark.parametrize("name", GRADIENTS + DROPOUT + OTHERS)
def test_each_attention_is_one_op_of_the_least_form(name, exported):
    case, path = exported(name)
    assert [form for form, _ in attention_models.read(path)] == attention_models.expected(case)


@pytest.mark.parametrize("mesh", ["data=1", "tensor=2"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_first_gradients_are_pytorchs(name, mesh, exported, tmp_path):
    case, path = exported(name)
    loss, gradients = attention_models.compare(case, path, mesh, tmp_path)
    limit = 5e-4 if case.type == "fp16" else 1e-5
    assert loss <= limit and gradients <= limit


@pytest.mark.parametrize("name", DROPOUT)
def test_the_same_probabilities_are_dropped_as_in_parts(name, exported, tmp_path):
    case, path = exported(name)
    assert attention_models.compareWithParts(case, path, tmp_path) <= 1e-6
