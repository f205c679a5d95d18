"""What TorchScript files say beside operators: modes, buffers, ties, gradients that stop; and what is refused."""

import zipfile
from typing import List

import numpy as np
import pytest
import torch
from torch import nn

import tools
import torchscript
from tools import tool

BATCH = 8
X = ("--input", f"x=float32[{BATCH},4]")
LOSS = ("--loss", "mse(output,target)", "--optimizer", "sgd(lr=0.5)")


def train(model, tmp_path, *options, saved=None, steps=3):
    """The weights of the file's model and of PyTorch's, after some steps of SGD. `saved` is in the file, if not `model`."""
    torch.manual_seed(4)
    data = {"x": torch.randn(steps * BATCH, 4), "target": torch.randn(steps * BATCH, 4)}
    torchscript.script(saved or model, tmp_path / "model.pt")
    tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *X, *LOSS, *options)
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    losses = []
    for step in range(steps):
        part = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data["x"][part]), data["target"][part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)
    return run, {name: tensor for name, tensor in model.state_dict().items()}


def compareStates(run, state):
    assert run.tensors.keys() == state.keys()
    for name, tensor in state.items():
        assert torch.allclose(run.tensors[name].to(tensor.dtype), tensor, atol=1e-6), name


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)


class Mean(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            self.seen += 1
        return self.first(x - self.mean)


@pytest.mark.parametrize("mode", ["saved", "--train", "--eval"])
def test_a_buffer_that_the_model_sets_has_its_new_value_in_the_next_step(mode, tmp_path):
    options = () if mode == "saved" else (mode,)
    run, state = train(Mean().train(mode != "--eval"), tmp_path, *options, saved=Mean().train(mode != "--train"))
    for name in ("mean", "seen", "first.weight", "first.bias"):
        assert torch.allclose(run.tensors[name].to(state[name].dtype), state[name], atol=1e-6), name


class NoGrad(Net):
    def forward(self, x: torch.Tensor):
        with torch.no_grad():
            y = torch.relu(self.first(x))
        return self.second(y) + self.first(x).detach()


def test_no_grad_and_detach_stop_gradients(tmp_path):
    run, state = train(NoGrad(), tmp_path)
    compareStates(run, state)


class Plain(Net):
    def forward(self, x: torch.Tensor):
        return self.second(torch.relu(self.first(x)))


def test_requires_grad_and_options_decide_what_trains(tmp_path):
    model = Plain()
    model.first.weight.requires_grad_(False)
    run, state = train(model, tmp_path)
    compareStates(run, state)
    model = Plain()
    model.second.requires_grad_(False)
    run, state = train(model, tmp_path, "--freeze", "second.*", saved=Plain())
    compareStates(run, state)


class Tied(Net):
    def __init__(self):
        super().__init__()
        self.second.weight = self.first.weight
        self.again = self.first

    def forward(self, x: torch.Tensor):
        return self.second(self.again(self.first(x)))


def test_names_of_one_tensor_are_one_parameter(tmp_path):
    run, state = train(Tied(), tmp_path)
    compareStates(run, state)
    described = tools.json.loads(tool("compile", tmp_path / "model.pt", "--describe", "--json", *X)[0])
    assert described["parameters"]["tensors"] == 3


class Listed(Net):
    """Its weight is an element of a list too, as those of nn.LSTM are."""

    def __init__(self):
        super().__init__()
        self.weights = [self.first.weight, torch.ones(4)]

    def forward(self, x: torch.Tensor):
        return self.first(x) @ self.weights[0] + self.weights[1]


def test_a_parameter_in_a_list_is_the_parameter(tmp_path):
    run, state = train(Listed(), tmp_path)
    compareStates(run, state)


class Part(Net):
    def __init__(self):
        super().__init__()
        self.row = self.first.weight.detach()[0]

    def forward(self, x: torch.Tensor):
        return self.first(x) + self.row


def test_a_part_of_a_parameter_that_is_no_parameter_is_refused(tmp_path):
    torchscript.script(Part(), tmp_path / "model.pt")
    _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *X, *LOSS, code=1)
    assert "the tensor `row` is a part of `first.weight`, which a step may change" in said


class Written(Net):
    def forward(self, x: torch.Tensor):
        y = self.first(x)
        view = y[:, 1:3]
        y[:, 0] = 0.5
        view += x[:, :2]
        view.mul_(2)
        rows = y.view(2, 4, 4)
        rows[1].relu_()
        parts: List[torch.Tensor] = []
        for i in range(y.size(1)):
            if i == 2:
                continue
            parts.append(y[:, i:i + 1] * float(i + 1))
        parts.insert(0, parts.pop())
        names = {"a": 0, "b": 1}
        if "b" in names and len(parts) == 3:
            parts.append(parts[names["b"]])
        return self.second(torch.cat(parts, 1))


def test_what_is_written_through_views_is_seen_by_all(tmp_path):
    compareStates(*train(Written(), tmp_path))


def test_a_trace_takes_other_sizes(tmp_path):
    model = Plain().eval()
    torchscript.trace(model, {"x": torch.randn(2, 4)}, tmp_path / "model.pt")
    for options, batch in [((), 2), (X, BATCH)]:
        tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", "--mode", "forward", *options)
        x = torch.randn(batch, 4)
        np.savez(tmp_path / "in.npz", x=x.numpy())
        tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        assert np.allclose(np.load(tmp_path / "out.npz")["output"], model(x).detach().numpy(), atol=1e-6)


