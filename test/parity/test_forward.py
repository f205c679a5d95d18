"""A forward plan computes PyTorch's outputs, assembled from the ranks."""

import numpy as np
import pytest
import torch

import tools
from cases import CASES, GPT2_TENSOR
from models import BATCH
from safetensors.torch import save_file
from tools import Case

ONCE = [case for case in CASES if case.microbatches == 1]


def compileForward(case, onnx, plan, *more):
    shard = [arg for s in case.shard for arg in ("--shard", s)]
    tools.tool("compile", onnx, "-o", plan, "--mesh", case.mesh, "--mode", "forward",
               *case.spec.inputOptions, *shard, *more)
    return plan


@pytest.mark.parametrize("case", ONCE, ids=str)
def test_forward_outputs_are_pytorchs(case, exported, tmp_path):
    plan = compileForward(case, exported(case.model), tmp_path / "plan", "--threads", 1)
    data = {name: t[:BATCH] for name, t in case.spec.data(1).items()}
    inputs = {name: t for name, t in data.items() if name not in ("labels", "target")}
    tools.saveData(tmp_path / "in.npz", inputs)
    tools.tool("run", plan, "--inputs", tmp_path / "in.npz",
               "--outputs", tmp_path / "out.npz")
    with torch.no_grad():
        theirs = case.spec.family.call(case.spec.fresh().eval(), data).numpy()
    ours = np.load(tmp_path / "out.npz")["logits"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("case", [Case("gpt2", "data=2,tensor=2", GPT2_TENSOR), Case("mlp", "data=2")],
                         ids=str)
def test_forward_loss_is_the_mean_over_all_targets_of_the_file(case, exported, tmp_path):
    plan = compileForward(case, exported(case.model), tmp_path / "plan", "--loss", case.spec.lossOption)
    # Weights that PyTorch saved, and batches that ignore different numbers of targets.
    model = case.spec.fresh()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(0.9)
    save_file({name: t.clone() for name, t in model.state_dict().items()}, tmp_path / "w.safetensors")
    data = case.spec.data(1)
    data["labels"][1:2 * BATCH:2] = -100
    tools.saveData(tmp_path / "data.npz", data)
    output, _ = tools.tool("run", plan, "--data", tmp_path / "data.npz",
                           "--init", tmp_path / "w.safetensors")
    printed = dict(line.split()[:2] for line in output.splitlines())
    with torch.no_grad():
        assert float(printed["loss"]) == pytest.approx(case.spec.lossOf(model, data).item(), rel=1e-5)


def test_forward_weights_of_another_model_are_refused_by_name(exported, tmp_path):
    case = Case("mlp", "data=2")
    plan = compileForward(case, exported("mlp"), tmp_path / "plan")
    tools.saveData(tmp_path / "in.npz", {"x": case.spec.data(1)["x"]})
    state = {name: t.clone() for name, t in case.spec.fresh().state_dict().items()}
    for change, message in [({"fc2.bias": None}, "fc2.bias"),
                            ({"fc2.bias": torch.zeros(31)}, "'fc2.bias' has shape [31], the plan has [32]")]:
        changed = {name: t for name, t in {**state, **change}.items() if t is not None}
        save_file(changed, tmp_path / "w.safetensors")
        _, error = tools.tool("run", plan, "--inputs", tmp_path / "in.npz",
                              "--outputs", tmp_path / "out.npz",
                              "--init", tmp_path / "w.safetensors", code=1)
        assert message in error
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("both", [False, True], ids=["alone", "beside a tensor"])
def test_an_output_that_is_one_number_is_written(both, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(3, 5)

        def forward(self, x):
            y = self.head(x)
            return (y.square().mean(), y) if both else y.square().mean()

    model, x = Model(), torch.randn(4, 3)
    torch.export.save(torch.export.export(model, (x,)), str(tmp_path / "model.pt2"))
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2")
    np.savez(tmp_path / "in.npz", x=x.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    theirs = model(x) if both else (model(x),)
    ours = np.load(tmp_path / "out.npz")
    assert len(ours.files) == len(theirs)
    for name, their in zip(sorted(ours.files, key=lambda name: ours[name].ndim), theirs):
        assert ours[name].shape == their.shape
        assert ours[name] == pytest.approx(their.detach().numpy(), rel=1e-5)
