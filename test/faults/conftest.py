"""The models of test/parity, for the tests of faults."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "parity")]

import faults  # noqa: E402
import tools  # noqa: E402
from models import MODELS  # noqa: E402


@pytest.fixture(scope="session")
def trainings(tmp_path_factory):
    """Kind -> a training with the bytes that it saves when nothing happens to it. Made once."""
    folder, made = tmp_path_factory.mktemp("trainings"), {}

    def get(kind="data"):
        if kind in made:
            return made[kind]
        model = folder / "model.onnx"
        if not model.exists():
            MODELS["mlp"].export(model)
            tools.saveData(folder / "data.npz", MODELS["mlp"].data(2))
        plan = folder / f"{kind}.plan"
        mesh = {"pipe": ("pipe=2",), "four": ("data=4",)}.get(kind, ("data=2",))
        # Of one whose loss rises --patience is over soon.
        optimizer = "sgd(lr=0.03,maximize)" if kind == "rising" else "adamw(lr=0.01)"
        tools.tool("compile", model, "-o", plan, "--mesh", *mesh, *MODELS["mlp"].inputOptions, "--loss", MODELS["mlp"].lossOption,
                   "--optimizer", optimizer, "--microbatches", 2, "--threads", 1)
        made[kind] = faults.Training.undisturbed(plan, folder / "data.npz", folder / f"{kind}.safetensors")
        return made[kind]

    return get
