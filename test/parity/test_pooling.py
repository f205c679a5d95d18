"""Max pooling's gradient goes to the first of equal elements, as PyTorch's does."""

import pytest
import torch

import tools
from tools import tool

BATCH = 8


class Pooled(torch.nn.Module):
    """Of small integers, so that nearly every window has several maxima."""

    def __init__(self, size, stride, padding, dilation):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.randint(3, (2, 13, 11)).float())
        self.pool = torch.nn.MaxPool2d(size, stride, padding, dilation)

    def forward(self, x):
        return torch.flatten(self.pool(x + self.shift), 1)


@pytest.mark.parametrize("mesh", ["data=1", "space=2", "data=2,space=4"])
@pytest.mark.parametrize("window", [(3, 2, 1, 1), (2, 2, 0, 1), (3, 1, 1, 2)], ids=str)
def test_ties_go_to_the_first(window, mesh, tmp_path):
    torch.manual_seed(0)
    model = Pooled(*window)
    random = torch.Generator().manual_seed(3)
    x = torch.randint(3, (BATCH, 2, 13, 11), generator=random).float()
    logits = model(x)
    labels = torch.randint(logits.shape[1], (BATCH,), generator=random)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    torch.onnx.export(model, (x,), str(tmp_path / "model.onnx"), input_names=["x"], output_names=["logits"],
                      dynamo=True, optimize=False, verbose=False)
    data = tmp_path / "data.npz"
    tools.saveData(data, {"x": x, "labels": labels})
    space = ("--shard", f"x=[{'data' if 'data=2' in mesh else '-'},-,space,-]") if "space" in mesh else ()
    # A power of two, so that the gradient is what the parameter has lost.
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", mesh, *space,
         "--loss", "cross_entropy(logits,labels)", "--optimizer", f"sgd(lr={2**20})")
    run = tools.train(tmp_path / "plan", data, 1, tmp_path / "run")
    ours = (model.shift.detach() - run.tensors["shift"]) / 2**20
    assert torch.allclose(ours, model.shift.grad, rtol=1e-4, atol=1e-7)
