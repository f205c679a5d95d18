"""Exports with optimize=True store what they compute from parameters as constants: the gradient flows into the parameters again."""

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tools
from tools import tool

FOLDED = "are computed from them again"
LOST = "stay constants"


class Model(nn.Module):
    """The mean square of `function` of the parameters and x."""

    def __init__(self, function, **parameters):
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            setattr(self, name, value if isinstance(value, nn.Module) else nn.Parameter(value))

    def forward(self, x):
        return self.function(self, x).square().mean()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def cell(kind):
    def unrolled(m, x):
        state = m.cell(x)
        state = m.cell(x, state)
        return state[0] if isinstance(state, tuple) else state

    torch.manual_seed(0)
    return Model(unrolled, cell=kind(4, 5)), (3, 4)


def vectors(function, **more):
    """Of parameters a, b and w of four elements, each of which has another use."""
    return Model(lambda m, x: function(m, x) + m.a * x + m.b * x * x + m.w, a=drawn(4), b=drawn(4, seed=1),
                 w=drawn(4, seed=2).sigmoid(), **more), (3, 4)


def matrix(function):
    return Model(lambda m, x: function(m, x) + (m.w * x.sum()).mean(), w=drawn(6, 4)), (3, 4)


def layers():
    torch.manual_seed(0)
    return Model(lambda m, x: m.rnn(x)[0], rnn=nn.RNN(4, 5, num_layers=2, batch_first=True)), (3, 2, 4)


# What the file holds -> what is said of it.
MODELS = {
    "transpose": (lambda: matrix(lambda m, x: torch.tanh(x @ m.w.t()) @ m.w), "`t` = `w`.t()"),
    "slice of a transpose": (lambda: matrix(lambda m, x: torch.tanh(x @ m.w.t()[:, 1:3])), "= `w`[1:3].t()"),
    "row": (lambda: matrix(lambda m, x: x * m.w[2]), "= `w`[2:3].reshape(4)"),
    "block": (lambda: matrix(lambda m, x: x[:, :2] @ m.w[1:3, 1:4]), "= `w`[1:3, 1:4]"),
    "multiple of a row": (lambda: matrix(lambda m, x: x * (m.w[2] * 0.3)), "0.3 * `w`[2:3].reshape(4)"),
    "flattened": (lambda: matrix(lambda m, x: x.sum() * m.w.flatten()), "= `w`.reshape(24)"),
    "permuted": (lambda: (Model(lambda m, x: x @ m.w.permute(2, 1, 0)[0] + (m.w * x.sum()).mean(), w=drawn(3, 4, 2)), (2, 4)),
                 "`w`[:, :, 0:1].permute("),
    "LSTM cell": (lambda: cell(nn.LSTMCell), "`cell.bias_hh`.reshape(1, 20).expand(3, 20)"),
    "GRU cell": (lambda: cell(nn.GRUCell), "`cell.bias_hh`.reshape(1, 15).expand(3, 15)"),
    "RNN cell": (lambda: cell(nn.RNNCell), "`cell.bias_hh`.reshape(1, 5).expand(3, 5)"),
    "RNN of two layers": (layers, "`rnn.bias_hh_l0`.reshape(1, 1, 5).expand(1, 3, 5)"),
    "sum": (lambda: vectors(lambda m, x: x * (m.a + m.b)), "= `a` + `b`"),
    "sum with a multiple": (lambda: vectors(lambda m, x: x * torch.add(m.a, m.b, alpha=3)), "= `a` + 3 * `b`"),
    "difference": (lambda: vectors(lambda m, x: x * (m.b - m.a)), "= `b` - `a`"),
    "product": (lambda: vectors(lambda m, x: x * (m.a * m.b)), "= `a` * `b`"),
    "quotient": (lambda: vectors(lambda m, x: x * (m.a / m.w)), "= `a` / `w`"),
    "negated": (lambda: vectors(lambda m, x: x * -m.a), "= -`a`"),
    "shifted": (lambda: vectors(lambda m, x: x * (1 + m.a)), "= `a` + 1"),
    "minus exp": (lambda: vectors(lambda m, x: x * -m.a.exp()), "= -exp(`a`)"),
    "sigmoid": (lambda: vectors(lambda m, x: x * m.a.sigmoid()), "= sigmoid(`a`)"),
    "lerp": (lambda: vectors(lambda m, x: x * torch.lerp(m.a, m.b, m.w)), "`lerp` = `a` + `w` * (`b` - `a`)"),
    "lerp by a number": (lambda: vectors(lambda m, x: x * torch.lerp(m.a, m.b, 0.3)), "`lerp` = `a` + 0.3 * (`b` - `a`)"),
    "addcmul": (lambda: vectors(lambda m, x: x * torch.addcmul(m.a, m.b, m.w, value=0.5)),
                "`addcmul` = `a` + 0.5 * `b` * `w`"),
    "addcmul to the input": (lambda: vectors(lambda m, x: torch.addcmul(x, m.a, m.b)), "= `a` * `b`"),
    "slope of one": (lambda: (Model(lambda m, x: F.prelu(x, m.b[:1]) * m.b, b=drawn(4).abs()), (3, 4)),
                     "= `b`[0:1].reshape(1, 1)"),
    # Elements that are all equal tell nothing by themselves: the operators' names do.
    "ones in another shape": (lambda: (Model(lambda m, x: x * m.b[:, None] + (m.b * x.sum()).mean(), b=torch.ones(4)), (2, 4, 3)),
                              "= `b`.reshape(4, 1)"),
    # The rows of Mamba's rates are equal as it is initialised: more views than are tried have their values.
    "many ones in another shape": (lambda: (Model(lambda m, x: x * m.b[:, None, None] + (m.b * x.sum()).mean(), b=torch.ones(20)),
                                            (2, 20, 3, 2)), "= `b`.reshape(20, 1, 1)"),
    "exp of equal rows": (lambda: (Model(lambda m, x: (x[:, :, None] * -m.a.exp()).sum(-1) + (m.a * x.sum()).mean(),
                                         a=torch.arange(1.0, 4).log().repeat(20, 1)), (2, 20)), "= -exp(`a`)"),
    "sum with equal elements": (lambda: vectors(lambda m, x: x * (m.a + m.z) + m.z, z=torch.full((4,), 0.5)), "= `a` + `z`"),
    "cell with a bias of equal elements": (lambda: flat(), "`cell.bias_hh`.reshape(1, 5).expand(3, 5)"),
}


