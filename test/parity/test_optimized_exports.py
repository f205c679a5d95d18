"""Exports with the exporter's default, optimize=True: what is left trains as in PyTorch, under its own names."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers.pytorch_utils import Conv1D

import reference
import tools
from cases import BERT_TENSOR, GPT2_TENSOR, LLAMA_TENSOR
from models import BATCH, MODELS
from test_import import check
from tools import tool

SGD = 0.5


def inputs(spec):
    batch = reference.globalBatch(spec.data(1), 0, 1)
    return {name: t for name, t in batch.items() if name != "labels"}


@pytest.fixture(scope="module")
def optimized(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("optimized"), {}

    def get(name):
        if name not in made:
            made[name] = folder / f"{name}.onnx"
            spec = MODELS[name]
            torch.onnx.export(spec.fresh().eval(), (), made[name], kwargs=inputs(spec), input_names=list(inputs(spec)),
                              output_names=["logits"], dynamo=True, optimize=True, verbose=False)
        return made[name]

    return get


@pytest.mark.parametrize("name", ["gpt2", "llama-tied", "bert", "vit", "resnet"])
def test_optimized_exports_mean_what_onnxruntime_computes(name, optimized, tmp_path):
    check(tmp_path, optimized(name), {n: t.numpy() for n, t in inputs(MODELS[name]).items()})


# What each export loses: (parameters that are gone, what the warning says of them).
@pytest.mark.parametrize("name, mesh, shard, lost, says", [
    ("gpt2", "data=2,tensor=2", GPT2_TENSOR, {"transformer.wpe.weight"}, "constants: transformer.wpe.weight"),
    # One head of keys and values: q, k and v stay whole.
    ("llama-tied", "tensor=2", LLAMA_TENSOR[3:6], set(), "transposed copy of `lm_head.weight`"),
    ("bert", "data=2", BERT_TENSOR[:0], {"bert.embeddings.position_embeddings.weight"}, "constants: bert.embeddings.posi"),
])
def test_what_is_left_trains_and_is_saved_in_the_models_orientation(name, mesh, shard, lost, says, optimized, dataset, tmp_path):
    spec = MODELS[name]
    _, said = tool("compile", optimized(name), "-o", tmp_path / "plan", "--mesh", mesh,
                   *[arg for s in shard for arg in ("--shard", s)], "--loss", spec.lossOption,
                   "--optimizer", f"sgd(lr={SGD})")
    assert says in said and said.count("warning:") == bool(lost)
    assert ("dynamo=True, optimize=False" in said) == bool(lost)
    run = tools.train(tmp_path / "plan", dataset(name, 1), 1, tmp_path / "run")
    model = spec.fresh().eval()
    before = reference.snapshot(model)
    for parameter, tensor in model.named_parameters():
        tensor.requires_grad_(parameter not in lost)
    assert set(run.tensors) == set(model.state_dict()) - lost
    loss = spec.lossOf(model, reference.globalBatch(spec.data(1), 0, 1))
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=SGD).step()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    trained = reference.snapshot(model)
    model.load_state_dict(run.tensors, strict=False)
    ours = reference.snapshot(model)
    moved = reference.differences({n: ours[n] - b for n, b in before.items() if n not in lost},
                                  {n: trained[n] - b for n, b in before.items() if n not in lost})
    assert {n: d for n, d in moved.items() if d > 1e-3 and not reference.isNoise(n.split("[")[0])} == {}


def test_copies_of_a_tied_matrix_stay_apart_on_request(optimized, exported, dataset, tmp_path):
    compile = ("--loss", "cross_entropy(logits,labels)", "--optimizer", f"sgd(lr={SGD})", "--no-tie")
    tool("compile", optimized("gpt2"), "-o", tmp_path / "plan", *compile)
    tensors = tools.train(tmp_path / "plan", dataset("gpt2", 1), 1, tmp_path / "run").tensors
    embedding, head = tensors["transformer.wte.weight"], tensors["lm_head.weight"]
    assert embedding.shape == head.shape and not torch.allclose(embedding, head, atol=1e-3)
    described, _ = tool("compile", optimized("gpt2"), "--describe", "--no-tie")
    assert "--no-tie" in described
    _, error = tool("compile", exported("gpt2"), "-o", tmp_path / "plan", *compile, code=1)
    assert "holds no copy of a tied matrix" in error


class Zeros(nn.Module):
    """Layers as they are often initialised; the last two share a bias."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 4, 3, groups=1), nn.ConvTranspose2d(4, 6, 2, groups=2)
        self.gpt2, self.first, self.second = Conv1D(5, 6), nn.Linear(5, 4), nn.Linear(5, 4)
        self.second.bias = self.first.bias
        for layer in (self.conv, self.up, self.gpt2, self.first):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        y = self.gpt2(self.up(self.conv(x)).relu().mean((2, 3))).relu()
        return self.first(y) + self.second(y) ** 2


