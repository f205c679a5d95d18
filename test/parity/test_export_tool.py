"""tools/export.py exports a module in one call, and what it writes can be compiled."""

from pathlib import Path

import pytest

import tools

EXPORT = Path(__file__).parents[2] / "tools/export.py"
MODEL = """
import torch

def tiny():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)).train(), (torch.zeros(2, 4),)

class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)
        self.scale = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, ids, weights):
        return {"rows": self.table(ids) * self.scale * weights[:, None]}

def named():
    return Named(), {"ids": torch.zeros(2, dtype=torch.int64), "weights": torch.ones(2)}

def unequal():
    return Named(), {"ids": torch.zeros(2, dtype=torch.int64), "weights": torch.ones(1)}

def nothing():
    return None

class Rotated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.rot90(self.inner(x), 2)

def rotated():
    return Rotated(), (torch.ones(2, 4),)

class Loop(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def loop():
    return Loop(), (torch.ones(3),)
"""


def export(folder, *args, code=0, fresh=False):
    (folder / "model.py").write_text(MODEL)
    ended, output, errors = tools.script(EXPORT, *args, cwd=folder, fresh=fresh)
    assert ended == code, output + errors
    return output if code == 0 else errors


@pytest.mark.parametrize("factory", ["tiny", "named"])
@pytest.mark.parametrize("format, ending", [("onnx", "onnx"), ("pt2", "pt2"), ("torchscript", "pt")])
def test_export_tool_writes_what_compiles(tmp_path, factory, format, ending):
    said = export(tmp_path, f"model.py:{factory}", "--format", format, fresh=factory == "tiny")
    path = tmp_path / f"{factory}.{ending}"
    assert f"{factory}.{ending}: " in said and f"polyrank-compile {factory}.{ending} --describe" in said
    described, _ = tools.tool("compile", path, "--describe")
    name = "0.weight" if factory == "tiny" else "table.weight"
    assert name in described


def test_export_tool_says_the_mode_and_what_is_frozen(tmp_path):
    assert "Sequential in training mode, 67 elements of parameters to train" in export(
        tmp_path, "model.py:tiny", "--format", "pt2", "--batch", "fixed", "-o", "a.pt2"
    )
    assert (tmp_path / "a.pt2").exists()


def test_export_tool_decomposes_what_the_compiler_names(tmp_path):
    export(tmp_path, "model.py:rotated", "--format", "pt2", "--batch", "fixed")
    compile = ("compile", tmp_path / "rotated.pt2", "-o", tmp_path / "plan", "--mode", "forward")
    assert "tools/export.py --decompose" in " ".join(tools.tool(*compile, code=1)[1].split())
    export(tmp_path, "model.py:rotated", "--format", "pt2", "--batch", "fixed", "--decompose")
    tools.tool(*compile)


@pytest.mark.parametrize(
    "args, message",
    [
        (("model.py", "--format", "pt2"), "'model.py' is not MODULE:FACTORY"),
        (("other.py:f", "--format", "pt2"), "there is no file 'other.py'"),
        (("nowhere:f", "--format", "pt2"), "there is neither a file nor a module 'nowhere'"),
        (("model.py:big", "--format", "pt2"), "'model.py' has no function 'big'; it has tiny"),
        (("model.py:nothing", "--format", "pt2"), "'nothing' must return a torch.nn.Module and its example inputs"),
        (("model.py:unequal", "--format", "pt2"), "the inputs differ in their first dim"),
        (("model.py:tiny", "--format", "onnx", "--decompose"), "--decompose is of --format pt2; onnx files"),
        (("model.py:loop", "--format", "pt2"), "PyTorch cannot export the model as pt2"),
    ],
)
def test_export_tool_refuses(tmp_path, args, message):
    assert message in export(tmp_path, *args, code=1)