def flat():
    model, shape = cell(nn.RNNCell)
    nn.init.constant_(model.cell.bias_hh, 0.5)
    return model, shape


def into_branch(path):
    """Puts all nodes of a model into the branch of an If that is taken."""
    model, helper = onnx.load(path), onnx.helper
    inner = helper.make_graph(
        [*model.graph.node, helper.make_node("Identity", ["loss"], ["inner"])], "taken", [],
        [helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, None)])
    for node in inner.node:
        for names in (node.input, node.output):
            names[:] = ["branch_loss" if name == "loss" else name for name in names]
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("If", ["always"], ["loss"], name="choose", then_branch=inner, else_branch=inner))
    model.graph.initializer.append(helper.make_tensor("always", onnx.TensorProto.BOOL, [], [True]))
    onnx.save(model, path)


def compiled(folder, model, shape, change=lambda path: None):
    torch.manual_seed(1)
    x = torch.randn(shape)
    torch.onnx.export(model, (x,), folder / "model.onnx", input_names=["x"], output_names=["loss"], dynamo=True,
                      verbose=False)
    change(folder / "model.onnx")
    _, said = tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "output(loss)", "--optimizer", "sgd(lr=1)")
    return x, said


def compare(folder, model, x):
    tools.saveData(folder / "data.npz", {"x": x})
    run = tools.train(folder / "plan", folder / "data.npz", 1, folder / "run")
    loss = model(x)
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    assert set(run.tensors) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter - run.tensors[name], parameter.grad, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("name", MODELS)
def test_what_was_computed_from_parameters_trains_them(tmp_path, name):
    make, says = MODELS[name]
    model, shape = make()
    x, said = compiled(tmp_path, model, shape)
    assert FOLDED in said and says in said and LOST not in said
    compare(tmp_path, model, x)


@pytest.mark.parametrize("name", ["transpose", "LSTM cell", "lerp", "ones in another shape"])
def test_what_was_computed_from_parameters_for_a_branch_trains_them(tmp_path, name):
    make, says = MODELS[name]
    model, shape = make()
    x, said = compiled(tmp_path, model, shape, into_branch)
    assert FOLDED in said and says in said and LOST not in said
    compare(tmp_path, model, x)


def norm(m, x):
    """A function that is none of those which are looked for."""
    return x * (m.a / m.a.norm()) + m.a * x * x


AMBIGUOUS = {
    "other function": (lambda: (Model(norm, a=drawn(4)), (3, 4)), "(4 elements, used by `node_mul`), computed from `a`"),
    "part of equal elements": (lambda: (Model(lambda m, x: x * m.a[2:4] + (m.a * x.sum()).mean(), a=torch.ones(6)), (3, 2)),
                               "more than one expression gives its values"),
    "exp of one of equal rows": (lambda: (Model(lambda m, x: x * -m.a[1].exp() + (m.a * x.sum()).mean(),
                                                a=torch.arange(1.0, 4).log().repeat(2, 1)), (2, 3)), "more than one expression"),
    "twice the same": (lambda: (Model(lambda m, x: x * (m.a - m.b) + m.a * m.b, a=torch.ones(4), b=torch.ones(4)), (3, 4)),
                       None),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_cannot_be_told_is_warned_of(tmp_path, name):
    make, says = AMBIGUOUS[name]
    x, said = compiled(tmp_path, *make())
    if says:
        assert LOST in said and says in said and "optimize=False" in said


def test_what_was_detached_stays_a_constant(tmp_path):
    model, shape = vectors(lambda m, x: x * (m.a.detach() * 2))
    x, said = compiled(tmp_path, model, shape)
    assert FOLDED not in said and LOST not in said
    compare(tmp_path, model, x)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.sin(torch.arange(24.0)).reshape(6, 4))
        self.w = nn.Parameter(drawn(4))

    def forward(self, x):
        return (x * self.table[1:4] * self.w + self.table.mean()).square().mean()


def test_what_was_computed_from_buffers_stays_a_constant(tmp_path):
    model = Table()
    _, said = compiled(tmp_path, model, (3, 4))
    assert FOLDED not in said and LOST not in said
