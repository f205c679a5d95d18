"""Programs after run_decompositions(): of PyTorch's core operators, they compute and train as the model does."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import experts
import reference
import tools
from models import MODELS
from test_families import spread

SGD = 0.5


class Layers(nn.Module):
    """Layers that decompose into operators of their own, norms above all."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.groups, self.instance, self.prelu = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.PReLU()
        self.fc, self.norm = nn.Linear(4, 5), nn.LayerNorm(5)

    def forward(self, x):
        y = self.up(F.max_pool2d(F.relu(self.bn(self.conv(x))), 2))
        y = F.interpolate(self.instance(self.groups(y)), scale_factor=2, mode="bilinear")
        y = F.avg_pool2d(F.pad(y, (1, 1, 1, 1)), 3)
        y = F.adaptive_avg_pool2d(F.hardswish(F.silu(F.gelu(F.elu(self.prelu(y))))), 1).flatten(1)
        return {"logits": F.log_softmax(self.norm(F.mish(self.fc(y))), -1)
                + F.softplus(F.leaky_relu(y.cumsum(1).mean(1, keepdim=True)))}


def layers(training):
    torch.manual_seed(2)
    model = Layers().train(training)
    with torch.no_grad():
        model.bn.running_mean.normal_(), model.bn.running_var.uniform_(0.5, 2)
    return model, {"x": torch.randn(8, 3, 8, 8)}, torch.randint(5, (8,))


def family(name):
    spec = MODELS[name]
    batch = reference.globalBatch(spec.data(1), 0, 1)
    return spec.fresh(), {n: t for n, t in batch.items() if n != "labels"}, batch["labels"]


def mixture(implementation):
    torch.manual_seed(0)
    model = spread(experts.mixtral()).eval()
    model.set_experts_implementation(implementation)
    batch = experts.draw()
    return model, {"input_ids": batch["input_ids"]}, batch["labels"]


CASES = {
    "layers, in training": (lambda: layers(True), True),
    "layers, in evaluation": (lambda: layers(False), True),
    "bert": (lambda: family("bert"), True),
    "vit": (lambda: family("vit"), True),
    "llama": (lambda: family("llama"), True),
    "experts": (lambda: mixture("grouped_mm"), True),
    "experts, whole": (lambda: mixture("grouped_mm"), False),
}


def logitsOf(result):
    return result["logits"] if isinstance(result, dict) else getattr(result, "logits", result)


@pytest.mark.parametrize("name", CASES)
def test_a_decomposed_program_trains_as_pytorch(tmp_path, name):
    make, decomposes = CASES[name]
    model, inputs, labels = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (), inputs)
        if decomposes:
            program = program.run_decompositions()
        torch.export.save(program, tmp_path / "model.pt2")
    output = "logits" if "logits" in logitNames(tmp_path) else "output"
    frozen = ["--batch-norm", "frozen"] if "evaluation" in name else []
    axis = ["--mesh", "data=2"] if "layers" not in name else []
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", f"cross_entropy({output},labels)",
               "--optimizer", f"sgd(lr={SGD})", *frozen, *axis)
    tools.saveData(tmp_path / "data.npz", {**inputs, "labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = F.cross_entropy(logitsOf(model(**inputs)).flatten(0, -2), labels.flatten())
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    for key, parameter in model.named_parameters():
        if key in run.tensors:
            moved, gradient = parameter.detach() - run.tensors[key], SGD * parameter.grad
            assert (moved - gradient).abs().max() <= 2e-3 * max(gradient.abs().max().item(), 1e-3), key
    for key, buffer in model.named_buffers():
        if key in run.tensors:
            assert torch.allclose(run.tensors[key].double(), buffer.double(), rtol=1e-5, atol=1e-6), key


def logitNames(folder):
    return tools.tool("compile", folder / "model.pt2", "--describe")[0]


class Straight(torch.autograd.Function):
    """Rounds, and passes the gradient on."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Stopped(nn.Module):
    """Ways in which a gradient ends, and one that looks like it: `x[...]` is an alias too."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        with torch.no_grad():
            scale = self.b(h).abs()
            target = scale.sum(-1, keepdim=True) * x
        return ((self.b(h.detach()) - h.detach()) ** 2 + (h[...] * scale - target) ** 2 + x.detach()).mean()


@pytest.mark.parametrize("decomposes", [False, True])
def test_gradients_end_where_they_do_in_pytorch(tmp_path, decomposes):
    model, x = Stopped(), torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    program = torch.export.export(model, (x,))
    torch.export.save(program.run_decompositions() if decomposes else program, tmp_path / "model.pt2")
    said = tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "output(output)",
                      "--optimizer", f"sgd(lr={SGD})")[1]
    tools.saveData(tmp_path / "data.npz", {"x": x})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    model(x).backward()
    for key, parameter in model.named_parameters():
        moved = parameter.detach() - run.tensors[key]
        assert torch.allclose(moved, SGD * parameter.grad, rtol=1e-4, atol=1e-6), key
    notes = ("no gradient passes through alias, alias_1" in " ".join(said.split()), "torch.no_grad() regions" in said)
    assert notes == (decomposes, decomposes), said


def test_a_backward_that_the_file_lacks_is_said(tmp_path):
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            y = self.a(x)
            return (Straight.apply(y) + y).mean()

    for strict in (False, True):
        torch.export.save(torch.export.export(Rounded(), (torch.zeros(8, 4),), strict=strict), tmp_path / "model.pt2")
        said = tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "output(output)")[1]
        assert "the backward of the autograd.Function `Straight` is not in the file" in " ".join(said.split())
