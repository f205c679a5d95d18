"""Models of many families from every format that PyTorch writes: values, first gradients and five steps are PyTorch's.

The table is zoo.py: models, formats and meshes, and what there is not, with the reason.
"""

import copy
from functools import cached_property

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import sampling
import tools
from exporters import FORMATS, inputOptions
from reference import GRADIENT_RATE
from shared import perName
from zoo import ZOO

STEPS = 5


class Subject:
    """A row of the table: PyTorch's side of it, and what its files have given so far."""

    def __init__(self, name, folder):
        self.name, self.folder, self.row = name, folder, ZOO[name]
        self.model = self.row.fresh()
        self.files, self.losses = {}, {}
        tools.saveData(folder / "in.npz", self.row.inputs)
        data = self.row.inputs | {"labels": self.row.labels}
        tools.saveData(folder / "data.npz", {key: torch.cat([t] * STEPS) for key, t in data.items()})
        state = self.model.state_dict(keep_vars=True)
        first = {id(t): key for key, t in reversed(state.items())}  # as transformers saves tied tensors
        save_file({key: state[key].detach().clone() for key in first.values()}, folder / "state.safetensors")

    def export(self, format):
        return FORMATS[format](copy.deepcopy(self.model), self.row.inputs, self.folder / format)

    def file(self, format):
        if format not in self.files:
            self.files[format] = self.export(format)
        return self.files[format]

    def compile(self, format, plan, *more):
        """What compiles a format's file; an optimized one has lost names, which a state_dict gives back."""
        named = ("--params", self.folder / "state.safetensors") if format == "onnx-optimized" else ()
        return ("compile", self.file(format), "-o", plan, "--threads", 1, *named, *inputOptions(self.row.inputs, format),
                *more)

    def training(self, format, plan, mesh):
        row, axis = self.row, f",axis={self.row.axis}" if self.row.axis >= 0 else ""
        shard = [word for each in row.shard if "tensor" in mesh for word in ("--shard", each)]
        return self.compile(format, plan, "--loss", f"cross_entropy(output,labels{axis})", "--optimizer",
                            f"sgd(lr={row.rate})", "--mesh", mesh, "--zero-threshold", 1, *shard, *row.options,
                            *row.told.get(format, ()))

    @cached_property
    def output(self):
        with torch.no_grad():
            return self.model(**self.row.inputs).numpy()

    def trained(self, dtype):
        """The first gradients, and losses and parameters of the steps."""
        model = copy.deepcopy(self.model).to(dtype).train(self.row.training)
        inputs = {key: t.to(dtype) if t.is_floating_point() else t for key, t in self.row.inputs.items()}
        update = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=self.row.rate)
        gradients, losses = {}, []
        for step in range(STEPS):
            update.zero_grad()
            loss = self.row.loss(model(**inputs))
            loss.backward()
            if step == 0:
                gradients = {key: torch.zeros_like(p).double() if p.grad is None else p.grad.double().clone()
                             for key, p in model.named_parameters()}
            update.step()
            losses.append(loss.item())
        return gradients, losses, {key: p.detach().double() for key, p in model.named_parameters()}

    @cached_property
    def exact(self):
        return self.trained(torch.float64)

    @cached_property
    def spread(self):
        """How far PyTorch in fp32 is from that."""
        gradients, losses, after = self.trained(torch.float32)
        return (worst(differences(gradients, self.exact[0])), lossDifference(losses, self.exact[1]),
                worst(differences(self.moved(after), self.moved(self.exact[2]))))

    def moved(self, after):
        """By the steps; a tied parameter has its first name."""
        before = self.model.state_dict()
        return {key: after[key].double() - before[key].double() for key, _ in self.model.named_parameters()}


def differences(ours, theirs):
    """Relative to each tensor; of what is nothing but rounding, to a small part of the largest."""
    least = 1e-3 * max(tensor.norm().item() for tensor in theirs.values())
    return {key: ((ours[key] - tensor).norm() / max(tensor.norm().item(), least)).item() for key, tensor in theirs.items()}


def worst(differences):
    return max(differences.values())


def lossDifference(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def check(found, limit, subject, which):
    """By the name of what is compared; three times PyTorch's own difference is allowed."""
    for name, difference in found.items():
        assert difference <= limit or difference <= 3 * subject.spread[which], name


subject = perName(Subject)


def trains(subject, format, mesh, folder):
    """Compares a plan's gradients and steps with PyTorch's, and returns the losses."""
    plan, data = folder / "plan", subject.folder / "data.npz"
    tools.tool(*subject.training(format, plan, mesh))
    gradients, losses, after = subject.exact
    before = subject.model.state_dict()
    first = tools.train(plan, data, 1, folder / "first", "--lr", f"{GRADIENT_RATE:.0f}").tensors
    ours = {key: (before[key].double() - first[key].double()) / GRADIENT_RATE for key in gradients}
    check(differences(ours, gradients), 1e-4, subject, 0)
    run = tools.train(plan, data, STEPS, folder / "run")
    check({"loss": lossDifference(run.losses, losses)}, 1e-5, subject, 1)
    check(differences(subject.moved(run.tensors), subject.moved(after)), 1e-3, subject, 2)
    for key, parameter in subject.model.named_parameters():
        assert parameter.requires_grad or torch.equal(run.tensors[key], parameter), key
    return run.losses


def lossesOf(subject, format, mesh, folder):
    if (format, mesh) not in subject.losses:
        folder.mkdir()
        subject.losses[format, mesh] = trains(subject, format, mesh, folder)
    return subject.losses[format, mesh]


TABLE = [(name, format) for name in ZOO for format in FORMATS if format != "onnx-old-folded"]


def valuesOf(cell):
    """In a sample each model is in one format of ONNX and in one other, which take turns; and what each exporter and the
    compiler refuse is once."""
    name, format = cell
    row = ZOO[name]
    refused = row.absent | row.refused
    if format in refused:
        return {refused[format]}
    formats = [each for model, each in TABLE
               if model == name and each not in refused and each.startswith("onnx") == format.startswith("onnx")]
    return {(name, formats[0])} if format == formats[list(ZOO).index(name) % len(formats)] else ()


@pytest.mark.parametrize("name, format", sampling.rows(TABLE, valuesOf, name="-".join))
def test_a_model_computes_and_trains_as_in_pytorch(name, format, subject, tmp_path):
    model = subject(name)
    row = model.row
    if format in row.absent:
        with pytest.raises(Exception) as failure:
            model.export(format)
        assert row.absent[format] in str(failure.value)
        return
    tools.tool(*model.compile(format, tmp_path / "forward", "--mode", "forward"))
    tools.tool("run", tmp_path / "forward", "--inputs", model.folder / "in.npz", "--outputs", tmp_path / "out.npz")
    output = np.load(tmp_path / "out.npz")["output"]
    assert output.shape == model.output.shape
    assert np.abs(output - model.output).max() <= 1e-5 * np.abs(model.output).max()
    if format in row.refused:
        _, said = tools.tool(*model.training(format, tmp_path / "plan", "data=1"), code=1)
        assert row.refused[format] in said
        return
    # Where graphs agree, so do all bits of the losses.
    other = "onnx" if format.startswith("onnx") else "pt2"
    for mesh in ("data=1", "data=2", "data=2,tensor=2") if row.shard else ("data=1", "data=2"):
        losses = lossesOf(model, format, mesh, tmp_path / mesh)
        if format != other and format not in row.apart:
            assert losses == lossesOf(model, other, mesh, tmp_path / f"{other}-{mesh}")
