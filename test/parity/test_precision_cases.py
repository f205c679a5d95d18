"""Cases in which lower precision went wrong elsewhere, each as the smallest program that would show the fault.

test_loss_scale.py has the others: Adam's correction after a skipped step (test_it_is_pytorchs_grad_scaler), and in f32 the
overflow at the smallest scale on every axis (test_at_the_smallest_scale_the_run_ends_with_the_parameter_and_the_rank).
"""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import tools
from exporters import FORMATS
from test_precision import TYPES, distances

CROSS_ENTROPY, MSE = "cross_entropy(output,labels)", "mse(output,labels)"
PRECISIONS = pytest.mark.parametrize("precision", TYPES)


class Trained:
    """A model, its file and its data: one step or several of SGD, in any precision."""

    def __init__(self, model, inputs, labels, folder, loss=CROSS_ENTROPY):
        self.model, self.folder, self.loss, self.inputs, self.labels = model.eval(), folder, loss, inputs, labels

    def fileFor(self, batch):
        """The exported model, whose batch is that of a microbatch."""
        first = {name: value[:batch] for name, value in self.inputs.items()}
        return FORMATS["pt2"](copy.deepcopy(self.model), first, self.folder / "model")

    def run(self, *options, steps=1, rate=1, microbatches=1, optimizer="sgd(lr=1)", code=0):
        """The log, the weights after the run (none where it ends with a failure), and what the run said."""
        file = self.fileFor(len(self.labels) // microbatches)
        tools.tool("compile", file, "-o", self.folder / "plan", "--loss", self.loss, "--optimizer", optimizer, "--threads", 1,
                   "--zero-threshold", 1, "--microbatches", microbatches, *options)
        tools.saveData(self.folder / "data.npz", self.inputs | {"labels": self.labels})
        log, weights = self.folder / "log", self.folder / "weights.safetensors"
        _, said = tools.tool("run", self.folder / "plan", "--data", self.folder / "data.npz", "--steps", steps, "--order",
                             "sequential", "--lr", rate, "--log", log, "--save", weights, code=code)
        return tools.stepsOf(log), load_file(weights) if code == 0 else None, said

    def gradients(self, *options, rate=1, **more):
        """What one step of SGD took away, over the rate: exact for a parameter of zeros and a power of two."""
        _, after, _ = self.run(*options, rate=rate, **more)
        return {name: (p.detach().double() - after[name].double()) / rate for name, p in self.model.named_parameters()}

    def theirs(self):
        """PyTorch's gradients in fp32."""
        model = copy.deepcopy(self.model)
        scores = model(**self.inputs)
        loss = F.mse_loss(scores, self.labels) if self.loss == MSE else F.cross_entropy(scores.flatten(0, -2), self.labels.flatten())
        return {name: gradient.double() for (name, _), gradient in
                zip(model.named_parameters(), torch.autograd.grad(loss, model.parameters()))}


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def isOf(kind, tensor):
    """Whether each element is a number of this type."""
    return torch.equal(tensor.to(kind).to(tensor.dtype), tensor)


# ===-- sums --------------------------------------------------------------------===#


class Lookup(nn.Module):
    """The gradient of a row is a product's result, and so of the low type. The table is zero."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.head = nn.Embedding(8, 4), nn.Linear(4, 5)
        nn.init.zeros_(self.table.weight)

    def forward(self, ids):
        return self.head(self.table(ids))


@PRECISIONS
@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
def test_equal_rows_of_an_embeddings_gradient_are_added_up_exactly(mesh, precision, tmp_path):
    """A sum in bf16 stays at 256 rows: half a unit in the last place of 256 is one."""
    count, token = 300, 2
    case = Trained(Lookup(), dict(ids=torch.full((count,), token)), torch.full((count,), 1), tmp_path)
    ours, theirs = (each["table.weight"] for each in (case.gradients("--precision", precision, "--mesh", mesh), case.theirs()))
    assert isOf(TYPES[precision], ours[token] / count) and (ours[token] != 0).all()
    assert (ours[token] - theirs[token]).norm() <= 0.02 * theirs[token].norm()
    assert not ours[torch.arange(8) != token].any()


class Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        torch.manual_seed(3)
        self.norm, self.head = norm(16), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.norm(x))


@PRECISIONS
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm], ids=["layer", "rms"])
def test_the_gradient_of_a_norms_scale_is_a_sum_in_f32(norm, precision, tmp_path):
    """4,096 equal rows: a sum in bf16 stays at a sixteenth, one in fp16 at half."""
    rows = 4096
    case = Trained(Normed(norm), dict(x=draw(1, 16).repeat(rows, 1)), torch.full((rows,), 1), tmp_path)
    theirs = case.theirs()
    for name, distance in distances(case.gradients("--precision", precision, rate=2**20), theirs).items():
        assert distance <= 0.02, name


class Slope(nn.Module):
    """One weight for each feature, which starts at zero."""

    def __init__(self, features):
        super().__init__()
        self.line = nn.Linear(features, 1, bias=False)
        nn.init.zeros_(self.line.weight)

    def forward(self, x):
        return self.line(x)


@pytest.mark.parametrize("options", [("--mesh", "data=1"), ("--mesh", "data=2"), ("--mesh", "data=2", "--zero", "2"),
                                     ("--mesh", "data=2", "--zero", "3")], ids=" ".join)
@PRECISIONS
def test_sums_over_microbatches_keep_the_small_ones(precision, options, tmp_path):
    """The first of eight microbatches has a gradient of one, the others of 2^-9: less than half a unit in bf16's last place."""
    size, microbatches = 4, 8
    x = torch.full((microbatches * size, 4), 2.0**-9)
    x[:size] = 1
    # With a weight of zero the gradient of (x w - label)^2 is -2 label x.
    case = Trained(Slope(4), dict(x=x), torch.full((len(x), 1), -0.5), tmp_path, MSE)
    scale = ("--loss-scale", 1024) if precision == "fp16" else ()
    ours = case.gradients("--precision", precision, *scale, *options, microbatches=microbatches)["line.weight"]
    assert torch.equal(ours, torch.full((1, 4), (1 + 7 * 2.0**-9) / microbatches).double())


# ===-- masters -----------------------------------------------------------------===#


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x):
        return self.second(self.first(x).tanh())


