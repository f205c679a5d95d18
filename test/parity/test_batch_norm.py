"""Batch normalization in training: whose statistics, and where they are kept."""

import copy

import numpy as np
import pytest
import torch

import tools
from tools import tool

BATCH = 8
LOSS = ("--loss", "cross_entropy(logits,labels)")


def export(model, path, *shape):
    torch.onnx.export(model, (torch.zeros(BATCH, *shape),), str(path), input_names=["x"],
                      output_names=["logits"], dynamo=True, optimize=False, verbose=False)
    return path


def batches(path, samples, classes, *shape):
    random = torch.Generator().manual_seed(3)
    data = {"x": torch.randn(samples, *shape, generator=random),
            "labels": torch.randint(classes, (samples,), generator=random)}
    tools.saveData(path, data)
    return path, data


def losses(onnx, data, folder, *options):
    plan = folder / "plan"
    tool("compile", onnx, "-o", plan, *LOSS, "--optimizer", "sgd(lr=0.1)", *options)
    return tools.train(plan, data, 4, folder / "run").losses


@pytest.fixture(scope="module")
def normalized(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch-norm")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(6, 5)).train()
    shape = (3, 7, 9)
    return model, export(model, folder / "model.onnx", *shape), *batches(folder / "data.npz", 4 * BATCH, 5, *shape)


def theirs(model, tensors, steps, groups):
    """PyTorch's steps with statistics of `groups` equal parts of the batch."""
    model = copy.deepcopy(model).double()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x, labels = tensors["x"][part].double(), tensors["labels"][part]
        update.zero_grad()
        logits = torch.cat([model(each) for each in x.chunk(groups)])
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses, model


@pytest.mark.parametrize("mesh", ["data=1", "data=4"])
def test_batch_norm_of_the_batch_is_that_of_one_process(normalized, mesh, tmp_path):
    model, onnx, data, tensors = normalized
    tool("compile", onnx, "-o", tmp_path / "plan", "--mesh", mesh, *LOSS, "--optimizer", "sgd(lr=0.1)",
         "--batch-norm", "batch")
    run = tools.train(tmp_path / "plan", data, 4, tmp_path / "run")
    expected, trained = theirs(model, tensors, 4, 1)
    assert run.losses == pytest.approx(expected, rel=1e-5)
    for name in ("1.running_mean", "1.running_var"):
        assert torch.allclose(run.tensors[name].double(), trained.state_dict()[name], rtol=1e-5), name


def test_local_batch_norm_is_that_of_groups_of_samples(normalized, tmp_path):
    model, onnx, data, tensors = normalized
    expected, _ = theirs(model, tensors, 4, 2)
    for mesh in ("data=1", "data=2", "data=4"):
        assert losses(onnx, data, tmp_path, "--mesh", mesh, "--batch-norm", "local=4") == pytest.approx(expected, rel=1e-5)


def test_frozen_batch_norm_leaves_the_statistics_alone(normalized, tmp_path):
    model, onnx, data, tensors = normalized
    tool("compile", onnx, "-o", tmp_path / "plan", *LOSS, "--optimizer", "sgd(lr=0.1)", "--batch-norm", "frozen")
    run = tools.train(tmp_path / "plan", data, 4, tmp_path / "run")
    expected, _ = theirs(copy.deepcopy(model).eval(), tensors, 4, 1)
    assert run.losses == pytest.approx(expected, rel=1e-5)
    assert torch.equal(run.tensors["1.running_mean"], model[1].running_mean)


def test_training_says_what_batch_norm_may_do(normalized, tmp_path):
    _, onnx, _, _ = normalized
    _, message = tool("compile", onnx, "-o", tmp_path / "plan", *LOSS, code=1)
    assert all(word in message for word in ("--batch-norm batch", "local=G", "frozen", "inference form"))
    for wrong, word in (("local=3", "does not divide the batch of 8"), ("local=x", "number of samples"), ("all", "unknown 'all'")):
        assert word in tool("compile", onnx, "-o", tmp_path / "plan", *LOSS, "--batch-norm", wrong, code=1)[1]


def test_a_layer_used_twice_moves_its_statistics_twice(tmp_path):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.fc = torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 5)

        def forward(self, x):
            return self.fc(torch.relu(self.norm(2 * torch.relu(self.norm(x)))))

    torch.manual_seed(0)
    model = Twice().train()
    onnx = export(model, tmp_path / "model.onnx", 6)
    data, tensors = batches(tmp_path / "data.npz", 4 * BATCH, 5, 6)
    expected, trained = theirs(model, tensors, 4, 1)
    tool("compile", onnx, "-o", tmp_path / "plan", "--mesh", "data=2", *LOSS, "--optimizer", "sgd(lr=0.1)",
         "--batch-norm", "batch")
    run = tools.train(tmp_path / "plan", data, 4, tmp_path / "run")
    assert run.losses == pytest.approx(expected, rel=1e-5)
    for name in ("norm.running_mean", "norm.running_var"):
        assert torch.allclose(run.tensors[name].double(), trained.state_dict()[name], rtol=1e-5), name


def test_statistics_of_the_batch_in_forward_mode(normalized, tmp_path):
    model, onnx, _, tensors = normalized
    tool("compile", onnx, "-o", tmp_path / "plan", "--mesh", "data=2", "--mode", "forward", "--batch-norm", "batch")
    tools.saveData(tmp_path / "in.npz", {"x": tensors["x"][:BATCH]})
    tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with torch.no_grad():
        expected = copy.deepcopy(model).train()(tensors["x"][:BATCH])
    assert torch.allclose(torch.from_numpy(np.load(tmp_path / "out.npz")["logits"]), expected, atol=1e-5)


def test_options_for_layers_that_the_model_lacks_are_errors(exported, tmp_path):
    for option, word in ((("--batch-norm", "batch"), "no batch normalization"), (("--dropout", "0.1"), "model.train()")):
        assert word in tool("compile", exported("mlp"), "-o", tmp_path / "plan", *LOSS, *option, code=1)[1]
