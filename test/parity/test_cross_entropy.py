"""Where cross entropy has its classes, and what the exporter's cross entropy and attention leave out of the file."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tools
from tools import tool


def export(model, args, path, names=("x",), **options):
    torch.onnx.export(model, args, path, input_names=list(names), output_names=["logits"], dynamo=True, verbose=False,
                      **{"optimize": False, **options})


class Tokens(nn.Module):
    def __init__(self, vocabulary=10):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, vocabulary))

    def forward(self, x):
        return self.layers(x)


def test_the_classes_are_the_dim_that_the_tokens_do_not_have(tmp_path):
    export(Tokens(), (torch.zeros(4, 6, dtype=torch.int64),), tmp_path / "model.onnx")
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)")
    assert "the classes are dim 2 of 'logits', 10 of them: its other dims are those of 'x'" in said


def test_two_dims_that_could_hold_the_classes_are_an_error(tmp_path):
    export(Tokens(6), (torch.zeros(4, 6, dtype=torch.int64),), tmp_path / "model.onnx")
    compile = ("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss")
    _, said = tool(*compile, "cross_entropy(logits,labels)", code=1)
    assert "dims 1, 2 both leave the dims of 'x'" in said and "axis=1) as PyTorch's" in said
    tool(*compile, "cross_entropy(logits,labels,axis=2)")


@pytest.mark.parametrize("kernel, shape", [(nn.Conv2d(3, 5, 3, padding=1), (4, 3, 8, 8)), (nn.Conv1d(3, 5, 3, padding=1), (4, 3, 8))])
def test_the_classes_of_pixels_must_be_said_and_are_suggested(tmp_path, kernel, shape):
    export(kernel, (torch.zeros(shape),), tmp_path / "model.onnx")
    _, said = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)", code=1)
    assert "may have its classes in any dim; say which: cross_entropy(logits,labels,axis=1)" in said
    command = json.loads(tool("compile", tmp_path / "model.onnx", "--describe", "--json")[0])["command"]
    loss = command[command.index("--loss") + 1]
    assert loss == "cross_entropy(logits,labels,axis=1)"
    x, labels = torch.rand(shape), torch.randint(5, (shape[0], *shape[2:]))
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", loss)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    np.testing.assert_allclose(run.losses, [F.cross_entropy(kernel(x), labels).item()], rtol=1e-5)


class Smoothed(nn.Module):
    """Losses with label smoothing, which PyTorch's exporter drops."""

    def __init__(self, weighted, reduction):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.register_buffer("weight", torch.rand(5) + 0.5 if weighted else None)
        self.reduction = reduction

    def forward(self, x, labels):
        loss = F.cross_entropy(self.linear(x), labels, weight=self.weight, ignore_index=1, label_smoothing=0.3,
                               reduction=self.reduction)
        return loss.mean() if self.reduction == "none" else loss


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_label_smoothing_that_the_file_lacks_is_honoured(tmp_path, weighted, reduction, optimize):
    torch.manual_seed(1)
    model, x, labels = Smoothed(weighted, reduction), torch.rand(6, 4), torch.tensor([0, 1, 2, 3, 4, 1])
    export(model, (x, labels), tmp_path / "model.onnx", ("x", "labels"), optimize=optimize)
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "output(logits)", "--optimizer", "sgd(lr=1)")
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = model(x, labels)
    loss.backward()
    np.testing.assert_allclose(run.losses, [loss.item()], rtol=1e-5)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(run.tensors[name], (parameter - parameter.grad).detach(), rtol=1e-4, atol=1e-6)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x).unflatten(2, (2, 4)).transpose(1, 2)
        h = F.scaled_dot_product_attention(h, h, h, dropout_p=0.25 if self.training else 0.0)
        return h.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("optimize", [False, True])
def test_dropout_of_attention_that_the_file_lacks_is_honoured(tmp_path, optimize):
    export(Attention().train(), (torch.rand(4, 6, 8),), tmp_path / "model.onnx", optimize=optimize)
    describe = ("compile", tmp_path / "model.onnx", "--describe", "--loss", "mse(logits,target)")
    assert "1 dropout is on in training, at a rate of 0.25" in tool(*describe)[0]
    assert "at a rate of 0.5" in tool(*describe, "--dropout", "0.5")[0]
    assert "dropout is on" not in tool(*describe, "--dropout", "off")[0]
    export(Attention().eval(), (torch.rand(4, 6, 8),), tmp_path / "model.onnx", optimize=optimize)
    assert "dropout is on" not in tool(*describe)[0]
