"""Parameters without elements, such as the part of MobileBERT's vocabulary that is wider than its embedding, when it is as wide."""

import numpy as np
import pytest
import torch
from torch import nn

import tools

TOKENS, WIDTH, BATCH, STEPS = 12, 8, 8, 3


class Joined(nn.Module):
    """Scores by the embedding's rows, of which `wider` adds columns that are none here."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(TOKENS, WIDTH)
        self.wider = nn.Parameter(torch.zeros(0, TOKENS))

    def forward(self, ids):
        return self.table(ids) @ torch.cat([self.table.weight.t(), self.wider], dim=0)


@pytest.mark.parametrize("options", [("--mesh", "data=1"), ("--mesh", "data=2"), ("--mesh", "data=2", "--microbatches", 2), ("--mesh", "data=2", "--zero", 3, "--zero-threshold", 1),
                                     ("--mesh", "tensor=2", "--shard", "table.weight=[tensor,-]")],
                         ids=lambda options: "-".join(map(str, options[1::2])).replace("=", ""))
def test_a_parameter_without_elements_is_kept_beside_what_is_trained(tmp_path, options):
    model = Joined()
    ids = torch.randint(TOKENS, (STEPS * BATCH, 3), generator=torch.Generator().manual_seed(1))
    labels = ids.roll(1, 1)
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.export.save(torch.export.export(model, (ids[:BATCH],), dynamic_shapes=({0: batch},)), tmp_path / "model.pt2")
    np.savez(tmp_path / "data.npz", ids=ids.numpy(), labels=labels.numpy())
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "cross_entropy(output,labels)",
               "--input", f"ids=int64[{BATCH // (1 + ('--microbatches' in options))},3]", "--optimizer", "adamw(lr=0.1)", *options)
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = nn.functional.cross_entropy(model(ids[rows]).flatten(0, 1), labels[rows].flatten())
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)
    assert set(ours.tensors) == set(model.state_dict())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours.tensors[name], value, rtol=2e-4, atol=2e-5)
