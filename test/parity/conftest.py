"""Exports and data that several tests share, made once per session."""

import logging
import warnings

import pytest
import torch

import tools
from models import MODELS

torch.set_num_threads(2)
logging.getLogger("torch.onnx").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Name of a model -> its ONNX file."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def get(name):
        if name not in made:
            path = folder / name / "model.onnx"
            path.parent.mkdir()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                MODELS[name].export(path)
            made[name] = path
        return made[name]

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

