"""Dropout of models that were exported in training mode: the same on every mesh, and as often as
PyTorch's."""

import numpy as np
import pytest
import torch
from torch import nn

from families import export_gpt2
from tools import saveData, tool, train


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016) as vision models write it, here of every element."""

    def forward(self, x):
        return x.div(0.7) * (torch.rand(x.shape) + 0.7).floor()


class GaussianDropout(nn.Module):
    """Srivastava et al. 2014, section 10: with the variance that dropout of 0.3 has."""

    def forward(self, x):
        return x * (1 + (0.3 / 0.7) ** 0.5 * torch.randn_like(x))


class FourthMoment(nn.Module):
    """A third of the fourth power of normal numbers, which is 1 on average and of no other usual distribution."""

    def forward(self, x):
        return x * torch.randn_like(x) ** 4 / 3


# PyTorch's exporter has a node for the first; the others draw numbers and compare or scale them.
FORMS = {"dropout": lambda: nn.Dropout(0.3), "in-place": lambda: nn.Dropout(0.3, inplace=True), "drop-path": DropPath,
         "gaussian": GaussianDropout}


@pytest.fixture(scope="module")
def exportWide(tmp_path_factory):
    """A layer that passes ones on, a dropout, and a mean: the loss says how much is kept."""
    folders = {}

    def export(form):
        if form in folders:
            return folders[form]
        folder = folders[form] = tmp_path_factory.mktemp(form)
        model = nn.Sequential(nn.Linear(8, 512), (FORMS | {"moment": FourthMoment})[form](), nn.Linear(512, 1, bias=False)).train()
        with torch.no_grad():
            model[0].weight.zero_()
            model[0].bias.fill_(1)
            model[2].weight.fill_(1 / 512)
        torch.onnx.export(model, (torch.zeros(16, 8),), folder / "model.onnx", input_names=["x"], output_names=["y"],
                          dynamo=True, optimize=False, verbose=False)
        saveData(folder / "data.npz", {"x": torch.zeros(64, 8), "target": torch.zeros(64, 1)})
        return folder

    return export


@pytest.fixture(params=FORMS)
def anyForm(request, exportWide):
    return exportWide(request.param)


@pytest.fixture
def wide(exportWide):
    return exportWide("dropout")


def losses(folder, out, mesh, *more, seed=0, loss="mse(y,target)", shard=()):
    plan = folder / f"{out}.plan"
    tool("compile", folder / "model.onnx", "-o", plan, "--mesh", mesh, "--loss", loss, "--optimizer", "sgd(lr=0)",
         *[arg for s in shard for arg in ("--shard", s)], *more)
    return train(plan, folder / "data.npz", 4, folder / out, "--seed", seed).losses


def test_kept_elements_are_scaled_so_that_the_mean_stays(anyForm):
    # The square of a mean of 512 draws, 16 rows a step, 4 steps: 1 + 0.43 / 512, and noise of 0.007.
    assert np.mean(losses(anyForm, "one", "data=1")) == pytest.approx(1, abs=0.03)


def test_normal_numbers_are_normal(exportWide):
    # The square of a mean of 512 of variance 96 / 9, over 64 rows: 1.02, and noise of 0.04.
    assert np.mean(losses(exportWide("moment"), "one", "data=1")) == pytest.approx(1.02, abs=0.12)


def test_what_is_dropped_changes_with_step_and_seed(anyForm):
    first, other = losses(anyForm, "a", "data=1"), losses(anyForm, "b", "data=1", seed=1)
    assert len(set(first)) == 4
    assert not set(first) & set(other)
    assert first == losses(anyForm, "c", "data=1")


@pytest.mark.parametrize("mesh, shard", [("data=2", ()), ("data=2,tensor=2", ("0.weight=[tensor,-]",)),
                                         ("tensor=4", ("0.weight=[tensor,-]",))])
@pytest.mark.parametrize("microbatches", [1, 2])
def test_what_is_dropped_does_not_depend_on_the_mesh(anyForm, mesh, shard, microbatches):
    one = losses(anyForm, f"one{microbatches}", "data=1", "--microbatches", microbatches)
    many = losses(anyForm, f"many{mesh}{microbatches}", mesh, "--microbatches", microbatches, shard=shard)
    assert many == pytest.approx(one, rel=1e-5)  # sums of 512 terms in another order


def test_gpt2_with_dropout_is_the_same_on_every_mesh(tmp_path):
    torch.manual_seed(0)
    model = export_gpt2.build(2, 4, 32, 64, 16)
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.1
        if hasattr(each, "attn_dropout"):
            each.attn_dropout.p = 0.1
    torch.onnx.export(model.train(), (), tmp_path / "model.onnx", kwargs={"input_ids": torch.zeros(4, 16, dtype=torch.int64)},
                      input_names=["input_ids"], output_names=["logits"], dynamo=True, optimize=False, verbose=False)
    tokens = torch.randint(64, (16, 17), generator=torch.Generator().manual_seed(1))
    saveData(tmp_path / "data.npz", {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()})
    loss = "cross_entropy(logits,labels)"
    one = losses(tmp_path, "one", "data=1", loss=loss)
    many = losses(tmp_path, "many", "data=2,tensor=2", loss=loss,
                  shard=("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", "*wte.weight=[tensor,-]"))
    assert many == pytest.approx(one, rel=1e-5)
    # Another seed drops other elements.
    assert one != pytest.approx(losses(tmp_path, "other", "data=1", loss=loss, seed=1), rel=1e-5)


def test_inference_drops_nothing(wide):
    plan = wide / "forward.plan"
    tool("compile", wide / "model.onnx", "-o", plan, "--mode", "forward")
    np.savez(wide / "in.npz", x=np.zeros((16, 8), np.float32))
    tool("run", plan, "--inputs", wide / "in.npz", "--outputs", wide / "out.npz")
    np.testing.assert_allclose(np.load(wide / "out.npz")["y"], 1, rtol=1e-6)


def test_the_user_has_the_last_word_on_rates(wide):
    off = losses(wide, "off", "data=1", "--dropout", "off")
    assert off == pytest.approx([1] * 4, rel=1e-6)
    # The variance of a mean of 512 draws is rate / (1 - rate) / 512.
    much = losses(wide, "much", "data=1", "--dropout", "0.9")
    assert np.mean(much) == pytest.approx(1 + 9 / 512, abs=0.15)
    assert np.std(much) > 3 * np.std(losses(wide, "file", "data=1"))
    _, message = tool("compile", wide / "model.onnx", "-o", wide / "no.plan", "--loss", "mse(y,target)", "--dropout", "1.5", code=1)
    assert "neither 'off' nor a rate in [0, 1)" in message


def test_numbers_that_a_model_draws_itself_are_not_dropout(exportWide):
    model = exportWide("in-place") / "model.onnx"
    _, message = tool("compile", model, "-o", model.parent / "no.plan", "--loss", "mse(y,target)", "--dropout", "off", code=1)
    assert "--dropout does not reach random numbers that the model draws itself" in message
    _, message = tool("compile", model, "-o", model.parent / "no.plan", "--mode", "forward", code=1)
    assert "random numbers in mode=forward; export the model after model.eval()" in message
