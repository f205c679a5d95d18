"""Models of many families, through .pt2 files: values, gradients and five steps are PyTorch's."""

import copy

import numpy as np
import pytest
import torch

import tools
from reference import GRADIENT_RATE
from zoo import ZOO

STEPS = 5


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("zoo"), {}

    def get(name):
        if name not in made:
            model, batch = ZOO[name]()
            path = folder / f"{name}.pt2"
            torch.export.save(torch.export.export(model, (), batch), path)
            tools.saveData(folder / f"{name}.npz", {key: torch.cat([tensor] * STEPS) for key, tensor in batch.items()})
            made[name] = path, folder / f"{name}.npz", model, batch
        return made[name]

    return get


def trained(path, data, folder, optimizer, steps, mesh):
    tools.tool(
        "compile",
        path,
        "-o",
        folder / "plan",
        "--loss",
        "output(loss)",
        "--optimizer",
        optimizer,
        "--mesh",
        mesh,
        "--threads",
        1,
    )
    return tools.train(folder / "plan", data, steps, folder / "run")


@pytest.mark.parametrize("name", ZOO)
def test_program_computes_what_pytorch_does(name, program, tmp_path):
    path, _, model, batch = program(name)
    tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--threads", 1)
    tools.saveData(tmp_path / "in.npz", batch)
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with torch.no_grad():
        theirs = model(**batch)
    ours, expected = np.load(tmp_path / "out.npz")["scores"], theirs["scores"].numpy()
    assert np.abs(ours - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
@pytest.mark.parametrize("name", ZOO)
def test_program_trains_as_pytorch(name, mesh, program, tmp_path):
    path, data, model, batch = program(name)
    run = trained(path, data, tmp_path, f"sgd(lr={GRADIENT_RATE:.0f})", 1, mesh)
    exact = copy.deepcopy(model).double()
    exact(**{key: t.double() if t.is_floating_point() else t for key, t in batch.items()})["loss"].backward()
    parameters = dict(exact.named_parameters())
    largest = max(p.grad.norm().item() for p in parameters.values() if p.grad is not None)
    for key, parameter in parameters.items():
        if key not in run.tensors:  # a further name of a tied one
            continue
        ours = (model.state_dict()[key].double() - run.tensors[key].double()) / GRADIENT_RATE
        theirs = torch.zeros_like(ours) if parameter.grad is None else parameter.grad
        # What is small beside the other gradients is rounding: a key's bias, what stands before a norm.
        assert (ours - theirs).norm() <= 1e-4 * max(theirs.norm().item(), 1e-2 * largest), key
    run = trained(path, data, tmp_path, "sgd(lr=0.1)", STEPS, mesh)
    model, losses = copy.deepcopy(model), []
    update = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(STEPS):
        update.zero_grad()
        loss = model(**batch)["loss"]
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-4)
