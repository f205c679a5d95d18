"""Weights go in and out under the model's own names, whatever the layout."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import reference
import tools
from cases import GPT2_TENSOR
from test_losses import Heads, draw, heads  # noqa: F401 (a fixture)
from tools import Case

PLANS = [Case("gpt2", "data=2"), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR),
         Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR), Case("mlp", "data=2")]


def torchWeights(case, path):
    """Other weights than the export's, saved as PyTorch users save them."""
    model = case.spec.fresh()
    torch.manual_seed(3)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.05 * torch.randn_like(tensor))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(state, path)
    return model


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_weights_that_do_not_move_come_back_bit_for_bit(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "sgd(lr=0)")
    data = dataset(case.model, 1)
    model = torchWeights(case, tmp_path / "init.safetensors")
    fromFile = tools.train(plan, data, 1, tmp_path / "file", "--init", tmp_path / "init.safetensors")
    fromExport = tools.train(plan, data, 1, tmp_path / "export")
    assert sorted(fromFile.tensors) == sorted(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(fromFile.tensors[name], tensor), name
    for name, tensor in case.spec.fresh().state_dict().items():
        assert torch.equal(fromExport.tensors[name], tensor), name


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_training_goes_on_from_weights_that_pytorch_saved(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "sgd(lr=0)")
    model = torchWeights(case, tmp_path / "init.safetensors")
    run = tools.train(plan, dataset(case.model, 1), 3, tmp_path / "run",
                      "--init", tmp_path / "init.safetensors")
    data = case.spec.data(1)
    with torch.no_grad():
        theirs = [case.spec.lossOf(model, reference.globalBatch(data, step, 1)).item()
                  for step in range(3)]
    assert run.losses == pytest.approx(theirs, rel=1e-5)


def test_a_checkpoint_of_one_mesh_starts_another(exported, dataset, tmp_path):
    data, onnx = dataset("gpt2", 1), exported("gpt2")
    sharded, split = Case("gpt2", "data=2,tensor=2", GPT2_TENSOR), Case("gpt2", "data=4")
    trained = tools.train(sharded.compile(onnx, tmp_path / "a", "sgd(lr=4.0)"), data, 5, tmp_path / "a")
    idle = tools.train(split.compile(onnx, tmp_path / "b", "sgd(lr=0)"), data, 1, tmp_path / "b",
                       "--init", trained.weights)
    assert trained.tensors.keys() == idle.tensors.keys()
    for name, tensor in trained.tensors.items():
        assert torch.equal(idle.tensors[name], tensor), name


def test_a_file_without_one_of_the_weights_is_refused_by_name(exported, dataset, tmp_path):
    case = Case("mlp", "data=2")
    plan = case.compile(exported("mlp"), tmp_path / "plan", "sgd(lr=0)")
    state = {name: t.clone() for name, t in case.spec.fresh().state_dict().items()}
    state["fc2.bais"] = state.pop("fc2.bias")
    save_file(state, tmp_path / "short.safetensors")
    _, error = tools.tool("run", plan, "--data", dataset("mlp", 1), "--steps", 1,
                          "--init", tmp_path / "short.safetensors", code=1)
    assert "has no tensors for fc2.bias; nearest: 'fc1.bias', 'fc2.bais'" in error


@pytest.mark.parametrize("case", [Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4), Case("llama", "data=4"),
                                  Case("mlp", "data=4")], ids=str)
def test_split_updates_make_the_same_bits(case, exported, dataset, tmp_path):
    """ZeRO stage 1 adds in the same order, and updates each element by the same ops."""
    optimizer = "adamw(lr=1e-2,weight_decay=0.1)"
    data, weights = dataset(case.model, case.microbatches), []
    for each in (case, dataclasses.replace(case, zero=0)):
        plan = each.compile(exported(case.model), tmp_path / f"plan{each.zero}", optimizer)
        kinds = {entry["kind"] for entry in tools.inspect(plan)["collectives"] if "data" in entry["axes"]}
        assert ("ReduceScatter" in kinds) == bool(each.zero)
        weights.append(tools.train(plan, data, 4, tmp_path / f"run{each.zero}").tensors)
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


