"""The model's names never meet the compiler's own, or one another: they are kept for files and messages."""

import pytest
import torch
from torch import nn

import tools
from tools import tool

BATCH, STEPS = 8, 3


class Named(nn.Module):
    """A parameter is called as the function that the compiler makes, a buffer as a role of its arguments, and another one as an
    input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.step, self.step_0 = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))
        self.kernel = nn.ParameterDict({"add": torch.rand(8)})
        self.register_buffer("seed", torch.zeros(8))
        self.register_buffer("mask", torch.rand(8))

    def forward(self, seed, step, mask):
        self.seed.add_(1)
        return (self.layer(seed) * self.step * self.step_0 + self.kernel["add"] * step * mask * self.mask + self.seed,)


@pytest.mark.parametrize("mesh", ["data=2", "pipe=2"])
def test_names_of_the_model_may_be_those_of_the_compiler(tmp_path, mesh):
    torch.manual_seed(3)
    model = Named()
    data = {name: torch.randn(BATCH * STEPS, 8) for name in ("seed", "step", "mask")}
    y = torch.randn(BATCH * STEPS, 8)
    torch.export.save(torch.export.export(model, tuple(t[:BATCH] for t in data.values())), tmp_path / "model.pt2")
    tools.saveData(tmp_path / "data.npz", {**data, "y": y})
    tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mesh", mesh, "--loss", "mse(output,y)",
         "--optimizer", "sgd(lr=0.1,momentum=0.9)", "--group", "step: lr=0.05", "--freeze", "kernel.*")
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 2, tmp_path / "run", "--checkpoint", tmp_path / "kept", "--every", 1)
    update = torch.optim.SGD([{"params": [p], "lr": 0.05 if name == "step" else 0.1}
                              for name, p in model.named_parameters() if "kernel" not in name],
                             momentum=0.9)
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        loss = nn.functional.mse_loss(model(*(t[part] for t in data.values()))[0], y[part])
        update.zero_grad()
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses[:2], rel=1e-5)
    assert set(run.tensors) == set(model.state_dict())
    # What a checkpoint holds has the model's names too.
    more = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "more", "--checkpoint", tmp_path / "kept",
                       "--resume", "auto")
    assert more.losses[-1:] == pytest.approx(losses[2:], rel=1e-5)
    for name, value in more.tensors.items():
        assert torch.allclose(value, model.state_dict()[name], rtol=1e-4, atol=1e-6), name
