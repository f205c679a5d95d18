"""Logarithms of what overflows or vanishes are PyTorch's, values and gradients, however large the argument."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tools
from tools import tool

# PyTorch has stable operators for these; the exporter spells them out.
STABLE = {
    "logsigmoid": F.logsigmoid,
    "bce with logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.linspace(0, 1, x.numel()), reduction="none"),
    "bce with a weight": lambda x: F.binary_cross_entropy_with_logits(
        x, torch.linspace(0, 1, x.numel()), pos_weight=torch.tensor(3.0), reduction="none"),
    "softplus": F.softplus,
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "logaddexp": lambda x: torch.logaddexp(x, -2 * x),
}
# Here the model spells them out, and PyTorch's own result is infinite: (as it is written, what is meant).
SPELLED = {
    "log of sigmoid": (lambda x: torch.log(torch.sigmoid(x)), F.logsigmoid),
    "log of 1 - sigmoid": (lambda x: torch.log(1 - torch.sigmoid(x)), lambda x: F.logsigmoid(-x)),
    "log1p of -sigmoid": (lambda x: torch.log1p(-torch.sigmoid(x)), lambda x: F.logsigmoid(-x)),
    "log of softmax": (lambda x: torch.log(torch.softmax(x, 0)), lambda x: F.log_softmax(x, 0)),
    "log of 1 + exp": (lambda x: torch.log(1 + torch.exp(x)), F.softplus),
    "log1p of exp": (lambda x: torch.log1p(torch.exp(x)), F.softplus),
}
FUNCTIONS = {name: (function, function) for name, function in STABLE.items()} | SPELLED
# Each function has its own, since an optimizer merges equal parameters.
POINTS = torch.tensor([-300.0, -100, -89, -30, -1, 0, 0.5, 20, 88, 95, 104, 1000])


def pointsOf(i):
    return POINTS * (1 + i / 100)


class Logarithms(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.ParameterList([pointsOf(i) for i, _ in enumerate(FUNCTIONS)])

    def forward(self, x):
        total = (0 * x).mean()
        for (function, _), points in zip(FUNCTIONS.values(), self.points):
            total = total + (function(points + (0 * x).mean()) * torch.arange(1.0, POINTS.numel() + 1)).mean()
        return total


def export(model, x, folder, kind):
    """Returns the file and the name of the output."""
    if kind in ("dynamo", "optimized"):
        torch.onnx.export(model, (x,), folder / "model.onnx", input_names=["x"], output_names=["loss"], dynamo=True,
                          optimize=kind == "optimized", verbose=False)
        return folder / "model.onnx", "loss"
    program = torch.export.export(model, (x,))
    torch.export.save(program.run_decompositions() if kind == "decomposed" else program, folder / "model.pt2")
    return folder / "model.pt2", "output"


@pytest.fixture(scope="module", params=["dynamo", "optimized", "decomposed"])
def results(request, tmp_path_factory):
    """By function what is left of the parameter, ours and PyTorch's, and the losses."""
    folder, model, x = tmp_path_factory.mktemp("logarithms"), Logarithms(), torch.zeros(2, 1)
    path, output = export(model, x, folder, request.param)
    tools.saveData(folder / "data.npz", {"x": x})
    tool("compile", path, "-o", folder / "plan", "--loss", f"output({output})", "--optimizer", "sgd(lr=1)")
    run = tools.train(folder / "plan", folder / "data.npz", 1, folder / "run")
    expected, loss = {}, 0.0
    for i, (name, (_, meant)) in enumerate(FUNCTIONS.items()):
        points = pointsOf(i).requires_grad_()
        mine = (meant(points) * torch.arange(1.0, POINTS.numel() + 1)).mean()
        mine.backward()
        expected[name] = (points - points.grad).detach().numpy()
        loss += mine.item()
    ours = {name: run.tensors[f"points.{i}"].numpy() for i, name in enumerate(FUNCTIONS)}
    return ours, expected, run.losses[0], loss


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_is_that_of_the_stable_form(results, name):
    ours, expected, _, _ = results
    np.testing.assert_allclose(ours[name], expected[name], rtol=1e-6, atol=1e-6)


def test_the_value_is_that_of_the_stable_form(results):
    _, _, ours, expected = results
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


class Saturated(nn.Module):
    """Where a sigmoid is 0 or 1, PyTorch bounds the logarithm and its gradient."""

    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(POINTS.repeat(3))

    def forward(self, x):
        targets = torch.tensor([0.0, 1.0, 0.3]).repeat_interleave(POINTS.numel())
        return F.binary_cross_entropy(torch.sigmoid(self.points + (0 * x).mean()), targets, reduction="sum")


@pytest.mark.parametrize("kind", ["pt2", "decomposed", "dynamo"])
def test_binary_cross_entropy_keeps_pytorchs_bound(kind, tmp_path):
    model, x = Saturated(), torch.zeros(2, 1)
    path, output = export(model, x, tmp_path, kind)
    tool("compile", path, "-o", tmp_path / "plan", "--loss", f"output({output})", "--optimizer", "sgd(lr=1)")
    tools.saveData(tmp_path / "data.npz", {"x": x})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = model(x)
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-6)
    np.testing.assert_allclose(run.tensors["points"].numpy(), (model.points - model.points.grad).detach().numpy(), rtol=1e-6, atol=1e-6)
