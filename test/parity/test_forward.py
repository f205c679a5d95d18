"""A forward plan computes PyTorch's outputs, assembled from the ranks."""

import numpy as np
import pytest
import torch

import tools
from cases import CASES
from models import BATCH

ONCE = [case for case in CASES if case.microbatches == 1]


@pytest.mark.parametrize("case", ONCE, ids=str)
def test_forward_outputs_are_pytorchs(case, exported, tmp_path):
    shard = [arg for s in case.shard for arg in ("--shard", s)]
    tools.tool("compile", exported(case.model), "-o", tmp_path / "plan", "--mesh", case.mesh,
               "--mode", "forward", *case.spec.inputOptions, *shard, "--threads", 1)
    data = {name: t[:BATCH] for name, t in case.spec.data(1).items()}
    inputs = {name: t for name, t in data.items() if name not in ("labels", "target")}
    tools.saveData(tmp_path / "in.npz", inputs)
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz",
               "--outputs", tmp_path / "out.npz")
    with torch.no_grad():
        theirs = case.spec.logits(case.spec.fresh(), data).numpy()
    ours = np.load(tmp_path / "out.npz")["logits"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
