"""Losses of several terms, and the numbers that a model gives beside its loss, are PyTorch's."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

import experts
import exporters
import tools

BATCH, MICROBATCHES, STEPS = 8, 2, 4
SAMPLES = BATCH * MICROBATCHES * STEPS
TERMS = ("cross_entropy(a,ya)", "mse(b,yb)", "cross_entropy(c,yc,ignore_index=-1)")
LOSS = f"{TERMS[0]}+0.5*{TERMS[1]}-{TERMS[2]}/8"


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Linear(6, 8)
        self.a, self.b, self.c = (torch.nn.Linear(8, size) for size in (5, 3, 4))

    def forward(self, x):
        h = self.body(x).relu()
        return self.a(h), self.b(h), self.c(h)


def termsOf(model, batch):
    a, b, c = model(batch["x"])
    return (functional.cross_entropy(a, batch["ya"]), functional.mse_loss(b, batch["yb"]),
            functional.cross_entropy(c, batch["yc"], ignore_index=-1))


def draw():
    """Labels that do not count, another number of them in each microbatch and on each rank."""
    random = torch.Generator().manual_seed(1)
    ya = torch.randint(5, (SAMPLES,), generator=random)
    ya[torch.rand(SAMPLES, generator=random) < 0.4] = -100
    yc = torch.randint(-1, 4, (SAMPLES,), generator=random)
    yc[BATCH:BATCH + 6] = -1
    return {"x": torch.randn(SAMPLES, 6, generator=random), "ya": ya,
            "yb": torch.randn(SAMPLES, 3, generator=random), "yc": yc}


def batchOf(data, step, size=BATCH * MICROBATCHES):
    return {name: tensor[step * size:(step + 1) * size] for name, tensor in data.items()}


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "heads.onnx"
    torch.onnx.export(Heads(), (torch.zeros(BATCH, 6),), str(path), input_names=["x"],
                      output_names=["a", "b", "c"], dynamo=True, optimize=False, verbose=False)
    return path


@pytest.mark.parametrize("mesh, microbatches, more", [
    ("data=1", 1, ()), ("data=2", MICROBATCHES, ()), ("data=2,tensor=2", MICROBATCHES, ("--shard", "body.weight=[tensor,-]"))])
def test_a_sum_of_weighted_terms_is_pytorchs(mesh, microbatches, more, heads, tmp_path):
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", mesh, "--loss", LOSS, "--microbatches",
               microbatches, "--optimizer", "sgd(0.5)", *more)
    data, steps = draw(), STEPS * MICROBATCHES // microbatches
    data["ya"][:BATCH * microbatches] = -100  # a mean of nothing, beside terms that go on
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    model = Heads()
    update = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, logged in enumerate(run.log):
        batch = batchOf(data, step, BATCH * microbatches)
        update.zero_grad()
        a, b, c = termsOf(model, batch)
        loss = a + 0.5 * b - c / 8
        loss.backward()
        update.step()
        assert (logged["loss"] is None) == (step == 0)
        for name, value in zip(("loss", *TERMS), (loss, a, b, c)):
            assert logged[name] is None if value.isnan() else logged[name] == pytest.approx(value.item(), rel=2e-5)
        assert logged[TERMS[0] + ".count"] == (batch["ya"] != -100).sum()
        assert logged[TERMS[1] + ".count"] == batch["yb"].numel()
        assert logged[TERMS[2] + ".count"] == (batch["yc"] != -1).sum()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-6), name


def test_one_term_may_have_a_weight(heads, tmp_path):
    losses = []
    for i, loss in enumerate(("mse(b,yb)", "mse(b,yb)*0.25")):
        tools.tool("compile", heads, "-o", tmp_path / f"{i}.plan", "--loss", loss, "--optimizer", f"sgd(lr={4 ** i})")
        tools.saveData(tmp_path / "data.npz", {name: t for name, t in draw().items() if name in ("x", "yb")})
        losses.append(tools.train(tmp_path / f"{i}.plan", tmp_path / "data.npz", 3, tmp_path / str(i)).losses)
    assert [value * 0.25 for value in losses[0]] == pytest.approx(losses[1], rel=1e-6)


class MultiTask(Heads):
    """Its losses are its outputs, with numbers that are no part of the loss."""

    def forward(self, x, ya, yb):
        a, b, _ = super().forward(x)
        lossA, lossB = functional.cross_entropy(a, ya), functional.mse_loss(b, yb)
        accuracy = (a.argmax(-1) == ya).float().mean()
        # `seconds` is a field of the log.
        return lossA + 0.5 * lossB, lossA, lossB, accuracy, b, b.abs().mean()


OUTPUTS = ["loss", "loss_a", "loss_b", "accuracy", "b", "seconds"]


@pytest.fixture(scope="module")
def multitask(tmp_path_factory):
    path = tmp_path_factory.mktemp("multitask") / "multitask.onnx"
    torch.onnx.export(MultiTask(), tuple(tensor[:BATCH] for name, tensor in draw().items() if name != "yc"),
                      str(path), input_names=["x", "ya", "yb"], output_names=OUTPUTS,
                      dynamo=True, optimize=False, verbose=False)
    return path


@pytest.mark.parametrize("loss", ["output(loss)", "output(loss_a)+0.5*output(loss_b)"])
def test_other_scalar_outputs_are_logged(loss, multitask, tmp_path):
    """A mean over the labels that count is one over those of all ranks and microbatches; other numbers are
    the mean of the microbatches' own."""
    tools.tool("compile", multitask, "-o", tmp_path / "plan", "--mesh", "data=2", "--microbatches", MICROBATCHES,
               "--loss", loss, "--optimizer", "sgd(lr=0.1)")
    data = draw()
    del data["yc"]
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    model = MultiTask()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, logged in enumerate(run.log):
        halves = [model(*batchOf(data, step * MICROBATCHES + i, BATCH).values()) for i in range(MICROBATCHES)]
        means = dict(zip(OUTPUTS, (torch.stack(values).mean(0) for values in zip(*halves))))
        batch = batchOf(data, step)
        overTargets = functional.cross_entropy(Heads.forward(model, batch["x"])[0], batch["ya"])
        total = overTargets + 0.5 * means["loss_b"]
        if loss == "output(loss)":
            assert logged["count"] == (batch["ya"] != -100).sum()
            assert logged["loss_a"] == pytest.approx(overTargets.item(), rel=1e-5)
            assert logged["loss_a.count"] == (batch["ya"] != -100).sum()
            assert logged["loss_b"] == pytest.approx(means["loss_b"].item(), rel=1e-5)
        else:
            assert logged["output(loss_a)"] == pytest.approx(overTargets.item(), rel=1e-5)
            assert logged["output(loss)"] == pytest.approx(total.item(), rel=1e-5)
            assert "loss_a" not in logged
        assert logged["loss"] == pytest.approx(total.item(), rel=1e-5)
        assert logged["accuracy"] == pytest.approx(means["accuracy"].item())
        assert logged["output(seconds)"] == pytest.approx(means["seconds"].item(), rel=1e-5)
        assert "b" not in logged
        update.zero_grad()
        total.backward()
        update.step()
    assert run.tensors.keys() == model.state_dict().keys() - {"c.weight", "c.bias"}
    for name, tensor in run.tensors.items():
        assert torch.allclose(tensor, model.state_dict()[name], atol=1e-6), name