class Branch(Net):
    def forward(self, x: torch.Tensor):
        y = self.first(x)
        if bool(y.sum() > 0):
            y = y * 2
        return y


class Loop(Net):
    def forward(self, x: torch.Tensor):
        for i in range(int(x.abs().max())):
            x = self.first(x)
        return x


class Raises(Net):
    def forward(self, x: torch.Tensor):
        assert x.size(1) == 5, f"wrong width {x.size(1)}"
        return self.first(x)


class Unsupported(Net):
    def forward(self, x: torch.Tensor):
        return self.first(x) + torch.linalg.eigvalsh(x[:4]) + torch.special.bessel_j0(x) + torch.linalg.eigvalsh(x[4:])


class Lists(Net):
    def forward(self, xs: List[torch.Tensor]):
        return self.first(xs[0])


def here(text):
    """The line of this file that holds it."""
    for number, line in enumerate(open(__file__), 1):
        if text in line:
            return f"{__file__}:{number}"


@pytest.mark.parametrize("build, message", [
    (Branch, lambda: here("if bool(y.sum() > 0)") + ": a branch depends on a tensor of bool[], which is computed from"),
    (Loop, lambda: "aten::Int: a number that depends on the values of inputs or parameters"),
    (Loop, lambda: here("for i in range(int(x.abs()")),
    (Raises, lambda: here("assert x.size(1) == 5") + ": the model raises an exception: AssertionError: wrong width 4"),
    (Unsupported, lambda: "aten::linalg_eigvalsh is not supported: 2 nodes"),
    (Unsupported, lambda: "aten::special_bessel_j0 is not supported"),
    (Lists, lambda: "input `xs` is List[Tensor] and has no default"),
], ids=["branch", "loop", "line", "raises", "all", "collected", "lists"])
def test_what_cannot_be_imported_is_said_with_its_line(build, message, tmp_path):
    torchscript.script(build(), tmp_path / "model.pt")
    _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *X, *LOSS, code=1)
    assert message() in said
    assert not (tmp_path / "plan").exists()


def test_sizes_that_a_script_has_not_are_asked_for(tmp_path):
    torchscript.script(Plain(), tmp_path / "model.pt")
    _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *LOSS, code=1)
    assert "input `x` has neither sizes nor an element type in the file" in said
    _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *X, "--input", "y=float32[2]", *LOSS, code=1)
    assert "the model has no input `y`" in said
    _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", "--input", "x=float7[2]", *LOSS, code=1)
    assert "`float7`" in said


def test_files_that_are_no_torchscript_are_said_to_be(exported, tmp_path):
    torch.save(Plain().state_dict(), tmp_path / "state.pt")
    torch.save(Plain(), tmp_path / "module.pt")
    torch.save({}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    np.savez(tmp_path / "arrays.npz", x=np.zeros(3))
    for file, message in [("state.pt", "is what torch.save writes"), ("module.pt", "is what torch.save writes"),
                          ("old.pt", "no TorchScript archive"), ("arrays.npz", "is a set of NumPy arrays")]:
        _, said = tool("compile", tmp_path / file, "-o", tmp_path / "plan", *LOSS, code=1)
        assert message in said, file
    (tmp_path / "model.bin").write_bytes(exported("mlp").read_bytes())
    _, said = tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--train", *LOSS, code=1)
    assert "--train: the layers of an ONNX file have no mode" in said


def test_options_for_what_the_model_has_not_are_refused(tmp_path):
    torchscript.script(Plain(), tmp_path / "model.pt")
    for option, message in [(("--batch-norm", "frozen"), "the model has no batch normalization"),
                            (("--dropout", "0.1"), "the model has no dropout"),
                            (("--no-tie",), "holds no copy of a tied matrix"),
                            (("--detach", "third"), "--detach 'third' matches no module that is called"),
                            (("--freeze", "third.*"), "matches no parameter")]:
        _, said = tool("compile", tmp_path / "model.pt", "-o", tmp_path / "plan", *X, *LOSS, *option, code=1)
        assert message in said, option


class Dropped(Net):
    def forward(self, x: torch.Tensor):
        return self.second(torch.dropout(self.first(x), 0.5, self.training))


@pytest.mark.parametrize("made", ["traced", "scripted"])
def test_the_mode_of_a_dropout_is_the_saved_one_or_as_asked(made, tmp_path):
    for saved, option, active in [(True, (), True), (False, (), False), (True, ("--eval",), False),
                                  (False, ("--train",), True)]:
        model, file = Dropped().train(saved), tmp_path / "model.pt"
        if made == "traced":
            torchscript.trace(model, {"x": torch.randn(BATCH, 4)}, file)
        else:
            torchscript.script(model, file)
        text, _ = tool("compile", file, "-o", tmp_path / "plan", *X, *LOSS, *option, "--stop-after", "import")
        assert ("graph.dropout" in text) == active, (saved, option)


def test_a_dict_that_is_in_two_places_is_read_once(tmp_path):
    """Each of 40 dicts holds the one before it twice: as copies they would be 2^40."""
    inner = b"}"
    for level in range(40):
        memo = bytes([level])
        inner = b"}(K\x01" + inner + b"q" + memo + b"K\x02h" + memo + b"u"
    path = tmp_path / "nested.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02c__torch__\nM\n)\x81}X\x01\x00\x00\x00w" + inner + b"sb.")
        archive.writestr("m/code/__torch__.py",
                         "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.relu(x)\n")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
        archive.writestr("m/version", "10")
    tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--input", "x=float32[4,8]")
