"""--bind gives an input its value when the model is compiled."""

import numpy as np
import pytest
import torch

import tools

B, L, H = 4, 5, 8


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(H, H)

    def forward(self, mask, x, scale):
        scores = self.linear(x) @ x.transpose(-1, -2) + mask
        return torch.softmax(scores, -1) @ x * torch.sigmoid(scale)


def export(model, inputs, path):
    torch.export.save(torch.export.export(model, tuple(inputs)), str(path))
    return path


class Chooses(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(H, H)

    def forward(self, x, doubles):
        if bool(doubles):
            return self.linear(x) * 2
        return self.linear(x) - 1


def forward(model, path, x, out, *more):
    tools.tool("compile", path, "-o", out / "plan", "--mode", "forward", *more)
    np.savez(out / "in.npz", x=x.numpy())
    tools.tool("run", out / "plan", "--inputs", out / "in.npz", "--outputs", out / "out.npz")
    loaded = np.load(out / "out.npz")
    return loaded[loaded.files[0]]


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_bound_inputs_are_constants(kind, tmp_path):
    model, mask, x, scale = Masked(), torch.randn(L, L), torch.randn(B, L, H), torch.tensor(0.5)
    if kind == "pt2":
        path = export(model, (mask, x, scale), tmp_path / "model.pt2")
    else:
        path = tmp_path / "model.onnx"
        torch.onnx.export(model, (mask, x, scale), str(path), input_names=["mask", "x", "scale"], dynamo=True, optimize=False,
                          verbose=False)
    np.save(tmp_path / "mask.npy", mask.numpy())
    ours = forward(model, path, x, tmp_path, "--bind", f"mask={tmp_path}/mask.npy", "--bind", "scale=0.5", "--mesh", "data=2")
    assert np.abs(ours - model(mask, x, scale).detach().numpy()).max() < 1e-5
    ours = forward(model, path, x, tmp_path, "--bind", "mask=-1", "--bind", "scale=0.5")
    assert np.abs(ours - model(torch.full((L, L), -1.0), x, scale).detach().numpy()).max() < 1e-5
    for value, message in [("masks=1", "the model has no input `masks`; its inputs are mask, x, scale; nearest: 'mask'"),
                           ("mask", "is not NAME=VALUE, as in scale=0.5 or mask=FILE.npy"),
                           ("mask=true", "'true' is no float32, as input `mask` is, and no FILE.npy"),
                           (f"scale={tmp_path}/mask.npy", "the array has shape [5,5], but input `scale` has []"),
                           ("mask=none.npy", "none.npy")]:
        _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--bind", value, code=1)
        assert message in said
    said, _ = tools.tool("compile", path, "--describe", "--mode", "forward", "--bind", "mask=-1", "--bind", "scale=0.5")
    assert "--bind mask=-1" in said and "--bind scale=0.5" in said


@pytest.mark.parametrize("kind", ["pt", "onnx"])
@pytest.mark.parametrize("doubles", [True, False])
def test_a_bound_input_decides_a_branch(kind, doubles, tmp_path):
    torch.manual_seed(0)
    model, x = Chooses(), torch.randn(B, H)
    script, path = torch.jit.script(model), tmp_path / f"model.{kind}"
    more = ("--bind", f"doubles={str(doubles).lower()}")
    if kind == "pt":  # a scripted model does not say what its inputs are
        script.save(str(path))
        more += ("--input", f"x=float32[{B},{H}]", "--input", "doubles=bool[]")
    else:
        torch.onnx.export(script, (x, torch.tensor(True)), str(path), input_names=["x", "doubles"], dynamo=False)
    ours = forward(model, path, x, tmp_path, *more)
    assert np.abs(ours - model(x, torch.tensor(doubles)).detach().numpy()).max() < 1e-5
