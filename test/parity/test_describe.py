"""Every command that --describe prints compiles, and what does not fit is said before."""

import json
import shlex
from pathlib import Path

import pytest
import torch

import tools
from models import MODELS

SHIPPED = sorted((Path(__file__).parents[1] / "models").glob("*.onnx"))
# None of them is one that every model takes.
MESHES = ("data=3", "data=2,tensor=2", "tensor=2", "data=5,tensor=3")


def commandOf(model, *options):
    """What --describe finds out, and the arguments of its command."""
    report = json.loads(tools.tool("compile", model, "--describe", *options, "--json")[0])
    return report, report["command"][1:]


def check(model, tmp_path, *options):
    report, command = commandOf(model, *options)
    assert command, report["problem"]
    command[command.index("-o") + 1] = tmp_path / "a.plan"
    tools.tool("compile", *command)
    assert (tmp_path / "a.plan").exists()
    return report, command


class Small(torch.nn.Module):
    """Outputs of all kinds, as `kind` says."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.a, self.table = torch.nn.Linear(6, 4), torch.nn.Embedding(9, 6)

    def forward(self, x, ids):
        y = self.a(x + self.table(ids))
        return {"integers": y.argmax(-1), "loss": (y * y).mean(), "several": (y, y.argmax(-1), y.mean()),
                "signal": y.transpose(0, 1)[None].expand(x.shape[0], 4, x.shape[0]), "turned": y.transpose(0, 1),
                "column": y[:, :1]}[self.kind]


# Which of several is meant the file does not say: all are listed, and a number beside other outputs comes last.
LOSSES = {"integers": [], "loss": ["output(y)"], "column": ["mse(y,target)"],
          "several": ["cross_entropy(y,labels)", "mse(y,target)", "output(mean)"]}


def export(path, kind, batch=6, isOpen=False):
    shapes = {"x": {0: torch.export.Dim("batch")}, "ids": {0: torch.export.Dim("batch")}} if isOpen else None
    torch.onnx.export(Small(kind), (torch.zeros(batch, 6), torch.zeros(batch, dtype=torch.int64)), str(path),
                      input_names=["x", "ids"], output_names=["y", "classes", "mean"][:3 if kind == "several" else 1],
                      dynamic_shapes=shapes, dynamo=True, optimize=False, verbose=False)
    return path


@pytest.mark.parametrize("model", [path for path in SHIPPED if path.stem != "unsupported"], ids=lambda path: path.stem)
@pytest.mark.parametrize("mesh", [None, *MESHES])
def test_commands_for_the_models_that_ship(model, mesh, tmp_path):
    if model.stem == "gpt2-bytes" and mesh not in (None, "data=3"):
        return  # gpt2-tiny's, larger
    given = ("--mesh", mesh) if mesh else ()
    report, _ = check(model, tmp_path, *given)
    text, _ = tools.tool("compile", model, "--describe", *given)
    printed = text[text.index("\n  polyrank-compile"):].replace("\\\n", " ")
    assert shlex.split(printed) == report["command"]  # as a shell takes it


@pytest.mark.parametrize("name, mesh", [(name, mesh) for i, name in enumerate(sorted(MODELS))
                                        for mesh in (None, MESHES[i % len(MESHES)])
                                        if name not in ("gpt2-wide", "resnet50")])
def test_commands_for_the_models_of_the_table(name, mesh, exported, tmp_path):
    spec = MODELS[name]
    check(exported(name), tmp_path, *(("--mesh", mesh) if mesh else ()), *spec.options)


@pytest.mark.parametrize("mode", ["train", "forward"])
def test_a_forward_plans_command_keeps_the_mode(mode, exported, tmp_path):
    _, command = check(exported("mlp"), tmp_path, "--mode", mode, "--mesh", "data=3")
    assert ("--mode" in command) == (mode == "forward") and "data=2" in command


@pytest.mark.filterwarnings("ignore")
def test_several_losses_that_fit_are_a_choice(tmp_path):
    said, _ = tools.tool("compile", export(tmp_path / "small.onnx", "several"), "--describe")
    losses = "\n".join(f"  {loss}" for loss in LOSSES["several"])
    assert f"losses that fit: choose one, or a sum of several with weights\n{losses}\n\ncompile it with (choose your own loss)\n" in said
    said, _ = tools.tool("compile", export(tmp_path / "one.onnx", "loss"), "--describe")
    assert "losses that fit" not in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["integers", "loss", "several", "column"])
@pytest.mark.parametrize("isOpen", [False, True], ids=["fixed", "open"])
def test_commands_for_outputs_of_all_kinds(kind, isOpen, tmp_path):
    path = export(tmp_path / "small.onnx", kind, isOpen=isOpen)
    for mesh in (None, "data=4", "data=2,tensor=2"):
        report, command = check(path, tmp_path, *(("--mesh", mesh) if mesh else ()))
        assert report["losses"] == LOSSES[kind]
        if kind == "integers":
            assert "--mode" in command and "there is no loss to train it with" in " ".join(report["notes"])
        if mesh == "data=4" and not isOpen:
            assert "data=3" in command
            assert any("has a batch of 6, which the mesh axis data=4 does not divide" in note
                       and 'dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "ids": {0: ' in note
                       for note in report["notes"])
        if mesh == "data=4" and isOpen:
            assert "x=float32[8,6]" in command and mesh in command


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch, data, other", [(1, 2, None), (7, 3, 7), (12, 7, 6), (12, 24, 12)])
def test_the_error_about_a_batch_names_an_axis_that_divides_it(batch, data, other, tmp_path):
    path = export(tmp_path / "small.onnx", "column", batch)
    loss = ("--loss", "mse(y,target)")
    _, error = tools.tool("compile", path, "-o", tmp_path / "plan", "--mesh", f"data={data}", *loss, "--cpu",
                          "x86-64-v3", code=1)
    assert f"has a batch of {batch}, which the mesh axis data={data} " in error
    assert (f"such as data={other}, or leave the batch open" in error) == bool(other)
    if other:
        tools.tool("compile", path, "-o", tmp_path / "plan", "--mesh", f"data={other}", *loss, "--cpu", "x86-64-v3")


def test_a_batch_of_groups_is_whole_groups_on_each_rank(exported, tmp_path):
    _, command = check(exported("resnet"), tmp_path, "--batch-norm", "local=4")
    assert "local=4" in command


@pytest.mark.filterwarnings("ignore")
def test_an_output_without_the_batch_in_front_has_a_forward_plan(tmp_path):
    path = export(tmp_path / "small.onnx", "turned")
    _, command = commandOf(path, "--mode", "forward")
    assert command
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    assert "output 'y' of [4,6] has the batch in dim 1: it is written as [4,SAMPLES]" in said


def test_constraints_go_with_their_axis(exported, tmp_path):
    """Four heads are no eight blocks."""
    report, command = check(exported("gpt2"), tmp_path, "--mesh", "data=2,tensor=8", "--shard", "*.c_attn.weight=[-,tensor]",
                            "--shard", "*wte.weight=[data,-]")
    assert "data=2" in command and command.count("--shard") == 1
    assert any("has 4 heads, fewer than the 8 blocks of tensor" in note for note in report["notes"])


def test_a_mesh_for_another_machine_says_so(exported, tmp_path):
    report, command = check(exported("mlp-mse"), tmp_path, "--mesh", "data=1024")
    assert command[command.index("--cpu") + 1] == "x86-64-v3"
    assert any("cannot be meant for the" in note for note in report["notes"])


@pytest.mark.parametrize("options, says", [
    (("--link", "data=x"), "--link"), (("--cpu", "abacus"), "--cpu"), (("--mesh", "data"), "--mesh")])
def test_options_that_nothing_could_compile_with_are_errors(options, says, tmp_path):
    _, error = tools.tool("compile", SHIPPED[-2], "--describe", *options, code=1)
    assert says in error