class Adapted(torch.nn.Module):
    """A base to freeze, an adapter with a tied weight, and a norm's running statistics."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.base, self.head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5)
        self.norm = torch.nn.BatchNorm1d(8)
        self.down, self.up = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
        self.up.weight = self.down.weight

    def forward(self, x):
        x = self.norm(self.base(x))
        return self.head(x + self.up(self.down(x).tanh()))


def compileAdapted(folder, *more):
    torch.onnx.export(Adapted(), (torch.zeros(8, 6),), folder / "model.onnx", input_names=["x"], output_names=["y"],
                      dynamo=True, optimize=False, verbose=False)
    tools.saveData(folder / "data.npz", {"x": torch.randn(64, 6), "labels": torch.randint(5, (64,))})
    tools.tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "cross_entropy(y,labels)",
               "--optimizer", "sgd(lr=0.5)", "--batch-norm", "batch", "--zero-threshold", 1, *more)
    return folder / "plan", folder / "data.npz"


def test_the_trained_tensors_can_be_saved_alone(tmp_path):
    """Under all of their names; what is frozen or a running statistic is not among them."""
    plan, data = compileAdapted(tmp_path, "--mesh", "data=2", "--freeze", "base.*", "--freeze", "head.*", "--freeze", "norm.*")
    run = tools.train(plan, data, 3, tmp_path / "run", "--save-trained", tmp_path / "trained.safetensors")
    trained = load_file(tmp_path / "trained.safetensors")
    assert trained.keys() == {"down.weight", "up.weight"}
    assert not torch.equal(trained["up.weight"], Adapted().up.weight)
    for name, tensor in trained.items():
        assert torch.equal(tensor, run.tensors[name])
    missing, unexpected = Adapted().load_state_dict(trained, strict=False)
    assert not unexpected and "base.weight" in missing


@pytest.mark.parametrize("mesh, more", [
    ("data=1", ()), ("data=2", ()), ("data=2", ("--zero", 0)), ("data=2", ("--zero", 3, "--microbatches", 2)),
    ("data=2,tensor=2", ("--shard", "head.weight=[tensor,-]", "--shard", "down.weight=[tensor,-]"))])
def test_moving_means_are_those_of_pytorchs_averaged_model(mesh, more, tmp_path):
    plan, data = compileAdapted(tmp_path, "--mesh", mesh, "--freeze", "base.*", "--ema", 0.8, *more)
    tools.train(plan, data, 4, tmp_path / "run", "--save-ema", tmp_path / "ema.safetensors")
    model = Adapted()
    model.base.requires_grad_(False)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8))
    update = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    samples = np.load(data)
    size = 16 if "--microbatches" in more else 8
    for step in range(4):
        update.zero_grad()
        parts = [slice(start, start + 8) for start in range(step * size, (step + 1) * size, 8)]
        for part in parts:
            y = model(torch.tensor(samples["x"][part]))
            (torch.nn.functional.cross_entropy(y, torch.tensor(samples["labels"][part])) / len(parts)).backward()
        update.step()
        averaged.update_parameters(model)
    ema = load_file(tmp_path / "ema.safetensors")
    fresh = Adapted()
    fresh.load_state_dict(ema, strict=True)
    theirs = averaged.module.state_dict()
    del theirs["norm.num_batches_tracked"]  # the file has no such number
    assert ema.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.allclose(ema[name], tensor, atol=1e-5), name
    assert torch.equal(ema["base.weight"], Adapted().base.weight) and not torch.allclose(ema["down.weight"], model.down.weight)


def test_the_mean_of_what_no_gradient_reaches_is_the_parameter(heads, tmp_path):  # noqa: F811
    tools.saveData(tmp_path / "data.npz", {name: tensor for name, tensor in draw().items() if name in ("x", "ya")})
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", "cross_entropy(a,ya)", "--ema", 0.9)
    tools.train(tmp_path / "plan", tmp_path / "data.npz", 3, tmp_path / "run", "--save-ema", tmp_path / "ema.safetensors")
    assert torch.equal(load_file(tmp_path / "ema.safetensors")["c.weight"], Heads().c.weight)


def test_after_one_step_the_mean_is_the_parameter(tmp_path):
    plan, data = compileAdapted(tmp_path, "--ema", 0.999)
    run = tools.train(plan, data, 1, tmp_path / "run", "--save-ema", tmp_path / "ema.safetensors")
    for name, tensor in load_file(tmp_path / "ema.safetensors").items():
        assert torch.equal(tensor, run.tensors[name]), name


def test_means_that_a_plan_does_not_keep_are_refused(tmp_path):
    plan, data = compileAdapted(tmp_path)
    save = ("--data", data, "--steps", 1, "--save-ema", tmp_path / "ema.safetensors")
    _, said = tools.tool("run", plan, *save, code=1)
    assert "--save-ema: the plan keeps no moving means of its weights; compile it with --ema DECAY" in said
    tools.tool("compile", tmp_path / "model.onnx", "-o", plan, "--mode", "forward")
    for option in ("--save-ema", "--save-trained"):
        _, said = tools.tool("run", plan, "--data", data, option, tmp_path / "w.safetensors", code=1)
        assert f"{option} is for training plans" in said


@pytest.mark.parametrize("decay, message", [("1", "must be more than 0 and less than 1"), ("0", "--ema"), ("-0.5", "--ema")])
def test_a_decay_that_is_none_is_refused(decay, message, exported, tmp_path):
    _, said = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)",
                         "--ema", decay, code=1)
    assert message in said


def test_files_of_weights_are_apart(tmp_path):
    plan, data = compileAdapted(tmp_path)
    same = tmp_path / "w.safetensors"
    _, said = tools.tool("run", plan, "--data", data, "--steps", 1, "--save", same, "--save-trained", same, code=1)
    assert "--save-trained" in said and not same.exists()
    report = json.loads(tools.tool("run", plan, "--data", data, "--steps", 1, "--save", same, "--save-trained",
                                   tmp_path / "t.safetensors", "--json")[0])
    assert report["files"]["save"] == str(same) and report["files"]["save_trained"] == str(tmp_path / "t.safetensors")
    assert report["saved_bytes"] == sum(tensor.numel() * tensor.element_size() for file in (same, tmp_path / "t.safetensors")
                                        for tensor in load_file(file).values())