class Composite(torch.nn.Module):
    """A factor, a term of the hidden layer, one of the weights and a mask of floats, whose sum has a bound."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5)

    def forward(self, x, y, mask):
        h = torch.tanh(self.first(x))
        logits = self.second(h)
        masked = (functional.cross_entropy(logits, y.clamp(min=0), reduction="none") * mask).sum() / mask.sum().clamp(min=1)
        return (2 / 3 * functional.cross_entropy(logits, y) + 0.01 * h.pow(2).mean() + 0.1 * self.second.weight.pow(2).sum() + masked / 4)


@pytest.mark.parametrize("suffix, options", [("pt2", ("--mesh", "pipe=2")), ("onnx", ("--mesh", "data=2"))])
def test_a_composite_loss_is_that_of_the_global_batch(suffix, options, tmp_path):
    model, data, path = Composite(), draw(), tmp_path / f"model.{suffix}"
    data = {"x": data["x"], "y": data["ya"], "mask": (torch.rand(SAMPLES, generator=torch.Generator().manual_seed(3)) < 0.3) * 0.5}
    example = tuple(tensor[:BATCH] for tensor in data.values())
    if suffix == "pt2":
        torch.export.save(torch.export.export(model, example), path)
    else:
        torch.onnx.export(model, example, str(path), input_names=list(data), output_names=["output"], dynamo=True, optimize=False,
                          verbose=False)
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "output(output)", "--microbatches", MICROBATCHES,
                         "--optimizer", "sgd(lr=0.1)", *options)
    assert "is a sum of 3 means: each is over its own number of targets" in said
    assert "no mean over samples" not in said
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, logged in enumerate(run.log):
        update.zero_grad()
        loss = model(*batchOf(data, step).values())
        loss.backward()
        update.step()
        assert logged["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-6), name


class Routed(torch.nn.Module):
    """Mixtral with the balance loss of its routers, which depends on all tokens of a batch together."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = experts.mixtral()
        self.model.config.output_router_logits = True
        self.model.config.router_aux_loss_coef = self.model.router_aux_loss_coef = 0.1

    def forward(self, input_ids, labels):
        result = self.model(input_ids=input_ids, labels=labels, output_router_logits=True)
        return result.loss, result.aux_loss


