"""Exports and data that several tests share, made once per run."""

import logging
import warnings

import pytest
import torch

import exporters
import shared
import tools
from models import MODELS

torch.set_num_threads(2)
exporters.rememberOperators()
logging.getLogger("torch.onnx").setLevel(logging.ERROR)


@pytest.fixture(scope="session", autouse=True)
def sharedFolder(tmp_path_factory):
    shared.begin(tmp_path_factory)


@pytest.fixture(scope="session")
def exported(sharedFolder):
    """Name of a model -> its ONNX file."""
    def get(name):
        def export(folder):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                MODELS[name].export(folder / "model.onnx")

        return shared.made(name, export) / "model.onnx"

    return get


@pytest.fixture(scope="session")
def adamw(exported):
    """Case -> its plan with AdamW, for all tests that train it so."""
    def get(case):
        return shared.made(f"adamw-{case}", lambda folder: case.compile(
            exported(case.model), folder / "plan", "adamw(lr=1e-3,betas=0.9:0.999,eps=1e-8,weight_decay=0.01)")) / "plan"

    return get


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    """(model, microbatches) -> the npz file of its data."""
    folder, made = tmp_path_factory.mktemp("data"), {}

    def get(name, microbatches):
        key = (name, microbatches)
        if key not in made:
            made[key] = folder / f"{name}-{microbatches}.npz"
            tools.saveData(made[key], MODELS[name].data(microbatches))
        return made[key]

    return get