def test_biases_of_zeros_that_were_left_out_are_trained_again(tmp_path):
    torch.manual_seed(3)
    model, x, target = Zeros(), torch.randn(4, 3, 8, 8), torch.randn(4, 4)
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", input_names=["x"], output_names=["y"], dynamo=True,
                      optimize=True, verbose=False)
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=2", "--loss", "mse(y,t)",
                   "--optimizer", f"sgd(lr={SGD})")
    assert "4 biases of zeros that the exporter left out are parameters again: " in said and "warning" not in said
    tools.saveData(tmp_path / "data.npz", {"x": x, "t": target})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=SGD).step()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    trained = dict(model.state_dict())
    assert set(run.tensors) >= set(dict(model.named_parameters())) and run.tensors["first.bias"].abs().min() > 0
    for name, tensor in run.tensors.items():
        assert torch.allclose(tensor, trained[name], rtol=1e-5, atol=1e-6), name


class Crossed(nn.Module):
    """Attention to itself, then to a memory: these biases of zeros are cut by a Split that no record speaks of."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, x, memory):
        y, _ = self.first(x, x, x, need_weights=False)
        return self.second(x + y, memory, memory, need_weights=False)[0]


def test_equal_biases_that_are_cut_are_each_their_modules(tmp_path):
    torch.manual_seed(3)
    model = Crossed()
    data = {"x": torch.randn(4, 3, 8), "memory": torch.randn(4, 5, 8), "t": torch.randn(4, 3, 8)}
    torch.onnx.export(model, (data["x"], data["memory"]), tmp_path / "model.onnx", input_names=["x", "memory"],
                      output_names=["y"], dynamo=True, optimize=True, verbose=False)
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "mse(y,t)", "--optimizer", f"sgd(lr={SGD})")
    assert "warning" not in said
    tools.saveData(tmp_path / "data.npz", data)
    tensors = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run").tensors
    nn.functional.mse_loss(model(data["x"], data["memory"]), data["t"]).backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.detach() - tensors[name], SGD * parameter.grad, rtol=1e-3, atol=1e-6), name


class Gated(nn.Module):
    """At first the gates add nothing and change nothing (ReZero, Flamingo); the exporter removes both."""

    def __init__(self, scalar):
        super().__init__()
        self.linear, self.gate = nn.Linear(4, 4), nn.Parameter(torch.zeros(() if scalar else (4,)))

    def forward(self, x):
        y = self.linear(x * torch.exp(self.gate)) + torch.tanh(self.gate)
        return y.relu() * self.gate


@pytest.mark.parametrize("scalar", [True, False])
def test_what_added_nothing_when_it_was_exported_is_warned_of(scalar, tmp_path):
    torch.onnx.export(Gated(scalar), (torch.randn(2, 4),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"],
                      dynamo=True, optimize=True, verbose=False)
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "mse(y,t)")
    if scalar:
        assert "removed mul, add, which added 0 or multiplied by 1. If that was computed from a parameter, such as gate" in said
    else:
        assert "the exporter replaced `tanh` by `gate`, whose elements were equal when the model was exported" in said
