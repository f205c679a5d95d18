"""Constants that the importer computes are the ones that PyTorch and onnxruntime compute, to the last bit where it decides."""

import math

import numpy
import pytest
import torch
from torch import nn

from test_import import check


class Function(nn.Module):
    """Adds what `function` computes from constants to the input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return x + self.function()


def buckets():
    """T5's, MPNet's and WavLM's relative positions: log(2) / log(16) * 8 is 2 in float32 and less in float64."""
    r = torch.arange(1, 129)
    large = 8 + (torch.log(r.float() / 8) / math.log(16) * 8).to(torch.long)
    return torch.where(r < 8, r, torch.minimum(large, torch.full_like(large, 15)))


CONSTANTS = {
    "buckets": buckets,
    "division": lambda: torch.floor(torch.arange(8) / 0.1),
    "decades": lambda: torch.floor(torch.log10(torch.tensor([10.0**k for k in range(8)]))),
    "sums": lambda: (torch.full((4,), 16777216.0) + torch.arange(4)) - 16777216.0,
    "doubles": lambda: torch.floor(torch.arange(8, dtype=torch.float64) / torch.tensor(0.1, dtype=torch.float64)).float(),
    "double sums": lambda: ((torch.full((4,), 16777216.0, dtype=torch.float64) + torch.arange(4)) - 16777216.0).float(),
    "halves": lambda: ((torch.full((4,), 2048.0, dtype=torch.float16) + torch.arange(4).half()) - 2048.0).float(),
    "a double's lowest": lambda: torch.full((4,), torch.finfo(torch.float64).min, dtype=torch.float64).clamp(min=-1e30).float(),
    "eye": lambda: torch.eye(4),
    "narrow integers": lambda: torch.tensor([1.5, 255.9, 0.0]).to(torch.uint8).float(),
    "a range of floats": lambda: torch.arange(0.0, 2.0, 0.1) * 10,
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_folded_in_the_elements_type(tmp_path, name, optimize):
    model = Function(CONSTANTS[name])
    x = torch.zeros(model.function().shape)
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], dynamo=True, optimize=optimize,
                      verbose=False)
    check(tmp_path, path, {"x": x.numpy()}, expected=model(x).numpy())


class Deviation(nn.Module):
    """The number of elements is a product of the shape, known at import."""

    def forward(self, x):
        return x / x.std()


def test_a_standard_deviation_over_all_dims_counts_the_elements(tmp_path):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    path = tmp_path / "model.onnx"
    torch.onnx.export(Deviation(), (x,), path, input_names=["x"], output_names=["y"], dynamo=True, optimize=False,
                      verbose=False)
    check(tmp_path, path, {"x": x.numpy()}, expected=(x / x.std()).numpy())