@PRECISIONS
def test_updates_that_the_low_type_would_lose_move_the_weights(precision, tmp_path):
    """100 steps together move no weight by half a unit in bf16's last place, and all of them count."""
    model = Layers()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.sign(p) * (0.5 + p.abs()))
    case = Trained(model, dict(x=draw(8, 6)), torch.arange(8) % 5, tmp_path)
    rate = 2.0**-14
    _, after, _ = case.run("--precision", precision, "--mesh", "data=1", steps=100, rate=rate)
    for name, gradient in case.theirs().items():
        moved = model.get_parameter(name).detach().double() - after[name].double()
        assert moved.abs().max() < 2.0**-9, name  # a unit of bf16 from 0.5 on is 2^-8
        assert (moved - 100 * rate * gradient).norm() <= 0.03 * moved.norm(), name


class Tied(nn.Module):
    """A table that is embedding and head, or two tables of the same numbers."""

    def __init__(self, ties):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.body, self.head = nn.Embedding(13, 8), nn.Linear(8, 8), nn.Linear(8, 13, bias=False)
        if ties:
            self.head.weight = self.table.weight
        else:
            self.head.weight.data = self.table.weight.detach().clone()

    def forward(self, ids):
        return self.head(self.table(ids) + self.body(self.table(ids)).tanh())


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
@pytest.mark.parametrize("kept", ["head", "body", ""])
@PRECISIONS
def test_the_gradient_of_a_tied_table_is_one_sum_in_f32(precision, kept, mesh, tmp_path):
    """The sum of what both uses give, without a rounding; a head in f32 is as exact as its operands."""
    ids = torch.arange(64).view(8, 8) * 5 % 11
    labels = torch.arange(64).view(8, 8) * 3 % 13
    options = ("--precision", precision, "--mesh", mesh, *(("--fp32", kept) if kept else ()))
    found = []
    for ties in (True, False):
        (tmp_path / str(ties)).mkdir()
        case = Trained(Tied(ties), dict(ids=ids), labels, tmp_path / str(ties))
        found.append(case.gradients(*options, rate=2**20))
    tied, apart = found
    whole = apart["table.weight"] + apart["head.weight"]
    assert (tied["table.weight"] - whole).norm() <= 1e-6 * whole.norm()
    assert apart["table.weight"].norm() >= 0.01 * whole.norm() and apart["head.weight"].norm() >= 0.01 * whole.norm()
    assert isOf(TYPES[precision], tied["table.weight"]) is False


