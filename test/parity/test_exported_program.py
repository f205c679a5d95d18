"""Models that torch.export.save wrote compute, and train, as PyTorch does."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import reference
import tools
from models import BATCH, MODELS
from tools import Case

COMMITTED = Path(__file__).parents[1] / "models"
sys.path.append(str(COMMITTED))
import export_program  # noqa: E402: stands beside the files


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Name of a model -> its .pt2 file, with the batch as it is."""
    folder, made = tmp_path_factory.mktemp("programs"), {}

    def get(name):
        if name not in made:
            spec = MODELS[name]
            model, batch = Named(spec), spec.data(1)
            inputs = {key: tensor[:BATCH] for key, tensor in batch.items() if key not in ("labels", "target")}
            program = torch.export.export(model, (), inputs)
            made[name] = folder / f"{name}.pt2"
            torch.export.save(program, made[name])
        return made[name]

    return get


class Named(torch.nn.Module):
    """Gives the logits of a model under that name, as its family calls it; parameters keep their names."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        model = spec.fresh()
        for name, child in model.named_children():
            self.add_module(name, child)
        for name, parameter in model.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        object.__setattr__(self, "whole", model)
        self.train(model.training)

    def forward(self, **inputs):
        return {"logits": self.spec.family.call(self.whole, inputs)}


def compileProgram(case, path, plan, *more):
    shard = [arg for s in case.shard for arg in ("--shard", s)]
    tools.tool("compile", path, "-o", plan, "--mesh", case.mesh, "--threads", 1, *shard, *more)
    return plan


def trainProgram(case, path, folder, optimizer, steps, data):
    plan = compileProgram(
        case,
        path,
        folder / "plan",
        "--loss",
        case.spec.lossOption,
        "--optimizer",
        optimizer,
        "--microbatches",
        case.microbatches,
        *case.spec.options,
    )
    return tools.train(plan, data, steps, folder / "run")


# Beside those of test_models.py: batch norm as exported in training mode.
CASES = [Case("resnet", "data=1"), Case("resnet", "data=2")]


@pytest.mark.parametrize("case", [c for c in CASES if c.mesh == "data=1"], ids=str)
def test_program_computes_pytorchs_outputs(case, programs, tmp_path):
    plan = compileProgram(case, programs(case.model), tmp_path / "plan", "--mode", "forward", "--eval")
    data = {name: t[:BATCH] for name, t in case.spec.data(1).items()}
    inputs = {name: t for name, t in data.items() if name not in ("labels", "target")}
    tools.saveData(tmp_path / "in.npz", inputs)
    tools.tool("run", plan, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with torch.no_grad():
        theirs = case.spec.family.call(case.spec.fresh().eval(), data).numpy()
    ours = np.load(tmp_path / "out.npz")["logits"]
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_program_trains_as_pytorch(case, programs, dataset, tmp_path):
    """The first gradients, and the losses of five steps."""
    data = dataset(case.model, case.microbatches)
    run = trainProgram(case, programs(case.model), tmp_path, f"sgd(lr={reference.GRADIENT_RATE:.0f})", 1, data)
    before = reference.snapshot(case.spec.fresh())
    after = reference.loaded(case.model, run.tensors)
    gradients = {name: (before[name] - after[name]) / reference.GRADIENT_RATE for name in before}
    found = reference.differences(gradients, reference.gradients(case.model, case.microbatches))
    name, difference = max(found.items(), key=lambda item: item[1])
    assert difference <= 1e-4 or difference <= 3 * reference.gradientSpread(case.model, case.microbatches), name
    run = trainProgram(
        case, programs(case.model), tmp_path, "adamw(lr=1e-3,betas=0.9:0.999,eps=1e-8,weight_decay=0.01)", 5, data
    )
    theirs, _ = reference.train(case.model, case.microbatches, "adamw", 5, torch.float32)
    reference.checkLosses(run.losses, theirs, case.model, case.microbatches, "adamw", 5)


# ===-- what the file says --------------------------------------------------===#


@pytest.mark.parametrize("name", ["mlp.pt2", "mlp-torch-2.8.pt2", "mlp-torch-2.7.pt2"])
def test_every_layout_trains_to_the_same_weights(name, tmp_path):
    """Of torch 2.13, 2.8 and 2.7; the running statistics move, and what is saved is the whole state."""
    torch.manual_seed(0)
    data = {"x": torch.randn(8, 16), "labels": torch.randint(10, (8,))}
    tools.saveData(tmp_path / "data.npz", data)
    tools.tool(
        "compile",
        COMMITTED / name,
        "-o",
        tmp_path / "plan",
        "--dim",
        "s77=8",
        "--threads",
        1,
        "--loss",
        "cross_entropy(logits,labels)",
        "--optimizer",
        "sgd(lr=0.5)",
        "--dropout",
        "off",
    )
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    torch.manual_seed(0)
    model = export_program.Classifier()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    x = torch.nn.functional.linear(data["x"] + torch.linspace(-1, 1, 16), state["fc1.weight"], state["fc1.bias"])
    mean, variance = x.mean(0), x.var(0)
    ours = run.tensors
    assert set(ours) == set(state)
    torch.testing.assert_close(ours["norm.running_mean"], 0.1 * mean, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours["norm.running_var"], 0.9 + 0.1 * variance, rtol=1e-4, atol=1e-6)
    assert ours["norm.num_batches_tracked"].item() == 1
    hidden = torch.nn.functional.batch_norm(
        x, None, None, state["norm.weight"], state["norm.bias"], training=True
    ).relu()
    weight = state["fc2.weight"].clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(hidden, weight, state["fc2.bias"]), data["labels"]
    )
    loss.backward()
    assert run.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(ours["fc2.weight"], weight.detach() - 0.5 * weight.grad, rtol=1e-4, atol=1e-6)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.table.weight
        self.fixed = torch.nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("positions", torch.arange(3))
        self.register_buffer("scratch", torch.ones(4), persistent=False)

    def forward(self, ids):
        return self.head(self.table(ids) * self.fixed * self.scratch + self.positions[:, None])


def save(path, model, args, **more):
    torch.export.save(torch.export.export(model, args, **more), path)
    return path


def test_tied_frozen_and_transient_tensors_are_told_apart(tmp_path):
    path = save(tmp_path / "tied.pt2", Tied(), (torch.zeros(2, 3, dtype=torch.int64),))
    described = json.loads(tools.tool("compile", path, "--describe", "--json")[0])
    text, _ = tools.tool("compile", path, "--describe")
    assert "fixed" in text and "scratch" not in text
    imported, _ = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--stop-after", "import")
    assert 'aliases = ["table.weight"]' in imported or 'aliases = ["head.weight"]' in imported
    lines = [line for line in imported.splitlines() if "graph.parameter @" in line]
    assert len(lines) == 3  # the table, what is frozen, and the positions
    assert sum("trainable" in line for line in lines) == 1
    assert described["report"] == "describe"


def test_sizes_that_are_expressions_follow_from_their_symbols(tmp_path):
    class Half(torch.nn.Module):
        def forward(self, x, y):
            return x + y[::2]

    dim = torch.export.Dim("n", min=2, max=64)
    path = save(
        tmp_path / "half.pt2", Half(), (torch.zeros(4, 3), torch.zeros(8, 3)), dynamic_shapes=({0: dim}, {0: 2 * dim})
    )
    text, _ = tools.tool("compile", path, "--describe", "--mode", "forward")
    symbol = text.split("float32 [")[1].split(",")[0]
    imported, _ = tools.tool(
        "compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--dim", f"{symbol}=5", "--stop-after", "import"
    )
    assert "tensor<10x3xf32>" in imported
    _, error = tools.tool(
        "compile",
        path,
        "-o",
        tmp_path / "plan",
        "--mode",
        "forward",
        "--input",
        "x=float32[5,3]",
        "--input",
        "y=float32[9,3]",
        code=1,
    )
    assert f"dim 0 of 9, which the export says is 2*{symbol} = 10" in error


# ===-- what is refused -----------------------------------------------------===#


def rewritten(folder, edit):
    """mlp.pt2 after `edit` of its members."""
    with zipfile.ZipFile(COMMITTED / "mlp.pt2") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    path = folder / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def edited(name, change):
    def edit(members):
        value = json.loads(members[name])
        change(value)
        members[name] = json.dumps(value).encode()

    return edit


MODEL, WEIGHTS = "mlp/models/model.json", "mlp/data/weights/model_weights_config.json"


def graph(program):
    return program["graph_module"]["graph"]


def setInput(program, number, kind, value):
    program["graph_module"]["signature"]["input_specs"][number] = {kind: value}


def loop(program):
    graph(program)["nodes"][0]["target"] = "torch.ops.higher_order.while_loop"


REFUSED = {
    "no-model": (lambda m: m.pop(MODEL) and None, "has no models/*.json and is no file of torch.export.save"),
    "two-models": (
        lambda m: m.update({"mlp/models/other.json": b"{}"}),
        "has 2 models, 'mlp/models/model.json', 'mlp/models/other.json'; save each in a file of its own",
    ),
    "no-weights": (lambda m: m.pop(WEIGHTS) and None, "has neither 'mlp/data/weights/model_weights_config.json' nor"),
    "no-elements": (
        lambda m: m.pop("mlp/data/weights/weight_0") and None,
        "'mlp/data/weights/weight_0', which the file does not hold",
    ),
    "short-elements": (lambda m: m.update({"mlp/data/weights/weight_0": b"1234"}), "has elements beyond the 4 bytes"),
    "no-json": (lambda m: m.update({MODEL: b"{"}), "mlp/models/model.json: "),
    "version": (edited(MODEL, lambda p: p["schema_version"].update(major=9)), "schema version 9.20 of torch"),
    "missing-weight": (
        edited(WEIGHTS, lambda c: c["config"].pop("fc1.weight") and None),
        "`fc1.weight` is not among the tensors of the file",
    ),
    "pickled-weight": (
        edited(WEIGHTS, lambda c: c["config"]["fc1.weight"].update(use_pickle=True)),
        "was pickled as an object of a Python class",
    ),
    "unknown-type": (
        edited(WEIGHTS, lambda c: c["config"]["fc1.weight"]["tensor_meta"].update(dtype=77)),
        "has elements of type 77, which torch.export does not have",
    ),
    "complex-type": (
        edited(WEIGHTS, lambda c: c["config"]["fc1.bias"]["tensor_meta"].update(dtype=10, sizes=[{"as_int": 4}])),
        "`fc1.bias` is complex64, which is not supported",
    ),
    "open-size": (
        edited(
            WEIGHTS,
            lambda c: c["config"]["fc1.weight"]["tensor_meta"].update(
                sizes=[{"as_expr": {"expr_str": "s0"}}, {"as_int": 16}]
            ),
        ),
        "has the size s0, which is no number",
    ),
    "overlap": (
        edited(WEIGHTS, lambda c: c["config"]["fc1.bias"].update(path_name="weight_0")),
        "share some elements without being one tensor",
    ),
    "custom-object": (
        edited(
            MODEL,
            lambda p: setInput(
                p, 9, "custom_obj", {"arg": {"name": "o", "class_fqn": "C"}, "custom_obj_name": "thing"}
            ),
        ),
        "the model holds the object `thing` of a custom class",
    ),
    "gradients": (
        edited(
            MODEL,
            lambda p: p["graph_module"]["signature"]["output_specs"].append(
                {"gradient_to_parameter": {"arg": {"name": "linear"}, "parameter_name": "fc1.weight"}}
            ),
        ),
        "the forward and the backward of a training step in one graph",
    ),
    "input-mutation": (
        edited(
            MODEL,
            lambda p: p["graph_module"]["signature"]["output_specs"].append(
                {"user_input_mutation": {"arg": {"name": "linear"}, "user_input_name": "x"}}
            ),
        ),
        "the model writes into its input `x`",
    ),
    "unknown-buffer": (
        edited(
            MODEL,
            lambda p: p["graph_module"]["signature"]["output_specs"].append(
                {"buffer_mutation": {"arg": {"name": "linear"}, "buffer_name": "b"}}
            ),
        ),
        "the file says that `b` changes, which is no parameter or buffer",
    ),
    "other-shape": (
        edited(
            MODEL,
            lambda p: p["graph_module"]["signature"]["output_specs"].append(
                {"buffer_mutation": {"arg": {"name": "linear"}, "buffer_name": "norm.running_mean"}}
            ),
        ),
        "buffer `norm.running_mean` becomes a tensor of float32[8, 32]",
    ),
    "unknown-value": (edited(MODEL, lambda p: graph(p)["nodes"].pop(0) and None), "which nothing before it computes"),
    "unknown-operator": (
        edited(MODEL, lambda p: graph(p)["nodes"][0].update(target="torch.ops.aten.istft.default")),
        "aten::istft is not supported; compute it before the data is given: 1 node, `add`",
    ),
    "unknown-function": (
        edited(MODEL, lambda p: graph(p)["nodes"][0].update(target="math.gamma")),
        "math.gamma is not supported",
    ),
    "loop": (edited(MODEL, loop), "it is not supported; write the steps of a loop in Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_program_is_refused(name, tmp_path):
    edit, message = REFUSED[name]
    path = rewritten(tmp_path, edit)
    _, error = tools.tool(
        "compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--dim", "s77=8", "--eval", code=1
    )
    assert message in error


def test_an_archive_of_aotinductor_is_refused_by_name(tmp_path):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", b"pt2")
        archive.writestr("m/data/aotinductor/model/a.so", b"")
    _, error = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert "was compiled by AOTInductor and has no graph any more" in error


@pytest.mark.parametrize(
    "options, message",
    [
        (("--batch-norm", "batch"), "--batch-norm: the model has no batch normalization"),
        (("--dropout", "0.1"), "--dropout: the model has no dropout"),
        (("--no-tie",), "--no-tie: the file holds no copy of a tied matrix"),
        (("--detach", "fc9"), "--detach 'fc9' names no module and no value with a gradient"),
        (("--dim", "batch=8"), "--dim batch=8: no input has an open dim of that name"),
    ],
)
def test_options_without_an_effect_are_refused(options, message, programs, tmp_path):
    _, error = tools.tool(
        "compile", programs("mlp"), "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)", *options, code=1
    )
    assert message in error
