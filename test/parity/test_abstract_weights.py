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


def test_seven_billion_parameters_on_64_devices_have_the_memory_of_the_formulas(tmp_path):
    """Llama 7B, which no rank could hold: ZeRO 3 keeps a 64th of parameters, gradients and state (Rajbhandari et al., ZeRO,
    2020), full recompute of each block what enters it (Korthikanti et al., 2022, 5)."""
    config = LlamaConfig(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
                         vocab_size=32000, use_cache=False)
    with torch.device("meta"):
        model = LlamaForCausalLM(config).eval()
    devices, length = 64, 2048
    ids = torch.zeros(devices, length, dtype=torch.int64, device="meta")
    torch.onnx.export(model, (), kwargs={"input_ids": ids}, input_names=["input_ids"], output_names=["logits"], dynamo=True,
                      optimize=False, verbose=False).save(tmp_path / "llama.onnx", include_initializers=False,
                                                          keep_initializers_as_inputs=True)
    command = ("compile", tmp_path / "llama.onnx", "--abstract-weights", "-o", tmp_path / "plan", "--mesh", f"data={devices}",
               "--loss", "cross_entropy(logits,labels)", "--optimizer", "adamw(lr=1e-3)", "--zero", 3, "--zero-threshold", 1)

    def compiled(*more):
        _, said = tool(*command, *more)
        found = json.loads(tool("inspect", tmp_path / "plan", "--json")[0])["memory_per_rank"]
        return said, {entry["kind"]: entry["most"] for entry in found["by_kind"]}, found

    said, kinds, found = compiled("--recompute", "full")
    sizes = [4 * p.numel() for p in model.parameters()]
    parts = sum(sizes) // devices
    assert parts == 421_150_976
    # A frozen buffer of 64 numbers; the step's number.
    assert kinds["parameters"] == parts + 4
    assert kinds["gradients"] == parts
    assert kinds["optimizer state"] == 2 * parts + 8
    assert max(sizes) <= kinds["gathered parameters"] <= 2 * max(sizes)
    entering = 32 * length * 4096 * 4  # of one sample on each device
    assert entering <= kinds["saved activations"]
    assert "when most is held: 402 MiB parameters, 803 MiB optimizer state" in said
    _, whole, more = compiled()
    assert whole["saved activations"] > 10 * kinds["saved activations"]
    assert more["total"] > 5 * found["total"]
