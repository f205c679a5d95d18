"""--abstract-weights: a model whose weights are not there compiles to the plan that it has with them."""

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from tools import saveData, tool, train

BATCH, CONTEXT, VOCAB = 8, 16, 64
MESH = ("--mesh", "data=2,tensor=2", "--shard", "*.q_proj.weight=[tensor,-]", "--shard", "*.gate_proj.weight=[tensor,-]")
STEP = ("--loss", "cross_entropy(logits,labels)", "--optimizer", "sgd(lr=0.5)")


def build(device):
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=VOCAB, use_cache=False)
    with torch.device(device):
        return LlamaForCausalLM(config).eval()


def export(model, path, **options):
    ids = torch.zeros(BATCH, CONTEXT, dtype=torch.int64, device=model.device)
    torch.onnx.export(model, (), kwargs={"input_ids": ids}, input_names=["input_ids"], output_names=["logits"],
                      dynamo=True, optimize=False, verbose=False).save(path, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that was never in memory, and the same with weights."""
    folder = tmp_path_factory.mktemp("abstract")
    export(build("meta"), folder / "meta.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    export(build("cpu"), folder / "model.onnx", external_data=True)
    return folder


def memory(plan):
    found = json.loads(tool("inspect", plan, "--json")[0])
    return found["memory_per_rank"]["total"], found["communication"]


def test_a_model_on_the_meta_device_has_the_plan_of_the_real_one(folder, tmp_path):
    _, said = tool("compile", folder / "meta.onnx", "-o", tmp_path / "meta.plan", *MESH, *STEP, code=1)
    assert "input `model.embed_tokens.weight` is a parameter, for which the file has no values" in said
    assert "--abstract-weights" in said and not (tmp_path / "meta.plan").exists()
    tool("compile", folder / "meta.onnx", "--abstract-weights", "-o", tmp_path / "meta.plan", *MESH, *STEP)
    tool("compile", folder / "model.onnx", "-o", tmp_path / "model.plan", *MESH, *STEP)
    held, sent = memory(tmp_path / "meta.plan")
    heldWithWeights, sentWithWeights = memory(tmp_path / "model.plan")
    assert sent == sentWithWeights
    # A buffer that is computed at import (inv_freq) is read at run time.
    assert held == pytest.approx(heldWithWeights, rel=0.01)
    text, _ = tool("compile", folder / "meta.onnx", "--abstract-weights", "--describe")
    assert "model.rotary_emb.inv_freq (not trained)" in text and "--abstract-weights" in text


def test_it_runs_with_weights_from_elsewhere_and_not_without(folder, tmp_path):
    ids = torch.randint(VOCAB, (BATCH * 3, CONTEXT + 1), generator=torch.Generator().manual_seed(1))
    saveData(tmp_path / "data.npz", {"input_ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].contiguous()})
    for name, options in (("meta", ["--abstract-weights"]), ("model", [])):
        tool("compile", folder / f"{name}.onnx", *options, "-o", tmp_path / f"{name}.plan", *MESH, *STEP)
    _, said = tool("run", tmp_path / "meta.plan", "--data", tmp_path / "data.npz", "--steps", 1, code=1)
    assert "was compiled without weights (--abstract-weights), such as 'model.embed_tokens.weight'" in said
    assert "--init" in said
    model = build("cpu")
    weights = {name: t.detach().clone() for name, t in model.named_parameters()}
    save_file(weights | {"model.rotary_emb.inv_freq": model.model.rotary_emb.inv_freq.clone()}, tmp_path / "all.safetensors")
    run = train(tmp_path / "meta.plan", tmp_path / "data.npz", 3, tmp_path / "meta", "--init", tmp_path / "all.safetensors")
    real = train(tmp_path / "model.plan", tmp_path / "data.npz", 3, tmp_path / "model")
    assert run.losses == pytest.approx(real.losses, rel=1e-5)


def test_external_data_may_be_elsewhere(folder, tmp_path):
    (tmp_path / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", *STEP, code=1)
    assert "model.onnx.data`: No such file or directory" in said and "--abstract-weights" in said
    tool("compile", tmp_path / "model.onnx", "--abstract-weights", "-o", tmp_path / "plan", *MESH, *STEP)
    tool("compile", folder / "model.onnx", "-o", tmp_path / "real.plan", *MESH, *STEP)
    assert memory(tmp_path / "plan") == memory(tmp_path / "real.plan")