def test_what_is_no_mean_over_samples_is_named_and_the_rest_is_global(tmp_path):
    model, generator = Routed(), torch.Generator().manual_seed(1)
    shape = experts.BATCH * MICROBATCHES * 2, experts.CONTEXT
    data = {"input_ids": torch.randint(experts.VOCAB, shape, generator=generator),
            "labels": torch.randint(experts.VOCAB, shape, generator=generator)}
    lengths = torch.randint(2, experts.CONTEXT, shape[:1], generator=generator)
    data["labels"][torch.arange(experts.CONTEXT) >= lengths[:, None]] = -100
    example = {name: tensor[:experts.BATCH] for name, tensor in data.items()}
    exporters.program(model, example, tmp_path / "model.pt2")
    _, said = tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mesh", "data=2", "--loss", "output(output_0)",
                         "--microbatches", MICROBATCHES, "--optimizer", "sgd(lr=0.1)")
    assert "has a part that is no mean over samples: " in said and "reduce 'model/sum" in said, said
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 2, tmp_path / "run")
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, logged in enumerate(run.log):
        parts = [model(*batchOf(data, step * MICROBATCHES + i, experts.BATCH).values())[1] for i in range(MICROBATCHES)]
        loss, whole = model(*batchOf(data, step, experts.BATCH * MICROBATCHES).values())
        loss = loss + 0.1 * (torch.stack(parts).mean() - whole)
        update.zero_grad()
        loss.backward()
        update.step()
        assert logged["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-5), name


def test_an_evaluation_is_the_mean_over_the_targets_of_each_term(heads, tmp_path):
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2", "--loss", LOSS)
    data = draw()
    tools.saveData(tmp_path / "data.npz", data)
    report = json.loads(tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--json")[0])
    with torch.no_grad():
        whole = termsOf(Heads(), data)
    for name, value in zip(TERMS, whole):
        assert report["mean"][name] == pytest.approx(value.item(), rel=1e-5)


@pytest.mark.parametrize("make, option", [
    (lambda p: torch.optim.Adam(p, 0.05, betas=(0.8, 0.9), amsgrad=True),
     "torch.optim.Adam(model.parameters(), 0.05, betas=(0.8, 0.9), amsgrad=True)"),
    (lambda p: torch.optim.AdamW(p, lr=1e-2, maximize=True), "AdamW(lr=1e-2, maximize=True)"),
    (lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), "SGD(0.1, 0.9, nesterov)"),
    (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
     "sgd(lr=0.1,weight_decay=0.1,maximize,foreach=False)")], ids=["amsgrad", "adamw", "nesterov", "maximize"])
def test_optimizers_as_pytorch_writes_them(make, option, heads, tmp_path):
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", "data=2", "--zero-threshold", 1,
               "--loss", "mse(b,yb)", "--optimizer", option)
    data = {name: tensor for name, tensor in draw().items() if name in ("x", "yb")}
    data["x"][BATCH:] *= 0.1  # smaller gradients: a second moment that falls
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 8, tmp_path / "run")
    model = Heads()
    update = make([p for name, p in model.named_parameters() if name.split(".")[0] in ("body", "b")])
    for step in range(8):
        batch = batchOf(data, step, BATCH)
        update.zero_grad()
        functional.mse_loss(model(batch["x"])[1], batch["yb"]).backward()
        update.step()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=2e-5), name


