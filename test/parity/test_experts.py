"""Mixtures of experts from ONNX files: what they compute and how they train is PyTorch's, also with experts on several devices."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

import tools
from experts import MODELS, draw
from test_families import compare, compile, logits, spread

STEPS = 5
EXPERTS = ("--shard", "*.experts.gate_up_proj=[tensor,-,-]", "--shard", "*.experts.down_proj=[tensor,-,-]")
MESHES = {"data=1": (), "data=2": (), "data=2,tensor=2": EXPERTS}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("experts"), {}

    def get(build, optimize):
        key = build.__name__, optimize
        if key not in made:
            torch.manual_seed(0)
            model, path = spread(build()).eval(), folder / f"{build.__name__}-{optimize}.onnx"
            torch.onnx.export(model, (), str(path), kwargs={"input_ids": draw()["input_ids"]},
                              input_names=["input_ids"], output_names=["logits"], dynamo=True, optimize=optimize,
                              external_data=False, verbose=False)
            made[key] = path, model
        return made[key]

    return get


def lossOf(model, dtype=None):
    batch = draw()
    return functional.cross_entropy(logits(model(input_ids=batch["input_ids"])).flatten(0, -2),
                                    batch["labels"].flatten())


@pytest.mark.parametrize("optimize", [False, True], ids=["whole", "optimized"])
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_outputs_are_pytorchs(build, optimize, exported, tmp_path):
    path, model = exported(build, optimize)
    inputs = {"input_ids": draw()["input_ids"]}
    with torch.no_grad():
        theirs = model(**inputs).logits.numpy()
    tools.saveData(tmp_path / "in.npz", inputs)
    tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--threads", 1)
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    ours = np.load(tmp_path / "out.npz")["logits"]
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("optimize", [False, True], ids=["whole", "optimized"])
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_first_gradients_are_pytorchs(build, optimize, mesh, exported, tmp_path):
    path, model = exported(build, optimize)
    tools.saveData(tmp_path / "data.npz", draw())
    plan = compile(path, tmp_path / "plan", "cross_entropy(logits,labels)", "--mesh", mesh, *MESHES[mesh])
    compare(plan, tmp_path / "data.npz", model, lossOf, tmp_path)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_steps_are_pytorchs(build, mesh, exported, tmp_path):
    path, model = exported(build, False)
    tools.saveData(tmp_path / "data.npz", {name: torch.cat([tensor] * STEPS) for name, tensor in draw().items()})
    tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)",
               "--optimizer", "sgd(lr=0.1)", "--threads", 1, "--zero-threshold", 1, "--mesh", mesh, *MESHES[mesh])
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    model, losses = copy.deepcopy(model), []
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        update.zero_grad()
        loss = lossOf(model)
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)


def test_experts_that_are_split_lie_on_one_device_each(exported, tmp_path):
    path, model = exported(MODELS[0], False)
    everything = sum(4 * p.numel() for p in model.parameters())
    experts = sum(4 * p.numel() for name, p in model.named_parameters() if ".experts." in name)
    tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)", "--optimizer",
               "sgd(lr=0.1)", "--threads", 1, "--zero", 0, "--mesh", "tensor=2", *EXPERTS)
    assert tools.inspect(tmp_path / "plan")["memory_per_rank"]["parameters"] == everything - experts // 2
