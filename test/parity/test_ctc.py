"""Connectionist temporal classification, which torch.export does not export and TorchScript does: a scan over time."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tools

BATCH, TIME, WIDTH, CLASSES, LABELS, STEPS = 4, 7, 5, 6, 3, 3


class Speech(nn.Module):
    """Samples of several lengths, with labels that repeat, and one that no path can write."""

    def __init__(self, reduction, blank):
        super().__init__()
        torch.manual_seed(0)
        self.out = nn.Linear(WIDTH, CLASSES)
        self.reduction, self.blank = reduction, blank

    def forward(self, frames, labels, times, lengths):
        scores = self.out(frames).log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(scores, labels, times, lengths, self.blank, self.reduction, zero_infinity=True)
        return loss if self.reduction != "none" else loss.mean()


def batches():
    random = torch.Generator().manual_seed(1)
    count = STEPS * BATCH
    labels = torch.randint(1, CLASSES, (count, LABELS), generator=random)
    labels[0] = labels[0, 0]  # a blank between each two
    times = torch.randint(4, TIME + 1, (count,), generator=random)
    lengths = torch.randint(1, LABELS + 1, (count,), generator=random)
    times[1], lengths[1] = 1, LABELS  # too short for its labels
    return {"frames": torch.randn(count, TIME, WIDTH, generator=random), "labels": labels, "times": times,
            "lengths": lengths}


@pytest.mark.parametrize("reduction, blank, mesh", [("mean", 0, "data=1"), ("sum", 5, "data=1"), ("none", 0, "data=2")])
def test_ctc_trains_as_in_pytorch(tmp_path, reduction, blank, mesh):
    data = batches()
    if blank:
        data["labels"] = data["labels"] - 1
    model = Speech(reduction, blank)
    torch.jit.trace(model, tuple(v[:BATCH] for v in data.values())).save(tmp_path / "model.pt")
    np.savez(tmp_path / "data.npz", **{k: v.numpy() for k, v in data.items()})
    inputs = [f"--input={k}={str(v.dtype).removeprefix('torch.')}{[BATCH, *v.shape[1:]]}".replace(" ", "")
              for k, v in data.items()]
    tools.tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", "--loss", "output(output)", "--mesh", mesh,
               "--optimizer", "sgd(lr=0.1)", *inputs)
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = model(*(v[step * BATCH:][:BATCH] for v in data.values()))
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours.tensors[name], value, rtol=2e-4, atol=2e-5)
