"""What TorchScript files compute and train is what PyTorch does, on real processes."""

import numpy as np
import pytest
import torch

import reference
import tools
import torchscript
from tools import Case, tool

# Beside those of test_models.py: batch norm as traced in training mode, microbatches, tied tensors.
CASES = [Case("resnet", "data=1"), Case("resnet", "data=2"), Case("gpt2", "data=2", microbatches=4), Case("llama-tied", "data=2")]

each_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Name of a model -> its trace."""
    folder, made = tmp_path_factory.mktemp("traced"), {}

    def get(name):
        if name not in made:
            made[name] = torchscript.trace(
                Case(name, "data=1").spec.fresh(), torchscript.inputsOf(name), folder / f"{name}.pt")
        return made[name]

    return get


@pytest.mark.parametrize("case", [case for case in CASES if case.microbatches == 1], ids=str)
def test_forward_outputs_are_pytorchs(case, traced, tmp_path):
    inputs = torchscript.inputsOf(case.model)
    tool("compile", traced(case.model), "-o", tmp_path / "plan", "--mode", "forward", "--eval",
         *torchscript.arguments(case))
    tools.saveData(tmp_path / "in.npz", inputs)
    tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    model = case.spec.fresh().eval()
    # The tracer has run the model once: running means have moved.
    state = torch.jit.load(traced(case.model)).state_dict()
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    with torch.no_grad():
        output = model(**inputs)
    theirs = getattr(output, "logits", output).numpy()
    ours = np.load(tmp_path / "out.npz")[torchscript.outputOf(case.model)]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


@each_case
def test_first_gradients_are_pytorchs_in_fp64(case, traced, tmp_path):
    plan = torchscript.compile(case, traced(case.model), tmp_path / "plan", f"sgd(lr={reference.GRADIENT_RATE:.0f})")
    run = tools.train(plan, torchscript.data(case, tmp_path / "data.npz"), 1, tmp_path / "run")
    before = reference.snapshot(case.spec.fresh())
    after = reference.loaded(case.model, torchscript.state(case, run))
    gradients = {name: (before[name] - after[name]) / reference.GRADIENT_RATE for name in before}
    name, difference = max(reference.differences(
        gradients, reference.gradients(case.model, case.microbatches)).items(), key=lambda item: item[1])
    assert difference <= 1e-4 or difference <= 3 * reference.gradientSpread(case.model, case.microbatches), name


@each_case
def test_sgd_steps_make_pytorchs_updates(case, traced, tmp_path):
    steps = case.spec.steps
    plan = torchscript.compile(case, traced(case.model), tmp_path / "plan", f"sgd(lr={case.spec.sgd})")
    run = tools.train(plan, torchscript.data(case, tmp_path / "data.npz"), steps, tmp_path / "run")
    before = reference.snapshot(case.spec.fresh())
    ours = reference.loaded(case.model, torchscript.state(case, run))
    losses, theirs = reference.train(case.model, case.microbatches, "sgd", steps, torch.float64)
    row = case.model, case.microbatches, "sgd", steps
    reference.checkLosses(run.losses, losses, *row)
    name, difference = max(reference.differences(
        {n: ours[n] - before[n] for n in before},
        {n: theirs[n] - before[n] for n in before}).items(), key=lambda item: item[1])
    assert difference <= 1e-3 or difference <= 3 * reference.spread(*row)[1], f"update of {name}"
