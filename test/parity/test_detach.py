"""Where no gradient passes in PyTorch none passes here: detach() as files have it, and --detach for what they cannot say."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tools
from tools import tool

EXPORTS = {
    "dynamo": dict(dynamo=True, optimize=False),
    "optimized": dict(dynamo=True, optimize=True),
    "torchscript": dict(dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False),
}


class Siamese(nn.Module):
    """Two views, each of which follows the other's encoding, as that stands (SimSiam)."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5))
        self.predictor = nn.Linear(5, 5)

    def forward(self, x):
        a, b = self.encoder(x), self.encoder(x.flip(1))
        return (F.mse_loss(self.predictor(a), b.detach()) + F.mse_loss(self.predictor(b), a.detach())) / 2


class StraightThrough(nn.Module):
    """The forward takes the nearest of a few codes, the backward goes past it (VQ-VAE)."""

    def __init__(self):
        super().__init__()
        self.encoder, self.codes, self.decoder = nn.Linear(4, 3), nn.Embedding(5, 3), nn.Linear(3, 4)

    def forward(self, x):
        z = self.encoder(x)
        nearest = ((z[:, None] - self.codes.weight) ** 2).sum(-1).argmin(-1)
        code = self.codes(nearest)
        through = z + (code - z).detach()
        return (F.mse_loss(self.decoder(through), x) + F.mse_loss(code, z.detach())
                + 0.25 * F.mse_loss(code.detach(), z))


class InOneNode(nn.Module):
    """A value and itself without a gradient, as operands of one node, and one of a node that swaps its operands."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.a(x)
        return (y * y.detach()).mean() + torch.addmm(self.b.bias, y.detach(), self.b.weight).pow(2).mean()


class Target(nn.Module):
    """What follows a network that is not trained (BYOL, DINO)."""

    def __init__(self):
        super().__init__()
        self.online, self.target, self.head = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = self.online(x)
        with torch.no_grad():
            t = self.target(x) * 2 + y
        return F.mse_loss(self.head(y), t)


MODELS = {"siamese": Siamese, "straight through": StraightThrough, "in one node": InOneNode, "no_grad": Target}


def export(model, path, how):
    torch.onnx.export(model, (torch.rand(4, 4),), path, input_names=["x"], output_names=["loss"], verbose=False,
                      **EXPORTS[how])


def step(model, folder, *options):
    """Checks each parameter after one step against PyTorch's; returns what the compiler said."""
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(7))
    tools.saveData(folder / "data.npz", {"x": x})
    _, said = tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "output(loss)",
                   "--optimizer", "sgd(lr=1)", *options)
    run = tools.train(folder / "plan", folder / "data.npz", 1, folder / "run")
    loss = model(x)
    loss.backward()
    np.testing.assert_allclose(run.losses, [loss.item()], rtol=1e-5)
    for name, parameter in model.named_parameters():
        gradient = 0 if parameter.grad is None else parameter.grad
        np.testing.assert_allclose(run.tensors[name], (parameter - gradient).detach(), rtol=1e-4, atol=1e-6, err_msg=name)
    return said


@pytest.mark.parametrize("name, how", [("siamese", "dynamo"), ("siamese", "optimized"), ("straight through", "dynamo"),
                                       ("in one node", "dynamo"), ("in one node", "optimized")])
def test_detach_is_honoured(tmp_path, name, how):
    torch.manual_seed(1)
    model = MODELS[name]()
    export(model, tmp_path / "model.onnx", how)
    step(model, tmp_path)


def test_what_an_optimizer_has_merged_across_a_detach_is_said_to_be_lost(tmp_path):
    """The two losses of VQ-VAE are equal but for their gradients."""
    export(StraightThrough(), tmp_path / "model.onnx", "optimized")
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)")
    assert "taken a detach() out of the model" in said and "mse_loss_1" in said and "optimize=False" in said


def test_a_split_batch_has_the_same_gradients(tmp_path):
    torch.manual_seed(1)
    model = Siamese()
    export(model, tmp_path / "model.onnx", "dynamo")
    step(model, tmp_path, "--mesh", "data=2")


def test_an_export_without_metadata_is_told_by_value(tmp_path):
    torch.manual_seed(1)

    class One(Siamese):
        def forward(self, x):
            target = torch.tanh(self.encoder(x))
            return F.mse_loss(self.predictor(self.encoder(x.flip(1))), target.detach())

    model = One()
    export(model, tmp_path / "model.onnx", "torchscript")
    step(model, tmp_path, "--detach", "/Tanh_output_0")


@pytest.mark.parametrize("how, pattern", [("dynamo", "add"), ("optimized", "add"), ("torchscript", "/Add_output_0")])
def test_a_region_without_gradients_is_named_and_detached(tmp_path, how, pattern):
    torch.manual_seed(1)
    model = Target()
    export(model, tmp_path / "model.onnx", how)
    if how != "torchscript":
        _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)")
        assert "torch.no_grad()" in said and f"add --detach '{pattern}'" in said
    said = step(model, tmp_path, "--detach", pattern)
    assert "no_grad" not in said
    assert "the loss does not depend on parameters target.weight, target.bias; they are left as they are" in said


def test_a_module_is_detached_by_what_leaves_it(tmp_path):
    class Frozen(Target):
        def forward(self, x):
            return F.mse_loss(self.head(self.online(x)), self.target(x).detach())

    torch.manual_seed(1)
    model = Frozen()
    export(model, tmp_path / "model.onnx", "torchscript")
    step(model, tmp_path, "--detach", "target")


def test_the_backward_of_a_custom_function_is_said_to_be_lost(tmp_path):
    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.floor(x)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            return (Sign.apply(self.a(x)) * self.a(x)).mean()

    export(Model(), tmp_path / "model.onnx", "dynamo")
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)")
    assert "the backward of the autograd.Function `Sign` is not in the file" in said and "--detach 'floor'" in said


@pytest.mark.parametrize("pattern, reason", [
    ("encodr", "matches no module and no value; nearest: 'encoder'"),
    ("predictor.weight", "names the parameter 'predictor.weight'; --freeze keeps it as it is"),
    ("x", "names the input 'x', which has no gradient"),
    ("[", "is no pattern"),
])
def test_a_pattern_that_detaches_nothing_is_an_error(tmp_path, pattern, reason):
    export(Siamese(), tmp_path / "model.onnx", "torchscript")
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(loss)",
                   "--detach", pattern, code=1)
    assert f"--detach '{pattern}' {reason}" in said
