"""Parameters that are not trained: --freeze and --train-only, and what --describe suggests of files that cannot say so."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import tools
from tools import tool

EXPORTS = {
    "dynamo": dict(dynamo=True, optimize=False),
    "optimized": dict(dynamo=True, optimize=True),
    "torchscript": dict(dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False),
}


class Adapted(nn.Module):
    """A linear layer beside which a low-rank one is trained (LoRA)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.lora_A = nn.Linear(inputs, 2, bias=False)
        self.lora_B = nn.Linear(2, outputs, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))


class Model(nn.Module):
    """Tied embeddings, sinusoids as a parameter (Whisper's), an adapted layer."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(12, 8, padding_idx=0)
        angles = torch.arange(6.0)[:, None] * 100 ** (-torch.arange(4) / 3)
        self.positions = nn.Embedding(6, 8)
        self.positions.weight = nn.Parameter(torch.cat([angles.sin(), angles.cos()], 1), requires_grad=False)
        self.q_proj = Adapted(8, 8)
        self.register_buffer("pe", torch.rand(6, 8))
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.positions(torch.arange(6)) + self.pe
        return self.head(self.q_proj(x).tanh())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("freeze"), {}
    tools.saveData(folder / "data.npz", {"ids": torch.randint(12, (8, 6)), "labels": torch.randint(12, (8, 6))})

    def get(how):
        if how not in made:
            torch.manual_seed(1)
            made[how] = Model(), folder / f"{how}.onnx"
            torch.onnx.export(made[how][0], (torch.zeros(4, 6, dtype=torch.int64),), made[how][1], input_names=["ids"],
                              output_names=["logits"], verbose=False, **EXPORTS[how])
        return *made[how], folder

    return get


def train(exported, how, *options):
    """The stored state, that after two steps, and the plan's parameters."""
    model, path, folder = exported(how)
    tool("compile", path, "-o", folder / "plan", "--loss", "cross_entropy(logits,labels)", "--optimizer", "adamw(lr=1e-2)",
         *options)
    run = tools.train(folder / "plan", folder / "data.npz", 2, folder / "run")
    return model.state_dict(), run.tensors, tools.inspect(folder / "plan")


def changed(before, after):
    return {name for name in after if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("how", ["dynamo", "torchscript"])
@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
def test_what_is_frozen_is_saved_as_stored(exported, how, mesh):
    before, after, plan = train(exported, how, "--mesh", mesh, "--zero-threshold", "1",
                                "--freeze", "positions.weight", "--freeze", "*.base.*", "--freeze", "wte.weight",
                                *(["--freeze", "pe"] if how == "torchscript" else []))
    assert changed(before, after) == {"q_proj.lora_A.weight", "q_proj.lora_B.weight"}
    assert set(after) | {"head.weight"} == set(before)  # a name that TorchScript's export does not show
    # No state either: two matrices of 2 x 8, twice.
    states = [kind["bytes"] for kind in plan["memory_per_rank"]["by_kind"] if kind["kind"] == "optimizer state"]
    assert sum(states) <= 2 * 2 * 16 * 4 + 64


@pytest.mark.parametrize("how", ["dynamo", "optimized"])
def test_only_what_is_named_is_trained(exported, how):
    before, after, _ = train(exported, how, "--train-only", "*.lora_*")
    assert changed(before, after) == {"q_proj.lora_A.weight", "q_proj.lora_B.weight"}


def test_a_tied_parameter_is_frozen_by_any_of_its_names(exported):
    before, after, _ = train(exported, "dynamo", "--freeze", "head.weight")
    assert not {"wte.weight", "head.weight"} & changed(before, after)
    assert "q_proj.base.weight" in changed(before, after)


@pytest.mark.parametrize("options, reason", [
    (("--freeze", "wto.weight"), "--freeze 'wto.weight' matches no parameter; nearest: 'wte.weight'"),
    (("--train-only", "lora"), "--train-only 'lora' matches no parameter"),
    (("--freeze", "pe"), "--freeze 'pe' matches only buffers, such as 'pe', which are not trained"),
    (("--freeze", "*base*", "--train-only", "*.weight"),
     "--freeze '*base*' and --train-only '*.weight' both name 'q_proj.base.weight'"),
    (("--freeze", "*"), "leave no parameter to train"),
    (("--freeze", "wte[", ), "--freeze 'wte[' is no pattern"),
])
def test_patterns_that_cannot_be_meant_are_errors(exported, options, reason):
    _, path, folder = exported("dynamo")
    _, said = tool("compile", path, "-o", folder / "none", "--loss", "cross_entropy(logits,labels)", *options, code=1)
    assert reason in said


def test_a_forward_plan_has_nothing_to_freeze(exported):
    _, path, folder = exported("dynamo")
    _, said = tool("compile", path, "-o", folder / "none", "--mode", "forward", "--freeze", "wte.weight", code=1)
    assert "a forward plan has no gradients" in said


def describe(path, *options):
    return json.loads(tool("compile", path, "--describe", "--json", *options)[0])


def test_candidates_are_suggested(exported):
    notes = "\n".join(describe(exported("dynamo")[1])["notes"])
    assert "positions.weight is a table of sinusoids" in notes and "--freeze 'positions.weight'" in notes
    assert "--train-only '*lora_*'" in notes
    assert "buffer" not in notes and "padding" not in notes  # the file says so


def test_an_export_that_does_not_tell_buffers_from_parameters_has_them_named(exported):
    notes = "\n".join(describe(exported("torchscript")[1])["notes"])
    assert "pe has the name of a buffer" in notes and "--freeze 'pe'" in notes
    assert "row 0 of `wte.weight` is zero" in notes


def test_what_is_frozen_is_not_suggested_and_is_part_of_the_command(exported):
    said = describe(exported("dynamo")[1], "--train-only", "*lora_*")
    assert not [note for note in said["notes"] if "--freeze" in note or "--train-only" in note]
    assert said["command"][said["command"].index("--train-only") + 1] == "*lora_*"
