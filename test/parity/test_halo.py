"""Rows of an image over ranks: what is exchanged is the borders of windows, and no more."""

import pytest
import torch

import tools
from cases import CASES
from models import BATCH

FLOAT = 4


def bordersOf(model, batch):
    """Per convolution and pooling: its name, its rows of borders, and the bytes of one row."""
    found = []

    def record(name):
        def hook(module, inputs, _):
            first = lambda value: value if isinstance(value, int) else value[0]
            size, stride, padding = map(first, (module.kernel_size, module.stride, module.padding))
            samples, channels, _, width = inputs[0].shape
            rows = padding + max(0, size - padding - stride)
            found.append((name, rows, FLOAT * samples * channels * width))
        return hook

    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.MaxPool2d)):
            module.register_forward_hook(record(name))
    model(batch)
    return found


@pytest.mark.parametrize("case", [c for c in CASES if c.model == "resnet" and c.size("space") > 1], ids=str)
def test_windows_exchange_their_borders_once_forward_and_once_backward(case, exported, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "sgd(lr=0.1)")
    entries = [e for e in tools.inspect(plan)["collectives"] if e["axes"] == "space"]
    moved = {kind: sorted(e["bytes"] for e in entries if e["kind"] == kind for _ in range(e["executions"]))
             for kind in ("Halo", "HaloAdd")}
    samples = case.spec.data(1)["x"][:BATCH // case.size("data")]
    borders = bordersOf(case.spec.fresh(), samples)
    forward = sorted(rows * row for _, rows, row in borders if rows)
    backward = sorted(rows * row for name, rows, row in borders if rows and name != "conv1")  # of no image
    assert moved == {"Halo": forward, "HaloAdd": backward}
    # No activation is gathered: what is left are statistics, the loss, gradients, and the new parameters, of which
    # as much is gathered as was scattered of the gradients.
    rest = {e["kind"] for e in entries} - {"Halo", "HaloAdd"}
    assert rest <= {"AllReduce", "ReduceScatter", "AllGather"}
    scattered, gathered = (sum(e["bytes"] * e["executions"] for e in entries if e["kind"] == kind)
                           for kind in ("ReduceScatter", "AllGather"))
    assert scattered == gathered