# ===-- roundings ---------------------------------------------------------------===#


class Tenth(nn.Module):
    """A product, a constant and an exponential, which is computed in f32: x is rounded, and so is a tenth of it."""

    def __init__(self):
        super().__init__()
        self.same = nn.Linear(16, 16, bias=False)
        nn.init.eye_(self.same.weight)

    def forward(self, x):
        return (self.same(x) * 0.1).exp()


@PRECISIONS
def test_a_value_that_was_rounded_stays_rounded(precision, tmp_path):
    """Converting to the low type and back is no pair that may be dropped."""
    inputs = dict(x=draw(8, 16))
    file = FORMATS["pt2"](Tenth().eval(), inputs, tmp_path / "model")
    tools.tool("compile", file, "-o", tmp_path / "plan", "--mode", "forward", "--precision", precision, "--threads", 1)
    tools.saveData(tmp_path / "in.npz", inputs)
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    ours = torch.from_numpy(np.load(tmp_path / "out.npz")["output"]).double()

    def rounded(x):
        return x.to(TYPES[precision]).float()

    exact, wrong = (rounded(rounded(inputs["x"]) * 0.1), rounded(inputs["x"]) * 0.1)
    assert (ours / exact.double().exp() - 1).abs().max() <= 1e-6
    assert (ours / wrong.double().exp() - 1).abs().max() >= 1e-5  # what it would be without the second rounding


# ===-- order and range ---------------------------------------------------------===#


def test_gradients_are_clipped_after_they_are_divided_by_the_scale(tmp_path):
    """At a scale of 65536 the norm is far above what it is clipped to before the division, and below it after."""
    case = Trained(Layers(), dict(x=draw(8, 6)), torch.arange(8) % 5, tmp_path)
    options = ("--precision", "fp16", "--mesh", "data=1")
    plain = case.gradients(*options, rate=2**20)
    norm = torch.cat([each.flatten() for each in plain.values()]).norm().item()
    for limit in (1.5 * norm, 0.5 * norm):
        log, after, _ = case.run(*options, "--clip-norm", limit, rate=2**20)
        assert log[0]["grad_norm"] == pytest.approx(norm, rel=1e-5) and log[0]["loss_scale"] == 65536
        for name, p in case.model.named_parameters():
            expected = plain[name] * min(1, limit / norm)
            assert ((p.detach().double() - after[name].double()) / 2**20 - expected).norm() <= 1e-5 * expected.norm(), name


@pytest.mark.parametrize("mesh", [("--mesh", "data=1"), ("--mesh", "data=2", "--zero", "3")], ids=" ".join)
def test_an_overflow_of_fp16_at_the_smallest_scale_ends_the_run(mesh, tmp_path):
    """A product beyond 65504 is infinite at each scale: the scale falls from 4 to 1, and the third step has no way out. No
    rank goes on with the NaN that marks the parameter, and nothing is saved."""
    case = Trained(Layers(), dict(x=draw(8, 6) * 1e6), torch.arange(8) % 5, tmp_path)
    log, _, said = case.run("--precision", "fp16", "--loss-scale", "dynamic(init=4)", *mesh, steps=6, code=6)
    assert [line["loss_scale"] for line in log] == [4, 2, 1] and [line["skipped"] for line in log] == [1, 1, 2]
    assert not (tmp_path / "weights.safetensors").exists()
    assert "step 3: the gradient of 'first.weight' on rank 0" in said and "the loss scale is as small as it may be" in said