PAIRS = {
    "mse(b,yb)": functional.mse_loss, "l1_loss(b,yb)": functional.l1_loss,
    "F.smooth_l1_loss(b,yb,beta=0.3)": lambda b, y: functional.smooth_l1_loss(b, y, beta=0.3),
    "smooth_l1(b,yb,beta=0)": lambda b, y: functional.smooth_l1_loss(b, y, beta=0),
    "huber(b,yb)": functional.huber_loss, "huber_loss(b,yb,delta=0.4)": lambda b, y: functional.huber_loss(b, y, delta=0.4),
    "binary_cross_entropy_with_logits(b,yb)": functional.binary_cross_entropy_with_logits,
    "bce_with_logits(b,yb,pos_weight=2.5)":
        lambda b, y: functional.binary_cross_entropy_with_logits(b, y, pos_weight=torch.tensor(2.5)),
}


@pytest.mark.parametrize("loss", PAIRS)
@pytest.mark.parametrize("mesh, microbatches", [("data=1", 1), ("data=2", 2)])
def test_losses_of_each_element_are_pytorchs(loss, mesh, microbatches, heads, tmp_path):
    data = draw()
    data = {"x": data["x"], "yb": torch.rand_like(data["yb"]).round(decimals=1) if "logits" in loss else data["yb"]}
    model, size = Heads(), BATCH * microbatches
    tools.saveData(tmp_path / "data.npz", data)
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", mesh, "--loss", loss, "--microbatches", microbatches,
               "--optimizer", "sgd(0.5)")
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 3, tmp_path / "run")
    update = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, logged in enumerate(run.log):
        batch = batchOf(data, step, size)
        update.zero_grad()
        value = PAIRS[loss](model(batch["x"])[1], batch["yb"])
        value.backward()
        update.step()
        assert logged["loss"] == pytest.approx(value.item(), rel=2e-5)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-6), name


@pytest.mark.parametrize("loss, message", [
    ("huber(b,yb,delta=0)", "delta must be positive"), ("smooth_l1(b,yb,beta=-1)", "beta must not be negative"),
    ("bce_with_logits(b,yb,pos_weight=0)", "pos_weight must be positive"),
    ("l1(b,yb,beta=1)", "l1 has no option 'beta'"), ("hubert(b,yb)", "nearest: 'huber'"),
    ("l1(b)", "expected l1(OUTPUT,TARGET)")])
def test_a_loss_that_cannot_be_meant_is_refused(loss, message, heads, tmp_path):
    _, errors = tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", loss, code=1)
    assert message in errors


WEIGHTS = torch.tensor([0.2, 1, 3, 0.5, 0])  # one class counts for nothing
CLASSES = {
    "cross_entropy(a,ya,label_smoothing=0.1)": dict(label_smoothing=0.1),
    "F.cross_entropy(a,ya,label_smoothing=1)": dict(label_smoothing=1.0),
    "cross_entropy(a,ya,weight=0.2:1:3:0.5:0)": dict(weight=WEIGHTS),
    "cross_entropy(a, ya, ignore_index=2, weight=(0.2, 1, 3, 0.5, 0), label_smoothing=0.3)":
        dict(weight=WEIGHTS, label_smoothing=0.3, ignore_index=2),
    "cross_entropy(a,ya,weight=FILE,label_smoothing=0.1)": dict(weight=WEIGHTS, label_smoothing=0.1),
}


@pytest.mark.parametrize("loss", CLASSES)
@pytest.mark.parametrize("mesh, microbatches, more", [
    ("data=1", 1, ()), ("data=2", 2, ()), ("data=2,tensor=2", 2, ("--shard", "a.weight=[tensor,-]", "--shard", "a.bias=[tensor]"))])
