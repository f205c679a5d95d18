"""Parameters that the model itself writes in forward: a table whose rows are held to a norm (Embedding's max_norm)."""

import numpy as np
import pytest
import torch
from torch import nn

import tools

ROWS, WIDTH, BATCH, STEPS = 9, 8, 8, 3


class Held(nn.Module):
    """Each row that is looked up is first made at most 1 long, in the table itself."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(ROWS, WIDTH, max_norm=1.0)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, ids):
        return self.out(self.table(ids)).pow(2).mean()


@pytest.mark.parametrize("mesh, microbatches", [("data=1", 1), ("data=2", 1), ("data=2", 2)])
def test_rows_that_are_made_shorter_are_those_that_the_optimizer_goes_on_from(tmp_path, mesh, microbatches):
    model = Held()
    ids = torch.randint(ROWS, (STEPS * BATCH, 3), generator=torch.Generator().manual_seed(1))
    torch.export.save(torch.export.export(model, (ids[:BATCH // microbatches],)), tmp_path / "model.pt2")
    np.savez(tmp_path / "data.npz", ids=ids.numpy())
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "output(output)", "--mesh", mesh,
               "--microbatches", microbatches, "--optimizer", "adamw(lr=0.1)")
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sum(model(part) for part in ids[step * BATCH:][:BATCH].chunk(microbatches)) / microbatches
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours.tensors[name], value, rtol=2e-4, atol=2e-5)
