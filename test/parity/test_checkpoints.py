"""Weights go in and out under the model's own names, whatever the layout."""

import dataclasses

import pytest
import torch
from safetensors.torch import save_file

import reference
import tools
from cases import GPT2_TENSOR
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
