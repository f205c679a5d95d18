"""Buffers that forward changes: an ONNX file keeps them where it holds what they become, as .pt2 does, or its reader says so."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import exporters
import tools
from tools import tool

BATCH, STEPS, SGD = 8, 3, 0.1


class Average(nn.Module):
    """A moving average, and how often it moved."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("average", torch.zeros(8))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        y = self.layer(x)
        self.average.mul_(0.9).add_(0.1 * y.detach().mean(0))
        self.count.add_(1)
        return ((y - self.average).pow(2).mean(1, keepdim=True) / (self.count + 1),)


class Returned(nn.Module):
    """The new value is also what the model returns, under the user's name for it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(BATCH, 8))

    def forward(self, x):
        self.total.add_(self.layer(x))
        return (self.total.clone(),)


class Codebook(nn.Module):
    """No output needs what `table` becomes, so the exporter leaves it out."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("table", torch.randn(6, 8))
        self.register_buffer("sizes", torch.ones(6))

    def forward(self, x):
        y = self.layer(x)
        hot = F.one_hot((y @ self.table.t()).argmax(1), 6).float()
        nearest = hot @ self.table
        self.sizes.mul_(0.9).add_(hot.sum(0), alpha=0.1)
        self.table.mul_(0.9).add_(hot.t() @ y.detach(), alpha=0.1)
        return (y - nearest,)


class Transient(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("last", torch.zeros(8), persistent=False)

    def forward(self, x):
        self.last.add_(x.mean(0))
        return (self.layer(x) + self.last,)


class Spectral(nn.Module):
    """Forward does not read the old `weight_v`, which the file lacks."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.utils.spectral_norm(nn.Linear(8, 8))

    def forward(self, x):
        return (self.layer(x),)


class Instances(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, affine=True, track_running_stats=True)

    def forward(self, x):
        return (self.norm(self.layer(x.unflatten(1, (1, 2, 4)).repeat(1, 1, 2, 2))).flatten(1),)


def compiled(folder, model, form, *more, code=0, mode=("--loss", "mse(output,y)", "--optimizer", f"sgd(lr={SGD})")):
    path = exporters.FORMATS[form](copy.deepcopy(model), {"x": torch.randn(BATCH, 8)}, folder / "model")
    return tool("compile", path, "-o", folder / "plan", *mode, *more, code=code)[1]


def compare(folder, model, form, *more, microbatches=1):
    """Losses and the whole state are PyTorch's."""
    torch.manual_seed(2)
    x = torch.randn(STEPS * microbatches, BATCH, 8)
    y = torch.randn(STEPS * microbatches, *copy.deepcopy(model)(x[0])[0].shape)
    said = compiled(folder, model, form, "--microbatches", microbatches, *more)
    tools.saveData(folder / "data.npz", {"x": x.flatten(0, 1), "y": y.flatten(0, 1)})
    run = tools.train(folder / "plan", folder / "data.npz", STEPS, folder / "run")
    update = torch.optim.SGD(model.parameters(), lr=SGD)
    for step in range(STEPS):
        update.zero_grad()
        losses = [F.mse_loss(model(x[i])[0], y[i]) / microbatches
                  for i in range(step * microbatches, (step + 1) * microbatches)]
        sum(losses).backward()
        update.step()
        for buffer in model.buffers():
            buffer.detach_()
        assert run.losses[step] == pytest.approx(sum(losses).item(), rel=1e-4)
    for name, value in run.tensors.items():
        assert torch.allclose(value.float(), model.state_dict()[name].float(), rtol=1e-3, atol=1e-5), name
    return said, run.tensors


@pytest.mark.parametrize("form", ["onnx", "pt2"])
@pytest.mark.parametrize("more", [(), ("--mesh", "data=2")])
def test_a_buffer_becomes_what_the_graph_computes(tmp_path, form, more):
    _, tensors = compare(tmp_path, Average(), form, *more)
    assert tensors["count"].item() == STEPS


def test_each_microbatch_changes_a_buffer(tmp_path):
    compare(tmp_path, Average(), "onnx", microbatches=2)


def test_a_buffer_may_become_an_output(tmp_path):
    _, tensors = compare(tmp_path, Returned(), "onnx")
    assert "total" in tensors


def test_a_new_value_that_the_file_lacks_is_an_error(tmp_path):
    said = compiled(tmp_path, Codebook(), "onnx", code=1)
    assert "forward changes table, but the file lacks what it becomes" in said and ".pt2" in said
    said = compiled(tmp_path, Average(), "onnx-optimized", code=1)
    assert "forward changes average" in said and ".pt2" in said
    said = compiled(tmp_path, Transient(), "onnx", code=1)
    assert "last is changed by the model's forward, but not saved with it; register with persistent=True" in said
    # Without training the outputs are right.
    assert "forward changes table" in compiled(tmp_path, Codebook(), "onnx", mode=("--mode", "forward"))


def test_a_buffer_that_forward_does_not_read_is_named(tmp_path):
    # ONNX has no torch.no_grad(), in which the vectors are computed.
    said, tensors = compare(tmp_path, Spectral(), "onnx", "--detach", "clone", "--detach", "clone_1")
    assert "forward changes layer.weight_v, which the file does not hold" in said
    assert "layer.weight_u" in tensors
    said, _ = compare(tmp_path, Instances(), "onnx")
    assert "forward changes norm.running_mean, norm.running_var" in said


@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_instance_norms_are_followed(tmp_path, training):
    model = Instances()
    model.norm.running_mean.uniform_(-1, 1)
    model.norm.running_var.uniform_(0.5, 2)
    before = model.norm.running_var.clone()
    _, tensors = compare(tmp_path, model.train(training), "pt2", "--mesh", "data=2")
    assert torch.equal(tensors["norm.running_var"], before) != training