def test_smoothed_labels_and_weighted_classes_are_pytorchs(loss, mesh, microbatches, more, heads, tmp_path):
    """The mean by weight is over the weights of the whole global batch, other ones on each rank and microbatch."""
    data, model, size = draw(), Heads(), BATCH * microbatches
    data = {"x": data["x"], "ya": data["ya"]}
    if "ignore_index" in loss:
        data["ya"][data["ya"] == -100] = 2
    np.save(tmp_path / "weights.npy", WEIGHTS.numpy())
    tools.saveData(tmp_path / "data.npz", data)
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", mesh, "--loss",
               loss.replace("FILE", str(tmp_path / "weights.npy")), "--microbatches", microbatches, "--optimizer", "sgd(0.5)", *more)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 4, tmp_path / "run")
    update = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, logged in enumerate(run.log):
        batch, options = batchOf(data, step, size), CLASSES[loss]
        counts = batch["ya"][batch["ya"] != options.get("ignore_index", -100)]
        update.zero_grad()
        value = functional.cross_entropy(model(batch["x"])[0], batch["ya"], **options)
        value.backward()
        update.step()
        assert logged["loss"] == pytest.approx(value.item(), rel=2e-5)
        assert logged["count"] == pytest.approx(WEIGHTS[counts].sum().item() if "weight" in options else len(counts))
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-6), name


def test_a_weighted_mean_may_be_a_term(heads, tmp_path):
    terms = "cross_entropy(a,ya,weight=0.2:1:3:0.5:0)", "bce_with_logits(b,yb,pos_weight=(0.5,2,3))"
    data = draw()
    data["yb"] = torch.rand_like(data["yb"])
    tools.saveData(tmp_path / "data.npz", {name: data[name] for name in ("x", "ya", "yb")})
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", "data=2", "--microbatches", 2, "--loss",
               f"{terms[0]}+0.5*{terms[1]}", "--optimizer", "sgd(0.5)")
    run, model = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run"), Heads()
    update = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, logged in enumerate(run.log):
        batch = batchOf(data, step)
        a, b, _ = model(batch["x"])
        each = (functional.cross_entropy(a, batch["ya"], weight=WEIGHTS),
                functional.binary_cross_entropy_with_logits(b, batch["yb"], pos_weight=torch.tensor([0.5, 2, 3])))
        update.zero_grad()
        (each[0] + 0.5 * each[1]).backward()
        update.step()
        for name, value in zip(terms, each):
            assert logged[name] == pytest.approx(value.item(), rel=2e-5)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-6), name


@pytest.mark.parametrize("loss, message", [
    ("cross_entropy(a,ya,label_smoothing=1.5)", "label_smoothing=1.500000e+00: the share must be from 0 to 1"),
    ("cross_entropy(a,ya,label_smoothing=nan)", "the share must be from 0 to 1"),
    ("cross_entropy(a,ya,weight=1:2)", "weight has 2 numbers, but output 'a' has 5 classes (dim 1)"),
    ("cross_entropy(a,ya,weight=1:2:-1:1:1)", "weight 2 is -1"), ("cross_entropy(a,ya,weight=1:2:inf:1:1)", "weight 2 is INF; weights are finite"),
    ("cross_entropy(a,ya,weight=1:x:1:1:1)", "expected numbers, as in 0.2:1:3"),
    ("cross_entropy(a,ya,weight=there.npy)", "'weight': there.npy: cannot be opened"),
    ("cross_entropy(a,ya,weight=MATRIX)", "has 2 dims; a row of numbers has one"),
    ("cross_entropy(a,ya,weights=1)", "nearest: 'weight'"),
    ("bce_with_logits(b,yb,pos_weight=1:2)", "pos_weight has 2 numbers, but the last dim of the output has 3 elements"),
    ("bce_with_logits(b,yb,pos_weight=1:2:0)", "pos_weight must be positive"),
    ("accuracy(a,ya)", "no loss, for it has no gradient; --metric 'accuracy(a,ya)' logs it"),
    ("perplexity(a,ya)", "cross_entropy is its logarithm")])
def test_weights_and_shares_that_cannot_be_meant_are_refused(loss, message, heads, tmp_path):
    np.save(tmp_path / "matrix.npy", np.ones((5, 1)))
    _, errors = tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", loss.replace("MATRIX", str(tmp_path / "matrix.npy")),
                           code=1)
    assert message in errors
