"""Models that take a sequence apart step by step, whose gradients are joined: first gradients and five steps are PyTorch's."""

import pytest
import torch
from torch import nn

from test_recurrent import BATCH, VOCAB, compareTraining

STEPS = 12


class Cells(nn.Module):
    """A loop of the model's own, which leaves out the second step."""

    def __init__(self):
        super().__init__()
        self.table, self.cell, self.head = nn.Embedding(VOCAB, 6), nn.GRUCell(6, 8), nn.Linear(8, VOCAB)

    def forward(self, ids):
        x = self.table(ids)
        h, steps = x.new_zeros(ids.shape[0], 8), []
        for t in range(STEPS):
            if t != 1:
                h = self.cell(x[:, t], h)
            steps.append(h)
        return self.head(torch.stack(steps, 1))


class Windows(nn.Module):
    """Each step sees the two in front of it, by slices that overlap."""

    def __init__(self):
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(VOCAB, 6), nn.Linear(18, 8), nn.Linear(8, VOCAB)

    def forward(self, ids):
        x = nn.functional.pad(self.table(ids), (0, 0, 2, 0))
        return self.head(torch.stack([torch.tanh(self.mix(x[:, t : t + 3].flatten(1))) for t in range(STEPS)], 1))


class Experts(nn.Module):
    """Parameters that are taken apart."""

    def __init__(self):
        super().__init__()
        self.table, self.weights, self.head = nn.Embedding(VOCAB, 6), nn.Parameter(torch.randn(STEPS, 6, 6) / 3), nn.Linear(6, VOCAB)

    def forward(self, ids):
        x = self.table(ids)
        for t in range(STEPS):
            x = x + 0.2 * torch.tanh(x @ self.weights[t])
        return self.head(x)


@pytest.mark.parametrize("mesh", ["data=1", "data=2", "data=2,tensor=2", "pipe=2"],
                         ids=lambda mesh: mesh.replace("=", "").replace(",", "-"))  # pytest -k takes no "=" and ","
@pytest.mark.parametrize("build", [Cells, Windows, Experts])
def test_parts_train_as_pytorchs(build, mesh, tmp_path):
    torch.manual_seed(0)
    model = build()
    batch = {"ids": torch.randint(VOCAB, (BATCH, STEPS)), "labels": torch.randint(VOCAB, (BATCH, STEPS))}
    torch.export.save(torch.export.export(model, (batch["ids"],)), tmp_path / "model.pt2")
    options = {"data=2,tensor=2": ("--shard", "head.weight=[tensor,-]"), "pipe=2": ("--microbatches", 2)}
    compareTraining(model, batch, tmp_path / "model.pt2", tmp_path, mesh, *options.get(mesh, ()))
