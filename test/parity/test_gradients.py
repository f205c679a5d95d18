"""The gradient of each op against PyTorch's, in fp64.

A case is a function of parameters in the graph dialect, and the same in PyTorch. The step of
`sgd(lr=1)` on a weighted sum of its elements moves each parameter by its gradient.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tools import tool


class Op:
    """`operands`: shapes of fp64 parameters, or (shape, limit) of integer inputs."""

    isRounded = False  # to integers, so that some are equal

    def __init__(self, body, result, reference, **operands):
        self.body, self.result, self.reference, self.operands = body, result, reference, operands


def text(shape, element="f64"):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def unary(name, reference, before="%x"):
    """An op on [4, 5]; `before` keeps its operand in its domain."""
    t = text((4, 5))
    start = {"%x": "", "%p": f"%p = graph.exp %x : ({t}) -> {t}\n", "%t": f"%t = graph.tanh %x : ({t}) -> {t}\n",
             "%q": f"%p = graph.exp %x : ({t}) -> {t}\n%o = graph.constant dense<1.0> : {t}\n"
                   f"%q = graph.add %p, %o : ({t}, {t}) -> {t}\n"}[before]
    return Op(f"{start}%r = graph.{name} {before} : ({t}) -> {t}", (4, 5), reference, x=(4, 5))


def binary(name, reference):
    t = text((4, 5))
    return Op(f"%p = graph.exp %y : ({t}) -> {t}\n%r = graph.{name} %x, %p : ({t}, {t}) -> {t}", (4, 5),
              lambda x, y: reference(x, y.exp()), x=(4, 5), y=(4, 5))


def attention(causal, masked):
    q, k, v, lse, mask = text((2, 3, 4, 6)), text((2, 3, 7, 6)), text((2, 3, 7, 5)), text((2, 3, 4)), text((1, 1, 4, 7), "i1")
    result = text((2, 3, 4, 5))
    visible = torch.ones(4, 7, dtype=torch.bool)
    constant, extra, types = "", "", f"{q}, {k}, {v}"
    if masked:
        visible = torch.arange(28).reshape(4, 7) % 3 != 1
        rows = ", ".join("[" + ", ".join(str(bool(e)).lower() for e in row) + "]" for row in visible)
        constant = f"%m = graph.constant dense<[[[{rows}]]]> : {mask}\n"
        extra, types = " mask %m", f"{types}, {mask}"
    if causal:  # the last query sees all keys
        visible = visible & torch.ones(4, 7, dtype=torch.bool).tril(7 - 4)
    return Op(f"{constant}%r, %l = graph.attention %q, %k, %v{extra} {{scale = 0.7 : f64, causal = {str(causal).lower()}}} : "
              f"({types}) -> ({result}, {lse})", (2, 3, 4, 5),
              lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible, scale=0.7),
              q=(2, 3, 4, 6), k=(2, 3, 7, 6), v=(2, 3, 7, 5))


def crossEntropy(ignored):
    x, labels, rows = text((3, 5, 4)), text((3, 4), "i64"), text((3, 4))
    return Op(f"%r, %l = graph.cross_entropy %x, %i {{axis = 1 : i64, ignore_index = {ignored} : i64}} : "
              f"({x}, {labels}) -> ({rows}, {rows})", (3, 4),
              lambda x, i: F.cross_entropy(x, i, reduction="none", ignore_index=ignored), x=(3, 5, 4), i=((3, 4), 5))


def maxPool(height, width, size, stride, dilation, padding):
    """Of integers, most of which are equal to another one in their window."""
    shapes = [(2, height, width)]
    for dim in (1, 2):
        windows = list(shapes[-1])
        windows[dim] = (windows[dim] + 2 * padding - (size - 1) * dilation - 1) // stride + 1
        shapes.append((*windows, size))
    x, rows, both = map(text, shapes)
    result = shapes[-1][:3]
    attributes = (f"size = {size} : i64, stride = {stride} : i64, dilation = {dilation} : i64, "
                  f"low = {padding} : i64, high = {padding} : i64, value = -1.0e+30 : f64")
    op = Op(f"%w = graph.unfold %x {{dim = 1 : i64, {attributes}}} : ({x}) -> {rows}\n"
            f"%v = graph.unfold %w {{dim = 2 : i64, {attributes}}} : ({rows}) -> {both}\n"
            f"%r = graph.reduce max %v over [3, 4] {{first}} : ({both}) -> {text(result)}", result,
            lambda x: F.max_pool2d(x, size, stride, padding, dilation), x=shapes[0])
    op.isRounded = True
    return op


T = text
OPS = {
    "neg": unary("neg", torch.neg),
    "exp": unary("exp", torch.exp),
    "log": unary("log", lambda x: x.exp().log(), "%p"),
    "sqrt": unary("sqrt", lambda x: x.exp().sqrt(), "%p"),
    "rsqrt": unary("rsqrt", lambda x: x.exp().rsqrt(), "%p"),
    "tanh": unary("tanh", torch.tanh),
    "erf": unary("erf", torch.erf),
    "sigmoid": unary("sigmoid", torch.sigmoid),
    "relu": unary("relu", torch.relu),
    "abs": unary("abs", torch.abs),
    "sin": unary("sin", torch.sin),
    "cos": unary("cos", torch.cos),
    "atan": unary("atan", torch.atan),
    "asin": unary("asin", lambda x: x.tanh().asin(), "%t"),
    "acos": unary("acos", lambda x: x.tanh().acos(), "%t"),
    "asinh": unary("asinh", torch.asinh),
    "acosh": unary("acosh", lambda x: (x.exp() + 1).acosh(), "%q"),
    "atanh": unary("atanh", lambda x: x.tanh().atanh(), "%t"),
    "floor": Op(f"%f = graph.floor %x : ({T((4,))}) -> {T((4,))}\n%r = graph.sub %x, %f : ({T((4,))}, {T((4,))}) -> {T((4,))}",
                (4,), lambda x: x - x.floor(), x=(4,)),
    "convert": Op(f"%h = graph.convert %x : ({T((4,))}) -> {T((4,), 'f32')}\n%r = graph.convert %h : ({T((4,), 'f32')}) -> {T((4,))}",
                  (4,), lambda x: x.float().double(), x=(4,)),
    "add": binary("add", torch.add),
    "sub": binary("sub", torch.sub),
    "mul": binary("mul", torch.mul),
    "div": binary("div", torch.div),
    "max": binary("max", torch.maximum),
    "min": binary("min", torch.minimum),
    "pow": Op(f"%p = graph.exp %y : ({T((6,))}) -> {T((6,))}\n%r = graph.pow %p, %x : ({T((6,))}, {T((6,))}) -> {T((6,))}",
              (6,), lambda x, y: y.exp() ** x, x=(6,), y=(6,)),
    "max of equals": Op(f"%r = graph.max %x, %x : ({T((4,))}, {T((4,))}) -> {T((4,))}", (4,),
                        lambda x: torch.maximum(x, x), x=(4,)),
    "select": Op(f"%c = graph.compare lt %x, %y : ({T((6,))}, {T((6,))}) -> {T((6,), 'i1')}\n"
                 f"%r = graph.select %c, %x, %y : ({T((6,), 'i1')}, {T((6,))}, {T((6,))}) -> {T((6,))}",
                 (6,), lambda x, y: torch.where(x < y, x, y), x=(6,), y=(6,)),
    "reshape": Op(f"%r = graph.reshape %x : ({T((4, 6))}) -> {T((2, 3, 4))}", (2, 3, 4), lambda x: x.reshape(2, 3, 4), x=(4, 6)),
    "transpose": Op(f"%r = graph.transpose %x {{permutation = array<i64: 2, 0, 1>}} : ({T((2, 3, 4))}) -> {T((4, 2, 3))}",
                    (4, 2, 3), lambda x: x.permute(2, 0, 1), x=(2, 3, 4)),
    "broadcast": Op(f"%r = graph.broadcast %x {{dims = array<i64: 1>}} : ({T((3,))}) -> {T((2, 3, 4))}", (2, 3, 4),
                    lambda x: x[None, :, None].expand(2, 3, 4), x=(3,)),
    "slice": Op(f"%r = graph.slice %x {{starts = array<i64: 1, 0>, limits = array<i64: 6, 3>, strides = array<i64: 2, 1>}} : "
                f"({T((6, 4))}) -> {T((3, 3))}", (3, 3), lambda x: x[1:6:2, 0:3], x=(6, 4)),
    "pad": Op(f"%r = graph.pad %x {{low = array<i64: 1, 0>, high = array<i64: 2, 3>, interior = array<i64: 0, 0>, value = 2.0 : f64}} : "
              f"({T((3, 4))}) -> {T((6, 7))}", (6, 7), lambda x: F.pad(x, (0, 3, 1, 2), value=2.0), x=(3, 4)),
    "concat": Op(f"%r = graph.concat %x, %y {{dim = 1 : i64}} : ({T((2, 3))}, {T((2, 4))}) -> {T((2, 7))}", (2, 7),
                 lambda x, y: torch.cat([x, y], 1), x=(2, 3), y=(2, 4)),
    "gather": Op(f"%r = graph.gather %x, %i {{axis = 0 : i64, batch_dims = 0 : i64}} : ({T((5, 3))}, {T((2, 4), 'i64')}) -> {T((2, 4, 3))}",
                 (2, 4, 3), lambda x, i: F.embedding(i, x), x=(5, 3), i=((2, 4), 5)),
    "gather in a batch": Op(f"%r = graph.gather %x, %i {{axis = 1 : i64, batch_dims = 1 : i64}} : ({T((2, 5, 3))}, {T((2, 4), 'i64')}) -> "
                            f"{T((2, 4, 3))}", (2, 4, 3), lambda x, i: x.gather(1, i[..., None].expand(2, 4, 3)), x=(2, 5, 3), i=((2, 4), 5)),
    "scatter_add": Op(f"%r = graph.scatter_add %i, %x {{axis = 0 : i64, batch_dims = 0 : i64}} : ({T((6,), 'i64')}, {T((6, 3))}) -> {T((6, 3))}",
                      (6, 3), lambda x, i: torch.zeros(6, 3, dtype=x.dtype).index_add(0, i, x), x=(6, 3), i=((6,), 4)),
    "matmul": Op(f"%r = graph.matmul %x, %y batch [1] x [0] contract [2] x [2] : ({T((4, 2, 3))}, {T((2, 5, 3))}) -> {T((2, 4, 5))}",
                 (2, 4, 5), lambda x, y: torch.einsum("ibk,bjk->bij", x, y), x=(4, 2, 3), y=(2, 5, 3)),
    "reduce sum": Op(f"%r = graph.reduce sum %x over [0, 2] : ({T((2, 3, 4))}) -> {T((3,))}", (3,), lambda x: x.sum((0, 2)), x=(2, 3, 4)),
    "reduce max": Op(f"%r = graph.reduce max %x over [1] : ({T((3, 4))}) -> {T((3,))}", (3,), lambda x: x.amax(1), x=(3, 4)),
    "reduce min": Op(f"%r = graph.reduce min %x over [0] : ({T((3, 4))}) -> {T((4,))}", (4,), lambda x: x.amin(0), x=(3, 4)),
    "reduce max, first of equals": Op(f"%r = graph.reduce max %x over [1] {{first}} : ({T((3, 40))}) -> {T((3,))}", (3,),
                                      lambda x: F.max_pool1d(x[None], 40)[0, :, 0], x=(3, 40)),
    "fold": Op(f"%r = graph.fold %x {{dim = 1 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64}} : ({T((2, 5, 3))}) -> {T((2, 9))}",
               (2, 9), lambda x: F.fold(x.permute(0, 2, 1), (9, 1), (3, 1), padding=(1, 0), stride=(2, 1))[:, 0, :, 0], x=(2, 5, 3)),
    "max pooling": maxPool(9, 7, 3, 2, 1, 1),
    "max pooling, dilated": maxPool(12, 11, 3, 1, 2, 1),
    "max pooling of blocks": maxPool(8, 6, 2, 2, 1, 0),
    "softmax": Op(f"%r = graph.softmax %x {{dim = 1 : i64}} : ({T((2, 5, 3))}) -> {T((2, 5, 3))}", (2, 5, 3), lambda x: x.softmax(1), x=(2, 5, 3)),
    "layer_norm": Op(f"%r, %m, %d = graph.layer_norm %x, %y, %z {{epsilon = 1.0e-5 : f64}} : ({T((3, 2, 4))}, {T((2, 4))}, {T((2, 4))}) -> "
                     f"({T((3, 2, 4))}, {T((3,))}, {T((3,))})", (3, 2, 4), lambda x, y, z: F.layer_norm(x, (2, 4), y, z, 1e-5),
                     x=(3, 2, 4), y=(2, 4), z=(2, 4)),
    "rms_norm": Op(f"%r, %d = graph.rms_norm %x, %y {{epsilon = 1.0e-5 : f64}} : ({T((3, 2, 4))}, {T((2, 4))}) -> "
                   f"({T((3, 2, 4))}, {T((3,))})", (3, 2, 4), lambda x, y: F.rms_norm(x, (2, 4), y, 1e-5), x=(3, 2, 4), y=(2, 4)),
    "silu": unary("silu", lambda x: F.silu(x)),
    "gelu": unary("gelu", F.gelu),
    "gelu by tanh": unary("gelu", lambda x: F.gelu(x, approximate="tanh")),
    "attention": attention(False, False),
    "attention, causal": attention(True, False),
    "attention, masked": attention(False, True),
    "attention, causal and masked": attention(True, True),
    "cross_entropy": crossEntropy(-100),
    "cross_entropy, ignored labels": crossEntropy(2),
}
OPS["reduce max, first of equals"].isRounded = True
for name, form in (("gelu", "erf"), ("gelu by tanh", "tanh")):
    OPS[name].body = OPS[name].body.replace("gelu %x", f"gelu {form} %x")


@pytest.mark.parametrize("name", OPS)
def test_the_gradient_is_pytorchs(tmp_path, name):
    op = OPS[name]
    random = torch.Generator().manual_seed(5)
    parameters, inputs, arguments, declared, given = [], {}, [], [], {}
    for operand, shape in op.operands.items():
        if isinstance(shape[0], tuple):
            inputs[operand] = torch.randint(shape[1], shape[0], generator=random)
            given[operand] = inputs[operand][None].numpy()  # one microbatch
            arguments.append(f'%{operand}: {text(shape[0], "i64")} {{graph.role = #graph.input<"{operand}">}}')
            continue
        value = torch.randn(shape, generator=random, dtype=torch.float64)
        value = (value.round() if op.isRounded else value).requires_grad_()
        parameters.append((operand, value))
        given[operand] = value.detach().numpy()
        declared.append(f'graph.parameter @{operand} : {text(shape)} at "m" offset 0 length {8 * value.numel()} {{trainable}}')
        arguments.append(f"%{operand}: {text(shape)} {{graph.role = #graph.parameter<@{operand}>}}")
    weights = torch.randn(op.result, generator=random, dtype=torch.float64)
    given["weights"] = weights[None].numpy()
    type = text(op.result)
    arguments.append(f'%weights: {type} {{graph.role = #graph.input<"weights">}}')
    program = "\n".join([
        *declared, f"func.func @forward({', '.join(arguments)}) -> (tensor<f64> {{graph.role = #graph.output<\"loss\">}}) {{", op.body,
        f"%weighted = graph.mul %r, %weights : ({type}, {type}) -> {type}",
        f"%loss = graph.reduce sum %weighted over [{', '.join(map(str, range(len(op.result))))}] : ({type}) -> tensor<f64>",
        "return %loss : tensor<f64>", "}"])
    (tmp_path / "op.mlir").write_text(program)
    np.savez(tmp_path / "in.npz", **given)
    tool("opt", tmp_path / "op.mlir", "--attach-loss=loss=output(loss)", "--build-step=optimizer=sgd(lr=1)",
         "--evaluate=global", f"--inputs={tmp_path / 'in.npz'}", f"--outputs={tmp_path / 'out.npz'}")
    outputs = np.load(tmp_path / "out.npz")

    loss = (op.reference(**dict(parameters), **inputs) * weights).sum()
    loss.backward()
    assert outputs["loss"] == pytest.approx(loss.item(), rel=1e-6 if name == "convert" else 1e-10)
    for i, (operand, value) in enumerate(parameters):
        gradient = torch.from_numpy(given[operand] - outputs[f"result{i}"])
        torch.testing.assert_close(gradient, value.grad, rtol=1e-9, atol=1e-9 if name != "convert" else 1e-6,
                                   msg=lambda text: f"gradient of {operand}: {text}")
