"""Metrics beside the loss are those of the global batch, have no gradient, and are PyTorch's."""

import json

import pytest
import torch
from torch.nn import functional

import tools
from test_losses import BATCH, STEPS, Heads, batchOf, draw, heads  # noqa: F401 (a fixture)

SPLIT = ("--shard", "a.weight=[tensor,-]", "--shard", "a.bias=[tensor]")
METRICS = ("accuracy(a,ya)", "accuracy(a,ya,top=3)", "perplexity(a,ya)", "cross_entropy(a,ya,label_smoothing=0.2)",
           "mse(b,yb)", "l1(b,yb)", "accuracy(c,yc,ignore_index=-1)")


def right(scores, labels, ignored, top=1):
    """The share of the labels that count whose class is among the best `top`."""
    counts = labels != ignored
    return (scores[counts].topk(top).indices == labels[counts, None]).any(-1).float().mean()


def expected(model, batch):
    a, b, c = model(batch["x"])
    entropy = functional.cross_entropy(a, batch["ya"])
    return dict(zip(METRICS, (
        right(a, batch["ya"], -100), right(a, batch["ya"], -100, 3), entropy.exp(),
        functional.cross_entropy(a, batch["ya"], label_smoothing=0.2), functional.mse_loss(b, batch["yb"]),
        functional.l1_loss(b, batch["yb"]), right(c, batch["yc"], -1))))


def options(*metrics):
    return [word for metric in metrics for word in ("--metric", metric)]


@pytest.mark.parametrize("mesh, microbatches, more", [("data=1", 1, ()), ("data=2", 2, ()), ("data=2,tensor=2", 2, SPLIT),
                                                      ("tensor=4", 1, SPLIT)])
def test_metrics_are_those_of_the_global_batch(mesh, microbatches, more, heads, tmp_path):  # noqa: F811
    """Two outputs are there for metrics alone."""
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mesh", mesh, "--loss", "cross_entropy(a,ya)", *options(*METRICS),
               "--microbatches", microbatches, "--optimizer", "sgd(0.5)", *more)
    data, model = draw(), Heads()
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    update = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, logged in enumerate(run.log):
        batch = batchOf(data, step, BATCH * microbatches)
        for name, value in expected(model, batch).items():
            assert logged[name] == pytest.approx(value.item(), rel=2e-5), name
        assert logged["accuracy(a,ya).count"] == logged["count"] == (batch["ya"] != -100).sum()
        assert logged["accuracy(c,yc,ignore_index=-1).count"] == (batch["yc"] != -1).sum()
        assert "mse(b,yb).count" not in logged  # all of them
        update.zero_grad()
        functional.cross_entropy(model(batch["x"])[0], batch["ya"]).backward()
        update.step()
    for name, tensor in run.tensors.items():
        assert torch.allclose(tensor, model.state_dict()[name], atol=1e-6), name


