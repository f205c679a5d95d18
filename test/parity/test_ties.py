"""Where a function has a kink, or elements are equal, PyTorch's operators choose a gradient. ONNX has one op for several
of them, or none of its own for their gradients: what a model was exported from decides."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tools
from tools import tool

# Every row has a tie of its largest and of its least elements; -1, 0, 1 and 6 are where functions have kinks.
POINTS = torch.tensor([[0.0, 0, -1, 1, 1, -1], [6, 2, 6, 0, 0, 3], [0, 0, 0, 0, 0, 0]])
PLACES = torch.tensor([[0, 1, 1, 5], [2, 2, 2, 2], [3, 0, 4, 1]])
IMAGE = torch.randn(1, 2, 4, 5, generator=torch.Generator().manual_seed(0))
GRID = 1.3 * torch.randn(1, 3, 3, 2, generator=torch.Generator().manual_seed(1))

FUNCTIONS = {
    "relu": F.relu,
    "abs": torch.abs,
    "clamp below": lambda x: x.clamp(min=0.0),
    "clamp": lambda x: x.clamp(-1.0, 1.0),
    "clamp to tensors": lambda x: torch.clamp(x, torch.tensor(-1.0), torch.tensor(1.0)),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.5),
    "softplus": F.softplus,
    "leaky relu": lambda x: F.leaky_relu(x, 0.2),
    "maximum": lambda x: torch.maximum(x, torch.ones(())),
    "minimum": lambda x: torch.minimum(x, torch.ones(())),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1),
    "max of all": lambda x: x.max(),
    "max along a dim": lambda x: x.max(1).values,
    "min along a dim": lambda x: x.min(1).values,
    "norm": lambda x: x.norm(dim=1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine similarity": lambda x: F.cosine_similarity(x, torch.ones(3, 6) / 1e6),
    "deviation": lambda x: x.std(1, correction=0),
    "deviation of all": lambda x: x.std(correction=0),
    "logsumexp": lambda x: x.logsumexp(1),
    "product": lambda x: x.prod(1),
    "round": lambda x: torch.round(0.5 * x) + x,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "atan": torch.atan,
    "asin": lambda x: torch.asin(x / 7),
    "acos": lambda x: torch.acos(x / 7),
    "asinh": torch.asinh,
    "acosh": lambda x: torch.acosh(x + 2.5),
    "atanh": lambda x: torch.atanh(x / 7),
    "straight-through rounding": lambda x: 0.7 * x + ((0.7 * x).round() - 0.7 * x).detach(),
    "largest by known index": lambda x: x.scatter_reduce(1, PLACES, x[:, :4] * 1.0, "amax"),
    "smallest by known index": lambda x: x.scatter_reduce(1, PLACES, x[:, 2:] * 1.0, "amin"),
    "largest by index": lambda x: x.scatter_reduce(1, (0 * x[:, :4]).long() + PLACES, x[:, :4] * 1.0, "amax"),
    "smallest by index, without itself": lambda x: x.scatter_reduce(1, (0 * x[:, :4]).long() + PLACES, 2 * x[:, :4] - 0.3, "amin",
                                                                    include_self=False),
    **{f"grid of {mode}, {padding}, of the {of}": (lambda x, mode=mode, padding=padding, of=of: F.grid_sample(
        x.reshape(1, 2, 3, 3) if of == "image" else IMAGE, GRID if of == "image" else 0.31 * x.reshape(1, 3, 3, 2),
        mode=mode, padding_mode=padding, align_corners=False).flatten())
       for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")
       for of in ("image", "grid")},
    "grid with corners": lambda x: F.grid_sample(IMAGE, 0.31 * x.reshape(1, 3, 3, 2), padding_mode="reflection",
                                                 align_corners=True).flatten(),
}


class Kinks(nn.Module):
    """A parameter for each function, and the weighted sum of what they give."""

    def __init__(self):
        super().__init__()
        self.points = nn.ParameterList([POINTS.clone() for _ in FUNCTIONS])

    def forward(self, x):
        total = (0 * x).mean()
        for function, points in zip(FUNCTIONS.values(), self.points):
            y = function(points)
            total = total + (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum()
        return total


@pytest.fixture(scope="module")
def gradients(tmp_path_factory):
    """By function: ours, and PyTorch's."""
    folder, model = tmp_path_factory.mktemp("ties"), Kinks()
    x = torch.zeros(2, 1)
    torch.onnx.export(model, (x,), folder / "model.onnx", input_names=["x"], output_names=["loss"],
                      dynamo=True, optimize=False, verbose=False)
    tools.saveData(folder / "data.npz", {"x": x})
    tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "output(loss)", "--optimizer", "sgd(lr=1)")
    run = tools.train(folder / "plan", folder / "data.npz", 1, folder / "run")
    model(x).backward()
    return {name: (POINTS - run.tensors[f"points.{i}"], points.grad)
            for i, (name, points) in enumerate(zip(FUNCTIONS, model.points))}


IDENTITY = torch.eye(3)
ROOTS = {
    "deviation": lambda x: x.std(1, correction=0),
    "norm": lambda x: x.norm(dim=1),
    "pairwise distance": lambda x: F.pairwise_distance(x, POINTS, eps=0.0),
    "cdist": lambda x: torch.cdist(x, POINTS) * IDENTITY,
}
EXPORTS = {
    "optimized": dict(dynamo=True, optimize=True),
    "torchscript": dict(dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False),
}


@pytest.mark.parametrize("name, how", [(name, how) for name in ROOTS for how in EXPORTS
                                       if (name, how) != ("cdist", "optimized")])  # PyTorch fails to export it
def test_the_gradient_of_a_norm_at_zero_is_zero_in_every_export(tmp_path, name, how):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.points = nn.Parameter(POINTS.clone())

        def forward(self, x):
            return ROOTS[name](self.points + (0 * x).mean()).sum()

    model, x = Model(), torch.zeros(2, 1)
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", input_names=["x"], output_names=["loss"], verbose=False,
                      **EXPORTS[how])
    tools.saveData(tmp_path / "data.npz", {"x": x})
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)", "--optimizer", "sgd(lr=1)")
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    model(x).backward()
    np.testing.assert_allclose(POINTS - run.tensors["points"], model.points.grad, rtol=1e-5, atol=1e-5)


class Angles(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(POINTS.clone()), nn.Parameter(POINTS.flip(0) + 0.5)

    def forward(self, x):
        return F.cosine_similarity((self.a + (0 * x).mean())[None], self.b[:, None], dim=-1).square().sum()


def test_angles_with_zero_rows_have_gradients_in_old_exports(tmp_path):
    model, x = Angles(), torch.zeros(2, 1)
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", input_names=["x"], output_names=["loss"], verbose=False,
                      **EXPORTS["torchscript"])
    tools.saveData(tmp_path / "data.npz", {"x": x})
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)", "--optimizer", "sgd(lr=1)")
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    model(x).backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach() - run.tensors[name], parameter.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_at_ties_and_kinks_is_pytorchs(gradients, name):
    ours, expected = gradients[name]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_an_embedding_whose_gradient_is_scaled_by_frequency_is_refused(tmp_path):
    model = nn.Sequential(nn.Embedding(6, 3, scale_grad_by_freq=True), nn.Linear(3, 6))
    torch.onnx.export(model, (torch.zeros(2, 4, dtype=torch.int64),), tmp_path / "model.onnx", input_names=["x"],
                      output_names=["y"], dynamo=True, optimize=False, verbose=False)
    _, message = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "cross_entropy(y,labels)", code=1)
    assert "an embedding with scale_grad_by_freq=True" in message
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward")
