"""polyrank-run --save-dtype: what is saved is rounded as PyTorch rounds it, on any mesh, and checkpoints are not."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tools
from tools import tool

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Net(nn.Module):
    """A parameter of each role: trained, frozen, a buffer that is used, and one of integers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 64), nn.Linear(64, 6)
        self.last.bias.requires_grad_(False)
        self.register_buffer("scale", torch.rand(64) + 0.5)
        self.register_buffer("order", torch.randperm(64))

    def forward(self, x):
        return self.last(torch.relu(self.first(x))[:, self.order] * self.scale)


def compiled(folder, dtype=torch.float32, *mesh):
    torch.manual_seed(0)
    model = Net().to(dtype)
    program = torch.export.export(model, (torch.zeros(8, 12, dtype=dtype),))
    torch.export.save(program, folder / "net.pt2")
    _, said = tool("compile", folder / "net.pt2", "-o", folder / "net.plan", "--loss", "cross_entropy(output,labels)", "--optimizer",
                   "sgd(lr=0.1)", *mesh)
    tools.saveData(folder / "data.npz", {"x": torch.randn(32, 12), "labels": torch.randint(0, 6, (32,))})
    return model, said


def saved(folder, *options):
    out = folder / "saved.safetensors"
    _, said = tool("run", folder / "net.plan", "--data", folder / "data.npz", "--steps", 3, "--save", out, *options)
    return load_file(out), said


@pytest.mark.parametrize("mesh", [(), ("--mesh", "data=2,tensor=2", "--shard", "first.weight=[tensor,-]"), ("--mesh", "data=2", "--zero", "3")])
def test_floats_are_rounded_as_pytorch_rounds_them(mesh, tmp_path):
    compiled(tmp_path, torch.float32, *mesh)
    exact, _ = saved(tmp_path)
    for name, dtype in TYPES.items():
        tensors, said = saved(tmp_path, "--save-dtype", name)
        assert "changes nothing" not in said
        assert set(tensors) == set(exact)
        for key, tensor in exact.items():
            expected = tensor.to(dtype) if tensor.is_floating_point() else tensor
            assert tensors[key].dtype == expected.dtype, key
            assert torch.equal(tensors[key], expected), key
    Net().to(torch.bfloat16).load_state_dict(saved(tmp_path, "--save-dtype", "bf16")[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_file_of_other_floats_gives_one_again(dtype, tmp_path):
    model, said = compiled(tmp_path, dtype)
    assert "computed and saved in float32 (saved as in the file with polyrank-run's --save-dtype file; --precision" in said
    exact, _ = saved(tmp_path)
    tensors, _ = saved(tmp_path, "--save-dtype", "file")
    for key, tensor in model.state_dict().items():
        assert tensors[key].dtype == tensor.dtype
        assert torch.equal(tensors[key], exact[key].to(tensor.dtype)), key
    model.load_state_dict(tensors)
    # In a folder the sizes are those of the rounded tensors.
    tool("run", tmp_path / "net.plan", "--data", tmp_path / "data.npz", "--steps", 3, "--save", f"{tmp_path}/folder/",
         "--save-dtype", "bf16", "--save-shard-size", "1KB")
    sizes = [sum(t.nbytes for t in load_file(path).values()) for path in sorted((tmp_path / "folder").glob("*.safetensors"))]
    assert len(sizes) > 1 and sum(sizes) == sum(t.numel() * (2 if t.is_floating_point() else 8) for t in exact.values())


def test_a_checkpoint_keeps_what_was_computed(tmp_path):
    compiled(tmp_path)
    exact, _ = saved(tmp_path)
    run = ("run", tmp_path / "net.plan", "--data", tmp_path / "data.npz")
    tool(*run, "--steps", 2, "--checkpoint", tmp_path / "run", "--save", tmp_path / "half.safetensors", "--save-dtype", "fp16")
    tool(*run, "--steps", 3, "--resume", tmp_path / "run", "--save", tmp_path / "resumed.safetensors")
    for key, tensor in load_file(tmp_path / "resumed.safetensors").items():
        assert torch.equal(tensor, exact[key]), key


def test_what_has_no_place_in_the_type_is_not_saved(tmp_path):
    compiled(tmp_path)
    weights, _ = saved(tmp_path)
    weights["last.weight"][2, 3] = 70000
    save_file(weights, tmp_path / "large.safetensors")
    out = tmp_path / "out.safetensors"
    run = ("run", tmp_path / "net.plan", "--data", tmp_path / "data.npz", "--steps", 1, "--lr", 1e-9, "--init",
           tmp_path / "large.safetensors", "--save", out)
    _, said = tool(*run, "--save-dtype", "fp16", code=6)
    assert "'last.weight' has a value beyond 65504, the largest of float16; save it as bf16 or fp32 (--save-dtype)" in said
    assert not out.exists()
    tool(*run, "--save-dtype", "bf16")
    assert load_file(out)["last.weight"][2, 3] == 70144


def test_an_option_that_changes_nothing_is_named(tmp_path):
    compiled(tmp_path)
    run = ("run", tmp_path / "net.plan", "--data", tmp_path / "data.npz", "--steps", 1)
    assert "--save-dtype changes nothing: no weights are saved" in tool(*run, "--save-dtype", "bf16")[1]
    _, said = tool(*run, "--save", tmp_path / "w.safetensors", "--save-dtype", "file")
    assert "--save-dtype changes nothing: the model's file stores all floats in float32" in said
    assert "fp64" in tool(*run, "--save-dtype", "fp64", code=1)[1]