@pytest.mark.parametrize("loss", [(), ("--loss", "cross_entropy(a,ya)")])
def test_an_evaluation_has_the_metrics_of_all_samples(loss, heads, tmp_path):  # noqa: F811
    """The perplexity of all is no mean of the batches'."""
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2", *loss, *options(*METRICS))
    data = {name: tensor[:-3] for name, tensor in draw().items()}  # some make no whole batch
    tools.saveData(tmp_path / "data.npz", data)
    report = json.loads(tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--json")[0])
    with torch.no_grad():
        whole = expected(Heads(), data)
    for name in METRICS:
        assert report["mean"][name] == pytest.approx(whole[name].item(), rel=1e-5), name
    assert ("loss" in report["mean"]) == bool(loss)
    assert report["total"]["accuracy(a,ya).count"] == (data["ya"] != -100).sum()
    assert not [name for name in report["mean"] if name.endswith("count")]
    # Fewer samples than a batch has room for, on standard output.
    few = {name: tensor[:3] for name, tensor in data.items()}
    tools.saveData(tmp_path / "few.npz", few)
    said = tools.tool("run", tmp_path / "plan", "--data", tmp_path / "few.npz")[0].splitlines()
    mean = expected(Heads(), few)["accuracy(a,ya)"].item()
    assert f"accuracy(a,ya) {mean:.6g} (mean over 3 samples)" in said
    assert f"accuracy(a,ya).count {(few['ya'] != -100).sum()} (of 3 samples)" in said


class Given(torch.nn.Module):
    """Its scores are its input."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.scale


def test_of_equal_scores_the_first_is_best_and_nan_is_never_right(tmp_path):
    """As argmax has it: a model that says the same of all classes is not right everywhere."""
    nan = float("nan")
    rows = [([1, 1, 1], 0, 1), ([1, 1, 1], 1, 2), ([1, 1, 1], 2, 3), ([0, 2, 2], 2, 2), ([2, 0, 2], 1, 3), ([2, 0, 2], 2, 2),
            ([nan, 1, 0], 1, 2), ([nan, 1, 0], 0, 9), ([nan, nan, nan], 0, 9), ([0, 0, 0], -100, 9)]
    scores, labels = torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])
    torch.onnx.export(Given(), (scores,), tmp_path / "model.onnx", input_names=["x"], output_names=["y"], dynamo=True,
                      optimize=False, verbose=False)
    metrics = [f"accuracy(y,labels,top={top})" for top in (1, 2, 3)]
    tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", *options(*metrics))
    tools.saveData(tmp_path / "data.npz", {"x": scores, "labels": labels})
    report = json.loads(tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--json", "--allow-nan")[0])
    for top, name in enumerate(metrics, 1):
        assert report["mean"][name] == pytest.approx(sum(row[2] <= top for row in rows) / 9)
        assert report["last"][name + ".count"] == 9


def test_a_metric_leaves_out_the_labels_that_the_loss_does(heads, tmp_path):  # noqa: F811
    data = {name: tensor for name, tensor in draw().items() if name in ("x", "yc")}
    tools.saveData(tmp_path / "data.npz", data)
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", "cross_entropy(c,yc,ignore_index=-1)", *options("accuracy(c,yc)"))
    logged = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run").log[0]
    batch = batchOf(data, 0, BATCH)
    assert logged["accuracy(c,yc)"] == pytest.approx(right(Heads()(batch["x"])[2], batch["yc"], -1).item())


def test_pixels_have_their_classes_in_dim_1(tmp_path):
    model, x, labels = torch.nn.Conv2d(3, 5, 3, padding=1), torch.rand(4, 3, 8, 8), torch.randint(5, (4, 8, 8))
    labels[0, :4] = -100
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", input_names=["x"], output_names=["y"], dynamo=True, optimize=False,
                      verbose=False)
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    metrics = "accuracy(y,labels,axis=1,top=2)", "cross_entropy(y,labels,axis=1,weight=1:2:3:4:5,label_smoothing=0.1)"
    tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=2", "--mode", "forward", *options(*metrics))
    mean = json.loads(tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--json")[0])["mean"]
    with torch.no_grad():
        y = model(x)
        assert mean[metrics[0]] == pytest.approx(right(y.movedim(1, -1), labels, -100, 2).item())
        assert mean[metrics[1]] == pytest.approx(functional.cross_entropy(
            y, labels, weight=torch.arange(1.0, 6), label_smoothing=0.1).item(), rel=1e-5)


def test_a_step_in_which_no_label_of_a_metric_counts_goes_on(heads, tmp_path):  # noqa: F811
    data = draw()
    data["yc"][:BATCH] = -1
    tools.saveData(tmp_path / "data.npz", data)
    tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", "cross_entropy(a,ya)", "--optimizer", "sgd(0.5)",
               *options("accuracy(c,yc,ignore_index=-1)", "mse(b,yb)"))
    log = tools.train(tmp_path / "plan", tmp_path / "data.npz", 2, tmp_path / "run").log
    assert log[0]["accuracy(c,yc,ignore_index=-1)"] is None and log[1]["accuracy(c,yc,ignore_index=-1)"] is not None
    # A loss that diverges is one all the same.
    data["x"][:] = float("inf")
    tools.saveData(tmp_path / "bad.npz", data)
    _, said = tools.tool("run", tmp_path / "plan", "--data", tmp_path / "bad.npz", "--order", "sequential", "--steps", 2, code=6)
    assert "step 1: the loss is NaN" in said


def test_a_metric_keeps_parameters_that_the_loss_does_not_use_as_they_are(heads, tmp_path):  # noqa: F811
    tools.saveData(tmp_path / "data.npz", draw())
    _, said = tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", "cross_entropy(a,ya)", "--optimizer", "sgd(0.5)",
                         *options("mse(b,yb)"))
    assert "the loss does not depend on parameters b.bias, b.weight" in said or "b.weight, b.bias" in said
    tensors = tools.train(tmp_path / "plan", tmp_path / "data.npz", 2, tmp_path / "run").tensors
    assert torch.equal(tensors["b.weight"], Heads().b.weight) and not torch.equal(tensors["a.weight"], Heads().a.weight)


@pytest.mark.parametrize("metric, message", [
    ("accuracy(a,ya,top=0)", "top=0, but output 'a' has 5 classes"), ("accuracy(a,ya,top=6)", "top=6, but output 'a' has 5 classes"),
    ("accuracy(a,ya,k=2)", "its options are: axis, ignore_index, top"), ("acuracy(a,ya)", "unknown metric 'acuracy'"),
    ("accuracy(a)", "expected accuracy(OUTPUT,LABELS)"), ("perplexity(a,ya,top=1)", "its options are: axis, ignore_index"),
    ("0.5*mse(b,yb)", "without a weight"), ("mse(b,yb)+l1(b,yb)", "give each of several in a --metric of its own"),
    ("accuracy(a,ya,ignore_index=2)", "one with ignore_index=-100 and one with ignore_index=2"),
    ("cross_entropy(a,ya)", "the log would have two numbers called 'cross_entropy(a,ya)'"),
    ("accuracy(d,ya)", "--metric: the model has no output 'd'")])
def test_a_metric_that_cannot_be_meant_is_refused(metric, message, heads, tmp_path):  # noqa: F811
    _, errors = tools.tool("compile", heads, "-o", tmp_path / "plan", "--loss", "cross_entropy(a,ya)+mse(c,yd)", "--metric", metric,
                           code=1)
    assert message in errors


def test_metrics_are_no_loss(heads, tmp_path):  # noqa: F811
    _, errors = tools.tool("compile", heads, "-o", tmp_path / "plan", *options("accuracy(a,ya)"), code=1)
    assert "training needs a loss" in errors
