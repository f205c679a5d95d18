"""The cases of test_aten.py: what each operator of the table computes, as PyTorch's own functions.

A case is a function of tensors. Floats are parameters, so that gradients are compared too; integers and booleans are
given as `known` (buffers, whose elements the compiler looks at) or as `fed` (inputs, which it does not know).
"""

import torch
import torch.nn.functional as F
from torch import nn

FEEDS = 4  # the first dim of everything that is fed


def draw(seed, shape, low=-1.0, high=1.0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * (high - low) + low


def floats(*shape, low=-1.0, high=1.0, seed=0):
    return ("float", draw(seed + 7 * sum(shape) + len(shape), shape, low, high))


def positive(*shape, seed=0):
    return floats(*shape, low=0.2, high=1.5, seed=seed)


def known(values, dtype=torch.int64):
    return ("known", torch.tensor(values, dtype=dtype))


def fed(limit, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed + limit)
    return ("fed", torch.randint(0, limit, (FEEDS, *shape), generator=generator))


class Case:
    """`gradient`: whether it is compared; operators without one have none in PyTorch either."""

    def __init__(self, call, *operands, gradient=True, tolerance=1e-5):
        self.call, self.operands, self.gradient, self.tolerance = call, operands, gradient, tolerance


X, Y = floats(4, 5), floats(4, 5, seed=1)
P = positive(4, 5)
IMAGE = floats(2, 4, 9, 8)


def unary(call, operand=X, **more):
    return Case(call, operand, **more)


def binary(call, a=X, b=Y, **more):
    return Case(call, a, b, **more)


def written(write):
    """What `write` does to a copy of its operand, in place."""

    def call(x, *others):
        y = x.clone()
        write(y, *others)
        return y

    return call


def throughView(x):
    y = x * 1
    y[1].add_(2)  # select, then reshape
    y[:, 1:4:2].mul_(3)  # a slice with a stride
    y.t()[0].sub_(1)  # a transpose
    y.view(-1)[3:6].fill_(0.5)  # a reshape
    return y


def viewsSeeWrites(x):
    y = x.clone()
    a, b = y[0], y.t()
    y.mul_(2)
    b.add_(1)  # seen by a, through y
    return a + b.sum()


def reshapeCopies(x):
    """reshape of a transpose copies, so that what is written is not seen."""
    y = x.clone()
    y.t().reshape(-1).add_(1)
    return y


ARITHMETIC = {
    "add": binary(torch.add),
    "add-alpha": binary(lambda x, y: torch.add(x, y, alpha=2)),
    "add-number": unary(lambda x: x + 2),
    "add-broadcast": binary(torch.add, X, floats(5, seed=2)),
    "add-integers": Case(lambda i: i + 3, fed(9, 3), gradient=False),
    "add-promotes": Case(lambda x, i: x + i, X, fed(9, 5)),
    "add_": binary(written(lambda y, z: y.add_(z))),
    "add-booleans": Case(lambda x, y: (x > 0) + (y > 0), X, Y, gradient=False),
    "sub": binary(torch.sub),
    "rsub": unary(lambda x: 3 - x),
    "rsub-alpha": binary(lambda x, y: torch.rsub(x, y, alpha=2)),
    "sub_": binary(written(lambda y, z: y.sub_(z, alpha=3))),
    "mul": binary(torch.mul),
    "mul-number": unary(lambda x: x * 0.5),
    "mul_": binary(written(lambda y, z: y.mul_(z))),
    "div": binary(torch.div, X, P),
    "div-integers": Case(lambda i: i / 4, fed(9, 3), gradient=False),
    "div_": binary(written(lambda y, z: y.div_(z)), X, P),
    "div-floor": binary(
        lambda x, y: torch.div(x, y, rounding_mode="floor"), floats(4, 5, low=-5, high=5), P, gradient=False
    ),
    "div-trunc": binary(
        lambda x, y: torch.div(x, y, rounding_mode="trunc"), floats(4, 5, low=-5, high=5), P, gradient=False
    ),
    "floor-divide-integers": Case(lambda i: (i - 5) // 3, fed(12, 3), gradient=False),
    "trunc-divide-integers": Case(lambda i: torch.div(i - 5, 3, rounding_mode="trunc"), fed(12, 3), gradient=False),
    "floor-divide": binary(torch.floor_divide, floats(4, 5, low=-5, high=5), P, gradient=False),
    "remainder": binary(torch.remainder, floats(4, 5, low=-5, high=5), P),
    "remainder-integers": Case(lambda i: (i - 5) % 3, fed(12, 3), gradient=False),
    "remainder-of-number": Case(lambda i: torch.remainder(7, i + 1), fed(5, 3), gradient=False),
    "fmod": binary(torch.fmod, floats(4, 5, low=-5, high=5), P),
    "fmod-integers": Case(lambda i: torch.fmod(i - 5, 3), fed(12, 3), gradient=False),
    "pow": binary(torch.pow, P, Y),
    "pow-number": unary(lambda x: x**3),
    "pow-of-number": unary(lambda x: 2**x),
    "pow-root": unary(lambda x: x**0.5, P),
    "pow-integers": Case(lambda i: i**2, fed(5, 3), gradient=False),
    "maximum": binary(torch.maximum),
    "minimum": binary(torch.minimum),
    "max-other": binary(torch.max),
    "min-other": binary(torch.min),
    "addcmul": Case(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), X, Y, P),
    "addcdiv": Case(lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), X, Y, P),
    "lerp": binary(lambda x, y: torch.lerp(x, y, 0.3)),
    "lerp-tensor": Case(torch.lerp, X, Y, P),
    "neg": unary(torch.neg),
    "abs": unary(torch.abs),
    "abs-integers": Case(lambda i: (i - 4).abs(), fed(9, 3), gradient=False),
    "reciprocal": unary(torch.reciprocal, P),
    "square": unary(torch.square),
    "neg_": unary(written(lambda y: y.neg_())),
    "clamp": unary(lambda x: x.clamp(-0.5, 0.4)),
    "clamp-tensor": Case(lambda x, y, z: torch.clamp(x, y - 1, z), X, Y, P),
    "clamp-min": unary(lambda x: x.clamp_min(0.1)),
    "clamp-max": unary(lambda x: x.clamp_max(0.1)),
    "clip": unary(lambda x: x.clip(-0.2, 0.2)),
    "clamp-min-tensor": binary(torch.clamp_min),
    "clamp-max-tensor": binary(torch.clamp_max),
    "clamp_": unary(written(lambda y: y.clamp_(-0.5, 0.4))),
    "where": binary(lambda x, y: torch.where(x > 0, x, y)),
    "where-number": unary(lambda x: torch.where(x > 0, x, 2.0)),
    "where-of-number": unary(lambda x: torch.where(x > 0, 2.0, x)),
    "where-numbers": unary(lambda x: torch.where(x > 0, 2.0, 1.0), gradient=False),
    "masked-fill": unary(lambda x: x.masked_fill(x > 0.2, -3.0)),
    "masked-fill-tensor": Case(lambda x, v: x.masked_fill(x > 0.2, v), X, floats()),
    "masked_fill_": unary(written(lambda y: y.masked_fill_(y > 0.2, 1.5))),
    "multiply": binary(torch.multiply),
    "divide": binary(torch.divide, X, P),
    "subtract": binary(torch.subtract),
    "true-divide": binary(torch.true_divide, X, P),
    "negative": unary(torch.negative),
    "absolute": unary(torch.absolute),
}

FUNCTIONS = {
    name: unary(getattr(torch, name))
    for name in (
        "exp",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "erf",
        "erfc",
        "atan",
        "asin",
        "acos",
        "asinh",
        "atanh",
        "sinh",
        "cosh",
        "exp2",
        "expm1",
        "floor",
        "ceil",
        "round",
        "trunc",
        "sign",
        "sgn",
        "arctan",
        "arcsin",
        "arccos",
        "arcsinh",
        "arctanh",
        "fix",
        "positive",
    )
}
FUNCTIONS |= {name: unary(getattr(torch, name), P) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")}
FUNCTIONS |= {
    "acosh": unary(lambda x: torch.acosh(x + 1), P),
    "arccosh": unary(lambda x: torch.arccosh(x + 1), P),
    "log1p-small": unary(lambda x: torch.log1p(x * 1e-6)),
    "expm1-small": unary(lambda x: torch.expm1(x * 1e-6)),
    "frac": unary(lambda x: torch.frac(3 * x)),
    "round-half": unary(lambda x: torch.round(torch.round(x * 4) / 2), gradient=False),
    "logit": unary(torch.logit, floats(4, 5, low=0.1, high=0.9)),
    "logit-eps": unary(lambda x: torch.logit(x, 0.3), floats(4, 5, low=0.1, high=0.9)),
    "isnan": unary(lambda x: torch.isnan(x / (x > 0)), gradient=False),
    "isinf": unary(lambda x: torch.isinf(1 / (x > 0).float()), gradient=False),
    "isfinite": unary(lambda x: torch.isfinite(1 / (x > 0).float()), gradient=False),
    "isposinf": unary(lambda x: torch.isposinf(x / (x > 0).float()), gradient=False),
    "isneginf": unary(lambda x: torch.isneginf(x / (x > 0).float()), gradient=False),
    "nan-to-num": unary(
        lambda x: torch.nan_to_num(x / (x > 0).float(), nan=2.0, posinf=3.0, neginf=-4.0), gradient=False
    ),
    "exp-of-integers": Case(lambda i: torch.exp(i), fed(3, 3), gradient=False),
    "tanh_": unary(written(lambda y: y.tanh_())),
}

ACTIVATIONS = {
    "relu": unary(F.relu),
    "relu_": unary(written(lambda y: F.relu_(y))),
    "relu6": unary(lambda x: F.relu6(8 * x)),
    "leaky-relu": unary(lambda x: F.leaky_relu(x, 0.2)),
    "elu": unary(lambda x: F.elu(x, 0.7)),
    "elu_": unary(written(lambda y: F.elu_(y))),
    "celu": unary(lambda x: F.celu(x, 0.7)),
    "selu": unary(F.selu),
    "gelu": unary(F.gelu),
    "gelu-tanh": unary(lambda x: F.gelu(x, approximate="tanh")),
    "silu": unary(F.silu),
    "silu_": unary(written(lambda y: F.silu(y, inplace=True))),
    "mish": unary(F.mish),
    "softplus": unary(lambda x: F.softplus(x, 2.0)),
    "softplus-threshold": unary(lambda x: F.softplus(x, 1.0, 0.3)),
    "logsigmoid": unary(F.logsigmoid),
    "hardtanh": unary(lambda x: F.hardtanh(x, -0.3, 0.4)),
    "hardtanh_": unary(written(lambda y: F.hardtanh_(y, -0.3, 0.4))),
    "hardswish": unary(lambda x: F.hardswish(4 * x)),
    "hardsigmoid": unary(lambda x: F.hardsigmoid(4 * x)),
    "threshold": unary(lambda x: F.threshold(x, 0.1, -2.0)),
    "hardshrink": unary(lambda x: F.hardshrink(x, 0.3)),
    "softshrink": unary(lambda x: F.softshrink(x, 0.3)),
    "softsign": unary(F.softsign),
    "tanhshrink": unary(F.tanhshrink),
    "prelu": Case(F.prelu, X, floats(1)),
    "prelu-channels": Case(F.prelu, IMAGE, floats(4)),
    "glu": unary(lambda x: F.glu(x, -1), floats(4, 6)),
    "softmax": unary(lambda x: F.softmax(x, -1)),
    "softmax-dim": unary(lambda x: F.softmax(x, 1), floats(2, 3, 4)),
    "log-softmax": unary(lambda x: F.log_softmax(x, 0)),
    "softmax-dtype": Case(lambda i: F.softmax(i, -1, dtype=torch.float32), fed(5, 3), gradient=False),
    "softmin": unary(lambda x: F.softmin(x, -1)),
    "log-softmax-dtype": unary(lambda x: F.log_softmax(x, -1, dtype=torch.float32)),
}

COMPARISONS = {
    name: binary(lambda x, y, name=name: getattr(torch, name)(x.round(), y.round()), gradient=False)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
COMPARISONS |= {
    f"{name}-number": unary(lambda x, name=name: getattr(torch, name)(x, 0.25), gradient=False)
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
COMPARISONS |= {
    "eq-mixed": Case(lambda i: i == 2.5, fed(4, 3), gradient=False),
    **{
        f"logical-{name}": binary(lambda x, y, name=name: getattr(torch, f"logical_{name}")(x > 0, y), gradient=False)
        for name in ("and", "or", "xor")
    },
    "logical-not": unary(lambda x: torch.logical_not(x > 0), gradient=False),
    **{
        f"bitwise-{name}": Case(
            lambda i, j, name=name: getattr(torch, f"bitwise_{name}")(i, j), fed(99, 3), fed(77, 3), gradient=False
        )
        for name in ("and", "or", "xor")
    },
    **{
        f"bitwise-{name}-number": Case(
            lambda i, name=name: getattr(torch, f"bitwise_{name}")(i, 13), fed(99, 3), gradient=False
        )
        for name in ("and", "or", "xor")
    },
    "bitwise-not": Case(lambda i: ~i, fed(99, 3), gradient=False),
    "bitwise-booleans": binary(lambda x, y: ((x > 0) & (y > 0)) | ~(x < y), gradient=False),
    "bitwise-xor-booleans": binary(lambda x, y: (x > 0) ^ (y > 0), gradient=False),
    "dunder-and": binary(lambda x, y: (x > 0).__and__(y > 0), gradient=False),
    "dunder-or": binary(lambda x, y: (x > 0).__or__(y > 0), gradient=False),
}

CREATION = {
    "arange": unary(lambda x: x[:, :5] + torch.arange(5)),
    "arange-step": unary(lambda x: x + torch.arange(1.0, 3.0, 0.4)),
    "arange-start": unary(lambda x: x + torch.arange(2, 7)),
    "zeros": unary(lambda x: x + torch.zeros(4, 5)),
    "ones": unary(lambda x: x + torch.ones(5)),
    "full": unary(lambda x: x + torch.full((5,), 0.5)),
    "zeros-like": unary(lambda x: x + torch.zeros_like(x)),
    "ones-like": unary(lambda x: x + torch.ones_like(x)),
    "full-like": unary(lambda x: x + torch.full_like(x, 2.0)),
    "empty-like": unary(lambda x: x + torch.empty_like(x).fill_(3)),
    "empty": unary(lambda x: x + torch.empty(5).zero_()),
    "new-zeros": unary(lambda x: x + x.new_zeros(5)),
    "new-ones": unary(lambda x: x + x.new_ones(4, 1)),
    "new-full": unary(lambda x: x + x.new_full((5,), 2.0)),
    "new-empty": unary(lambda x: x + x.new_empty(5).fill_(1)),
    "scalar-tensor": unary(lambda x: x + torch.scalar_tensor(2.0)),
    "linspace": unary(lambda x: x + torch.linspace(0, 1, 5)),
    "eye": unary(lambda x: x @ torch.eye(5).to(x)),
    "eye-m": unary(lambda x: x + torch.eye(4, 5)),
    "tensor": unary(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])),
}

CONVERSIONS = {
    "to-dtype": Case(lambda i: i.to(torch.float32) * 2, fed(5, 3), gradient=False),
    "to-int": unary(lambda x: (4 * x).to(torch.int64), gradient=False),
    "to-bool": unary(lambda x: x.round().to(torch.bool), gradient=False),
    "to-other": Case(lambda i, x: i.to(x) + x, fed(5, 5), X),
    "type-as": Case(lambda i, x: i.type_as(x) + x, fed(5, 5), X),
    "to-uint8": Case(lambda i: (i * 100).to(torch.uint8) + 200, fed(9, 3), gradient=False),
    "to-int8": Case(lambda i: (i * 30).to(torch.int8) + 100, fed(9, 3), gradient=False),
    "float": Case(lambda i: i.float() / 3, fed(5, 3), gradient=False),
    "int": unary(lambda x: (9 * x).int(), gradient=False),
    "contiguous": unary(lambda x: x.t().contiguous()),
    "clone": unary(lambda x: x.clone()),
    "detach": unary(lambda x: x * x.detach()),
    "alias": unary(lambda x: torch.ops.aten.alias(x) * 2),
    "copy_": binary(lambda x, y: (x * 1).copy_(y)),
    "copy-broadcast": Case(lambda x, y: (x * 1).copy_(y), X, floats(5, seed=3)),
    "fill_": unary(lambda x: (x * 1)[0].fill_(2.0) + x),
    "fill-tensor": Case(lambda x, v: (x * 1).fill_(v) + x, X, floats()),
    "zero_": unary(lambda x: (x * 1).zero_() + x),
    "no-grad": unary(lambda x: x * noGrad(x)),
    "cpu": unary(lambda x: x.cpu() * 2),
    "device": unary(lambda x: x.to("cpu") * 2),
}


def noGrad(x):
    with torch.no_grad():
        return x.exp()


VIEWS = {
    "view": unary(lambda x: x.view(2, 10)),
    "view-minus": unary(lambda x: x.view(-1)),
    "view-as": binary(lambda x, y: x.view_as(y)),
    "reshape": unary(lambda x: x.t().reshape(2, -1)),
    "reshape-as": binary(lambda x, y: x.reshape_as(y.t())),
    "flatten": unary(lambda x: x.flatten(1), floats(2, 3, 4)),
    "unflatten": unary(lambda x: x.unflatten(1, (5, 1))),
    "ravel": unary(torch.ravel),
    "squeeze": unary(torch.squeeze, floats(1, 4, 1)),
    "squeeze-dim": unary(lambda x: x.squeeze(0), floats(1, 4, 1)),
    "squeeze-dims": unary(lambda x: x.squeeze((0, 2)), floats(1, 4, 1)),
    "unsqueeze": unary(lambda x: x.unsqueeze(-1)),
    "expand": unary(lambda x: x.expand(3, -1, 5), floats(4, 1)),
    "expand-as": Case(lambda x, y: x.expand_as(y), floats(4, 1), Y),
    "broadcast-to": unary(lambda x: torch.broadcast_to(x, (3, 4, 5))),
    "permute": unary(lambda x: x.permute(2, 0, 1), floats(2, 3, 4)),
    "transpose": unary(lambda x: x.transpose(0, -1), floats(2, 3, 4)),
    "swapaxes": unary(lambda x: x.swapaxes(0, 1)),
    "swapdims": unary(lambda x: x.swapdims(0, 1)),
    "t": unary(torch.t),
    "T": unary(lambda x: x.T),
    "mT": unary(lambda x: x.mT, floats(2, 3, 4)),
    "movedim": unary(lambda x: x.movedim(0, 2), floats(2, 3, 4)),
    "movedims": unary(lambda x: x.movedim((0, 1), (2, 0)), floats(2, 3, 4)),
    "moveaxis": unary(lambda x: x.moveaxis(0, 2), floats(2, 3, 4)),
    "select": unary(lambda x: x[1] + x[-1]),
    "select-dim": unary(lambda x: x.select(1, 2)),
    "slice": unary(lambda x: x[1:3, ::2]),
    "slice-end": unary(lambda x: x[:, -3:]),
    "narrow": unary(lambda x: x.narrow(1, 1, 3)),
    "split": unary(lambda x: x.split(2, 1)[2]),
    "split-sizes": unary(lambda x: x.split([1, 4], 1)[1]),
    "chunk": unary(lambda x: x.chunk(3, 1)[1]),
    "tensor-split": unary(lambda x: x.tensor_split(3, 1)[0]),
    "tensor-split-at": unary(lambda x: x.tensor_split((1, 3), 1)[1]),
    "unbind": unary(lambda x: x.unbind(1)[3]),
    "unfold": unary(lambda x: x.unfold(1, 3, 2)),
    "split-with-sizes": unary(lambda x: torch.split_with_sizes(x, [2, 3], 1)[0]),
    "unsafe-chunk": unary(lambda x: torch.unsafe_chunk(x, 2, 0)[1]),
    "unsafe-split": unary(lambda x: torch.unsafe_split(x, 3, 0)[0]),
    "written-through-views": unary(throughView),
    "views-see-writes": unary(viewsSeeWrites),
    "reshape-copies": unary(reshapeCopies),
}

JOINS = {
    "cat": binary(lambda x, y: torch.cat((x, y), 1)),
    "cat-promotes": Case(lambda x, i: torch.cat((x, i), 0), X, fed(5, 5)),
    "concat": binary(lambda x, y: torch.concat((x, y), -1)),
    "vstack": binary(lambda x, y: torch.vstack((x[0], y))),
    "stack": binary(lambda x, y: torch.stack((x, y), 1)),
    "hstack": binary(lambda x, y: torch.hstack((x, y))),
    "repeat": unary(lambda x: x.repeat(2, 1, 3)),
    "tile": unary(lambda x: x.tile(3)),
    "repeat-interleave": unary(lambda x: x.repeat_interleave(2, 1)),
    "repeat-interleave-flat": unary(lambda x: x.repeat_interleave(2)),
    "repeat-interleave-tensor": Case(lambda x, n: x.repeat_interleave(n, 0), X, known([1, 0, 2, 3])),
    "roll": unary(lambda x: x.roll((1, -2), (0, 1))),
    "roll-flat": unary(lambda x: x.roll(3)),
    "flip": unary(lambda x: x.flip(0, 1)),
    "pixel-shuffle": unary(lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "pixel-unshuffle": unary(lambda x: F.pixel_unshuffle(x, 2), floats(2, 3, 6, 4)),
    "meshgrid": Case(lambda x, y: torch.meshgrid(x, y, indexing="xy")[0], floats(3), floats(5)),
    "meshgrid-ij": Case(lambda x, y: torch.meshgrid(x, y, indexing="ij")[1], floats(3), floats(5)),
    "broadcast-tensors": Case(lambda x, y: torch.broadcast_tensors(x, y)[0] * 2, floats(4, 1), floats(5)),
    "pad": unary(lambda x: F.pad(x, (1, 2, 0, 1), value=0.5)),
    "pad-negative": unary(lambda x: F.pad(x, (-1, 1))),
    "pad-reflect": unary(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), IMAGE),
    "pad-replicate": unary(lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), IMAGE),
    "pad-circular": unary(lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), IMAGE),
    "constant-pad-nd": unary(lambda x: torch.constant_pad_nd(x, (1, 1), 2.0)),
    "reflection-pad1d": unary(nn.ReflectionPad1d(2), floats(2, 3, 5)),
    "reflection-pad2d": unary(nn.ReflectionPad2d(1), IMAGE),
    "replication-pad1d": unary(nn.ReplicationPad1d(2), floats(2, 3, 5)),
    "replication-pad2d": unary(nn.ReplicationPad2d(1), IMAGE),
    "replication-pad3d": unary(nn.ReplicationPad3d(1), floats(1, 2, 3, 4, 3)),
    "reflection-pad3d": unary(nn.ReflectionPad3d(1), floats(1, 2, 3, 4, 3)),
}

PRODUCTS = {
    "matmul": Case(torch.matmul, floats(4, 5), floats(5, 3)),
    "matmul-vectors": Case(torch.matmul, floats(5), floats(5, seed=4)),
    "matmul-batch": Case(torch.matmul, floats(2, 1, 4, 5), floats(3, 5, 2)),
    "matmul-matrix-vector": Case(torch.matmul, floats(3, 4, 5), floats(5)),
    "mm": Case(torch.mm, floats(4, 5), floats(5, 3)),
    "bmm": Case(torch.bmm, floats(2, 4, 5), floats(2, 5, 3)),
    "mv": Case(torch.mv, floats(4, 5), floats(5)),
    "dot": Case(torch.dot, floats(5), floats(5, seed=4)),
    "outer": Case(torch.outer, floats(4), floats(5)),
    "addmm": Case(lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), floats(3), floats(4, 5), floats(5, 3)),
    "baddbmm": Case(
        lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2), floats(2, 4, 3), floats(2, 4, 5), floats(2, 5, 3)
    ),
    "linear": Case(F.linear, floats(2, 4, 5), floats(3, 5), floats(3)),
    "linear-no-bias": Case(F.linear, floats(4, 5), floats(3, 5)),
    "einsum": Case(lambda x, y: torch.einsum("bij,kj->bik", x, y), floats(2, 4, 5), floats(3, 5)),
    "einsum-three": Case(
        lambda x, y, z: torch.einsum("bi,ij,bj->b", x, y, z), floats(2, 4), floats(4, 3), floats(2, 3)
    ),
    "bilinear": Case(F.bilinear, floats(4, 3), floats(4, 2), floats(5, 3, 2), floats(5)),
    "ger": Case(torch.ger, floats(4), floats(5)),
}

CONVOLUTIONS = {
    "conv1d": Case(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), floats(2, 4, 9), floats(6, 4, 3), floats(6)),
    "conv2d": Case(lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE, floats(6, 4, 3, 3), floats(6)),
    "conv2d-groups": Case(
        lambda x, w: F.conv2d(x, w, stride=(2, 1), dilation=2, padding=(1, 2), groups=2), IMAGE, floats(6, 2, 3, 2)
    ),
    "conv2d-same": Case(lambda x, w: F.conv2d(x, w, padding="same"), IMAGE, floats(6, 4, 3, 2)),
    "conv2d-valid": Case(lambda x, w: F.conv2d(x, w, padding="valid"), IMAGE, floats(6, 4, 3, 2)),
    "conv3d": Case(F.conv3d, floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2)),
    "conv2d-single": Case(F.conv2d, floats(4, 7, 6), floats(6, 4, 3, 3)),
    "conv1d-same": Case(lambda x, w: F.conv1d(x, w, padding="same"), floats(2, 4, 9), floats(6, 4, 4)),
    "conv3d-same": Case(lambda x, w: F.conv3d(x, w, padding="same"), floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2)),
    "conv-transpose1d": Case(
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
        floats(2, 4, 5),
        floats(4, 3, 3),
        floats(3),
    ),
    "conv-transpose2d": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), floats(2, 4, 5, 4), floats(4, 3, 2, 3)
    ),
    "conv-transpose3d": Case(F.conv_transpose3d, floats(1, 2, 3, 3, 3), floats(2, 2, 2, 2, 2)),
    "convolution": Case(
        lambda x, w, b: torch.convolution(x, w, b, [1, 1], [1, 0], [1, 1], False, [0, 0], 1),
        IMAGE,
        floats(6, 4, 3, 3),
        floats(6),
    ),
    "_convolution": Case(
        lambda x, w: torch._convolution(
            x, w, None, [2, 1], [0, 1], [1, 1], True, [1, 0], 1, False, False, False, False
        ),
        IMAGE,
        floats(4, 3, 3, 3),
    ),
}

POOLING = {
    "max-pool1d": unary(lambda x: F.max_pool1d(x, 3, 2, 1), floats(2, 3, 8)),
    "max-pool2d": unary(lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)), IMAGE),
    "max-pool2d-ceil": unary(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "max-pool2d-dilated": unary(lambda x: F.max_pool2d(x, 2, 1, dilation=2), IMAGE),
    "max-pool3d": unary(lambda x: F.max_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "avg-pool1d": unary(lambda x: F.avg_pool1d(x, 3, 2, 1), floats(2, 3, 8)),
    "avg-pool2d": unary(lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg-pool2d-without-padding": unary(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    "avg-pool2d-ceil": unary(lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), IMAGE),
    "avg-pool2d-divisor": unary(lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg-pool3d": unary(lambda x: F.avg_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "adaptive-avg-pool1d": unary(lambda x: F.adaptive_avg_pool1d(x, 3), floats(2, 3, 8)),
    "adaptive-avg-pool2d": unary(lambda x: F.adaptive_avg_pool2d(x, (3, 5)), IMAGE),
    "adaptive-avg-pool2d-one": unary(lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive-avg-pool2d-even": unary(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    "adaptive-avg-pool3d": unary(lambda x: F.adaptive_avg_pool3d(x, 2), floats(1, 2, 4, 5, 4)),
    "max-pool2d-single": unary(lambda x: F.max_pool2d(x, 2), floats(4, 6, 6)),
}

RESIZES = {
    f"{mode}-{size}": unary(
        lambda x, mode=mode, size=size: F.interpolate(
            x, **({"size": size} if isinstance(size, int) else {"scale_factor": size}), mode=mode
        ),
        operand,
    )
    for mode, operand in (
        ("nearest", floats(2, 3, 7)),
        ("nearest-exact", floats(2, 3, 7)),
        ("linear", floats(2, 3, 7)),
        ("bilinear", floats(1, 2, 5, 6)),
        ("bicubic", floats(1, 2, 5, 6)),
        ("trilinear", floats(1, 1, 3, 4, 3)),
    )
    for size in (4, 9, 1.7, 2.0)
}
RESIZES |= {
    "bilinear-corners": unary(
        lambda x: F.interpolate(x, size=(8, 9), mode="bilinear", align_corners=True), floats(1, 2, 5, 6)
    ),
    "linear-corners": unary(lambda x: F.interpolate(x, size=4, mode="linear", align_corners=True), floats(2, 3, 7)),
    "nearest2d": unary(lambda x: F.interpolate(x, scale_factor=2), floats(1, 2, 5, 6)),
    "nearest3d": unary(lambda x: F.interpolate(x, size=(4, 3, 5)), floats(1, 1, 3, 4, 3)),
    "nearest-exact2d": unary(lambda x: F.interpolate(x, size=(7, 4), mode="nearest-exact"), floats(1, 2, 5, 6)),
    "nearest-exact3d": unary(lambda x: F.interpolate(x, size=(4, 3, 5), mode="nearest-exact"), floats(1, 1, 3, 4, 3)),
    "bilinear-antialias": unary(
        lambda x: F.interpolate(x, size=(3, 8), mode="bilinear", antialias=True), floats(1, 2, 7, 6)
    ),
    "bicubic-antialias": unary(
        lambda x: F.interpolate(x, size=(3, 8), mode="bicubic", antialias=True), floats(1, 2, 7, 6)
    ),
    "bicubic-corners": unary(
        lambda x: F.interpolate(x, size=(8, 4), mode="bicubic", align_corners=True), floats(1, 2, 5, 6)
    ),
}

NORMS = {
    "layer-norm": Case(lambda x, w, b: F.layer_norm(x, (5,), w, b), X, floats(5), floats(5, seed=3)),
    "layer-norm-plain": unary(lambda x: F.layer_norm(x, (3, 4)), floats(2, 3, 4)),
    "rms-norm": Case(lambda x, w: F.rms_norm(x, (5,), w, 1e-5), X, floats(5)),
    "rms-norm-plain": unary(lambda x: F.rms_norm(x, (5,))),
    "group-norm": Case(lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, floats(4), floats(4, seed=3)),
    "group-norm-plain": unary(lambda x: F.group_norm(x, 2), IMAGE),
    "instance-norm": unary(F.instance_norm, IMAGE),
    "batch-norm-batch": Case(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), IMAGE, floats(4), floats(4, seed=3)
    ),
    "local-response-norm": unary(lambda x: F.local_response_norm(x, 3), IMAGE),
    "normalize": unary(lambda x: F.normalize(x, dim=1)),
}

# Compiled with --batch-norm frozen.
STORED = {
    "batch-norm-stored": Case(
        lambda x, m, v, w: F.batch_norm(x, m.detach(), v.detach(), w), IMAGE, floats(4), positive(4), floats(4, seed=3)
    ),
}

Q, K, V = floats(2, 4, 6, 8), floats(2, 4, 7, 8, seed=1), floats(2, 4, 7, 8, seed=2)
ATTENTION = {
    "sdpa": Case(F.scaled_dot_product_attention, Q, K, V),
    "sdpa-causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        Q,
        floats(2, 4, 6, 8, seed=3),
        floats(2, 4, 6, 8, seed=4),
    ),
    "sdpa-causal-longer": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, K, V),
    "sdpa-scale": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), Q, K, V),
    "sdpa-mask": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        Q,
        K,
        V,
        known([[i % 3 != 1 for i in range(7)]] * 6, torch.bool),
    ),
    "sdpa-mask-computed": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > -0.5), Q, K, V, floats(2, 1, 1, 7)
    ),
    "sdpa-bias": Case(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), Q, K, V, floats(4, 6, 7)),
    "sdpa-groups": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        Q,
        floats(2, 2, 7, 8),
        floats(2, 2, 7, 8, seed=3),
    ),
    "sdpa-three-dims": Case(F.scaled_dot_product_attention, floats(2, 6, 8), floats(2, 7, 8), floats(2, 7, 8, seed=3)),
    "sdpa-two-dims": Case(F.scaled_dot_product_attention, floats(6, 8), floats(7, 8), floats(7, 8, seed=3)),
}

REDUCTIONS = {
    f"{name}{suffix}": unary(
        lambda x, name=name, args=args: getattr(torch, name)(x, *args[0], **args[1]), floats(3, 4, 5)
    )
    for name in ("sum", "mean", "prod", "logsumexp", "std", "var", "amax", "amin")
    for suffix, args in (("", ((), {})), ("-dim", ((1,), {})), ("-keep", ((-1,), {"keepdim": True})))
    if not (name == "logsumexp" and suffix == "")
}
REDUCTIONS |= {
    "sum-dims": unary(lambda x: x.sum((0, 2)), floats(3, 4, 5)),
    "sum-integers": Case(lambda i: i.sum(1), fed(9, 3), gradient=False),
    "sum-booleans": unary(lambda x: (x > 0).sum(), gradient=False),
    "mean-dtype": Case(lambda i: i.mean(1, dtype=torch.float32), fed(9, 3), gradient=False),
    "max": unary(torch.max),
    "min": unary(torch.min),
    "max-dim": unary(lambda x: x.max(1)[0]),
    "min-dim": unary(lambda x: x.min(0, keepdim=True)[0]),
    "max-indices": unary(lambda x: x.max(1)[1], gradient=False),
    "min-indices": unary(lambda x: x.min(1)[1], gradient=False),
    "argmax": unary(lambda x: x.argmax(1), gradient=False),
    "argmin": unary(lambda x: x.argmin(0, keepdim=True), gradient=False),
    "argmax-all": unary(torch.argmax, gradient=False),
    "any": unary(lambda x: (x > 0.9).any(), gradient=False),
    "any-dim": unary(lambda x: (x > 0.5).any(1), gradient=False),
    "all": unary(lambda x: (x > -2).all(), gradient=False),
    "all-dim": unary(lambda x: (x > -0.5).all(1, keepdim=True), gradient=False),
    "count-nonzero": unary(lambda x: torch.count_nonzero(x > 0, 1), gradient=False),
    "var-correction": unary(lambda x: x.var(1, correction=0)),
    "std-correction": unary(lambda x: x.std((0, 1), correction=2)),
    "var-mean": unary(lambda x: torch.var_mean(x, 1)[0] + torch.var_mean(x, 1)[1]),
    "std-mean": unary(lambda x: torch.std_mean(x, 1)[0]),
    "var-biased": unary(lambda x: x.var(unbiased=False)),
    "norm": unary(torch.norm),
    "norm-dim": unary(lambda x: x.norm(dim=1)),
    "norm-one": unary(lambda x: x.norm(p=1, dim=1, keepdim=True)),
    "norm-three": unary(lambda x: torch.linalg.vector_norm(x, 3, dim=1)),
    "norm-inf": unary(lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1)),
    "norm-at-zero": unary(lambda x: torch.linalg.vector_norm(x * 0)),
    "cumsum": unary(lambda x: x.cumsum(1)),
    "cumsum-integers": Case(lambda i: i.cumsum(1), fed(9, 5), gradient=False),
    "diff": unary(lambda x: x.diff(dim=0)),
    "diff-twice": unary(lambda x: x.diff(2)),
    "prod-zero": unary(lambda x: torch.where(x > 0.8, 0.0, x).prod(1)),
}

ROWS = ([0, 2, 1, 2],)
INDEXING = {
    "embedding": Case(lambda w, i: F.embedding(i, w), floats(7, 3), fed(7, 2)),
    "embedding-padding": Case(lambda w, i: F.embedding(i, w, padding_idx=2), floats(7, 3), fed(7, 2)),
    "embedding-known": Case(lambda w, i: F.embedding(i, w), floats(7, 3), known([[1, 6], [3, 0]])),
    "index-select": Case(lambda x, i: x.index_select(1, i), X, known([0, 4, 2])),
    "index-select-fed": Case(lambda x, i: x.index_select(1, i[:, 0]), X, fed(5, 1)),
    "gather": Case(lambda x, i: x.gather(1, i), X, fed(5, 3)),
    "gather-negative-dim": Case(lambda x, i: x.gather(-2, i), X, fed(4, 3)),
    "take-along-dim": Case(lambda x, i: torch.take_along_dim(x, i, 1), X, fed(5, 3)),
    "index": Case(lambda x, i: x[i], X, fed(4, 2)),
    "index-negative": Case(lambda x, i: x[i - 4], X, fed(4, 2)),
    "index-two": Case(lambda x, i, j: x[i, j], X, fed(4), fed(5)),
    "index-second": Case(lambda x, i: x[:, i], X, fed(5, 2)),
    "index-apart": Case(lambda x, i, j: x[i, :, j], floats(3, 4, 5), fed(3), fed(5)),
    "index-mask": Case(lambda x, m: x[m], X, known([True, False, True, True], torch.bool)),
    "index-mask-two": Case(
        lambda x, m: x[m], floats(2, 3), known([[True, False, True], [False, True, True]], torch.bool)
    ),
    "one-hot": Case(lambda i: F.one_hot(i, 6), fed(6, 2), gradient=False),
    "tril": unary(torch.tril),
    "triu": unary(lambda x: x.triu(1)),
    "topk": unary(lambda x: x.topk(3)[0]),
    "topk-indices": unary(lambda x: x.topk(3, 0)[1], gradient=False),
    "topk-smallest": unary(lambda x: x.topk(2, 1, largest=False)[0]),
    "sort": unary(lambda x: x.sort(1)[0]),
    "sort-descending": unary(lambda x: x.sort(1, descending=True)[0]),
    "argsort": unary(lambda x: x.argsort(1), gradient=False),
    "sort-known": Case(lambda i, x: x[:, i.sort()[1]], known([3, 1, 2, 0, 1]), X),
    "sort-stable": Case(lambda i, x: x[:, torch.sort(i, stable=True)[1]], known([3, 1, 2, 0, 1]), X),
    "sort-many": unary(lambda x: x.sort(1)[0], floats(2, 100)),
    "topk-many": unary(lambda x: x.topk(70, 0)[0], floats(100, 2)),
    "topk-of-long-rows": unary(lambda x: x.topk(3)[0], floats(2, 1100)),
    "sort-nan": unary(lambda x: torch.where(x > 0.5, torch.nan, x).sort(1)[1], gradient=False),
    "topk-nan": unary(lambda x: torch.where(x > 0.5, torch.nan, x).topk(4)[1], gradient=False),
    "nonzero": Case(lambda m, x: x[m.nonzero()[:, 0]], known([0, 3, 0, 5]), X),
    "nonzero-lists": Case(lambda m, x: x[torch.where(m > 0)[0]], known([0, 3, 0, 5]), X),
    "argwhere": Case(lambda m, x: x[torch.argwhere(m)[:, 0]], known([0, 3, 0, 5]), X),
    "argsort-stable": unary(lambda x: torch.argsort(x, dim=1, stable=True), gradient=False),
}

SCATTERS = {
    "index-put": Case(written(lambda y, i, v: y.index_put_((i,), v)), X, known([2, 0]), floats(2, 5)),
    "index-put-add": Case(
        written(lambda y, i, v: y.index_put_((i,), v, accumulate=True)), X, known([2, 0, 2]), floats(3, 5)
    ),
    "index-put-two": Case(lambda x, i, j, v: torch.index_put(x, (i, j), v), X, known([2, 0]), known([1, 3]), floats(2)),
    "index-put-mask": unary(written(lambda y: y.__setitem__(y > 0.3, 2.0))),
    "index-put-fed": Case(lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True), X, fed(4), floats(4, 5)),
    "index-put-second": Case(
        written(lambda y, i, v: y.__setitem__((slice(None), i), v)), X, known([1, 4]), floats(4, 2)
    ),
    "scatter": Case(lambda x, i, v: x.scatter(1, i, v), X, known([[0, 2], [1, 4], [3, 0], [2, 1]]), floats(4, 2)),
    "scatter-value": Case(lambda x, i: x.scatter(1, i, 2.0), X, known([[0, 2], [1, 4], [3, 0], [2, 1]])),
    "scatter_": Case(written(lambda y, i, v: y.scatter_(1, i, v)), X, fed(5, 1), floats(4, 1)),
    "scatter-add": Case(lambda x, i, v: x.scatter_add(1, i, v), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-sum": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "sum"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-max": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "amax"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-min": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "amin"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce": Case(
        lambda x, i, v: torch.scatter(x, 1, i, v, reduce="add"), X, fed(5, 3), floats(4, 3), gradient=False
    ),
    "scatter-reduce-prod": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "prod"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-prod-rows": Case(lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), X, fed(4, 5), floats(4, 5)),
    "scatter-multiply": Case(
        lambda x, i, v: torch.scatter(x, 1, i, v, reduce="multiply"), X, fed(5, 1), floats(4, 1), gradient=False
    ),
    "scatter-smaller-index": Case(
        lambda x, i, v: x.scatter_add(0, i, v), X, known([[0, 1], [2, 2]]), floats(3, 4), gradient=False
    ),
    "index-add": Case(lambda x, i, v: x.index_add(0, i, v, alpha=0.5), X, known([2, 0, 2]), floats(3, 5)),
    "index_add_": Case(written(lambda y, i, v: y.index_add_(1, i, v)), X, fed(5), floats(4, 4)),
    "index-copy": Case(lambda x, i, v: x.index_copy(0, i, v), X, known([2, 0]), floats(2, 5)),
    "index-fill": Case(lambda x, i: x.index_fill(1, i, 2.0), X, known([2, 0])),
    "slice-scatter": Case(lambda x, v: torch.slice_scatter(x, v, 1, 1, 4, 2), X, floats(4, 2)),
    "select-scatter": Case(lambda x, v: torch.select_scatter(x, v, 0, 2), X, floats(5)),
    "index-fill-tensor": Case(lambda x, i, v: x.index_fill(1, i, v), X, known([2, 0]), floats()),
}

LOGITS, LABELS = floats(4, 6), fed(6)
LOSSES = {
    "cross-entropy": Case(F.cross_entropy, LOGITS, LABELS),
    "cross-entropy-sum": Case(lambda x, y: F.cross_entropy(x, y, reduction="sum"), LOGITS, LABELS),
    "cross-entropy-none": Case(lambda x, y: F.cross_entropy(x, y, reduction="none"), LOGITS, LABELS),
    "cross-entropy-weight": Case(lambda x, y, w: F.cross_entropy(x, y, w.detach()), LOGITS, LABELS, positive(6)),
    "cross-entropy-ignored": Case(lambda x, y: F.cross_entropy(x, y, ignore_index=2), LOGITS, LABELS),
    "cross-entropy-smooth": Case(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.2), LOGITS, LABELS),
    "cross-entropy-images": Case(F.cross_entropy, floats(4, 6, 3), fed(6, 3)),
    "cross-entropy-soft": Case(lambda x, y: F.cross_entropy(x, y.softmax(1)), LOGITS, floats(4, 6, seed=5)),
    "cross-entropy-soft-smooth": Case(
        lambda x, y, w: F.cross_entropy(x, y.softmax(1).detach(), w.detach(), label_smoothing=0.1),
        LOGITS,
        floats(4, 6, seed=5),
        positive(6),
    ),
    "nll": Case(lambda x, y: F.nll_loss(x.log_softmax(1), y), LOGITS, LABELS),
    "nll-images": Case(lambda x, y: F.nll_loss(x.log_softmax(1), y), floats(4, 6, 3, 2), fed(6, 3, 2)),
    "mse": binary(F.mse_loss),
    "mse-sum": binary(lambda x, y: F.mse_loss(x, y, reduction="sum")),
    "mse-none": binary(lambda x, y: F.mse_loss(x, y, reduction="none")),
    "l1": binary(F.l1_loss),
    "smooth-l1": binary(lambda x, y: F.smooth_l1_loss(x, y, beta=0.5)),
    "huber": binary(lambda x, y: F.huber_loss(x, y, delta=0.5)),
    "bce": binary(lambda x, y: F.binary_cross_entropy(x, y.sigmoid()), floats(4, 5, low=0.1, high=0.9), Y),
    "bce-logits": binary(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid())),
    "bce-logits-weights": Case(
        lambda x, y, p: F.binary_cross_entropy_with_logits(
            x, y.sigmoid().detach(), pos_weight=p.detach(), weight=p.detach()
        ),
        X,
        Y,
        positive(5),
    ),
    "kl-div": binary(lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")),
    "kl-div-log": binary(lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum", log_target=True)),
    "cosine-similarity": binary(lambda x, y: F.cosine_similarity(x, y)),
}


def sizes(x):
    """Arithmetic on sizes, which is done at once."""
    b, n = x.shape
    return x.reshape(b * 2, -1, n // 2 if n % 2 == 0 else n)[: b - 1] * (x.numel() // n) + x.dim()


NUMBERS = {
    "sizes": unary(sizes, floats(4, 6)),
    "len": unary(lambda x: x * len(x)),
    "item-of-known": Case(lambda x, i: x * i.sum().item(), X, known([2, 3])),
}


def inPlace(name, *more, operand=X, **options):
    """`x.NAME_(*more)`; tensors among `more` are operands."""
    tensors = [each for each in more if isinstance(each, tuple)]

    def call(x, *values):
        values = list(values)
        y = x.clone()
        getattr(y, f"{name}_")(*[values.pop(0) if isinstance(each, tuple) else each for each in more])
        return y

    return Case(call, operand, *tensors, **options)


IN_PLACE = {
    name: inPlace(name)
    for name in "abs absolute acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor fix frac sgn sign sin sinh tan "
    "trunc round square negative sigmoid arccos arcsin arctan tril triu nan_to_num".split()
}
IN_PLACE |= {name: inPlace(name, operand=P) for name in "log log2 log10 log1p reciprocal rsqrt sqrt".split()}
IN_PLACE |= {name: inPlace(name, Y) for name in "multiply subtract".split()}
IN_PLACE |= {name: inPlace(name, P) for name in "divide true_divide remainder fmod".split()}
IN_PLACE |= {
    name: inPlace(name, Y, gradient=False)
    for name in "eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "floor_divide".split()
}
IN_PLACE |= {
    "acosh": Case(written(lambda y: y.add_(1).acosh_()), P, gradient=False),
    "arccosh": Case(written(lambda y: y.add_(1).arccosh_()), P, gradient=False),
    # PyTorch has no gradient for these in place.
    **{name: inPlace(name, gradient=False) for name in "arcsinh arctanh asinh atanh".split()},
    "logical_not": inPlace("logical_not", gradient=False),
    "pow": inPlace("pow", 2.0),
    "lerp": inPlace("lerp", Y, 0.3),
    "addcmul": inPlace("addcmul", Y, P),
    "addcdiv": inPlace("addcdiv", Y, P),
    "addmm": inPlace("addmm", floats(4, 3), floats(3, 5)),
    "baddbmm": inPlace("baddbmm", floats(2, 4, 3), floats(2, 3, 5), operand=floats(2, 4, 5)),
    "clip": inPlace("clip", -0.3, 0.3),
    "clamp_min": inPlace("clamp_min", 0.1),
    "clamp_max": inPlace("clamp_max", 0.1),
    "logit": inPlace("logit", operand=floats(4, 5, low=0.1, high=0.9)),
    "cumsum": inPlace("cumsum", 1),
    "index_copy": inPlace("index_copy", 0, known([2, 0]), floats(2, 5)),
    "index_fill": inPlace("index_fill", 1, known([2, 0]), 2.0),
    "scatter_add": inPlace("scatter_add", 1, fed(5, 3), floats(4, 3)),
    "scatter_reduce": inPlace("scatter_reduce", 1, fed(5, 3), floats(4, 3), "amax"),
    "celu": Case(written(lambda y: F.celu(y, 0.7, inplace=True)), X),
    "selu": Case(written(lambda y: F.selu(y, inplace=True)), X),
    "leaky_relu": Case(written(lambda y: F.leaky_relu(y, 0.2, inplace=True)), X),
    "threshold": Case(written(lambda y: F.threshold(y, 0.1, -2.0, inplace=True)), X),
    "hardswish": Case(written(lambda y: F.hardswish(y.mul_(4), inplace=True)), X),
    "hardsigmoid": Case(written(lambda y: F.hardsigmoid(y.mul_(4), inplace=True)), X),
    "mish": Case(written(lambda y: F.mish(y, inplace=True)), X),
    "bitwise": Case(
        lambda i: i.clone().bitwise_and_(13).bitwise_or_(2).bitwise_xor_(5).bitwise_not_(), fed(99, 3), gradient=False
    ),
    "dunder": Case(lambda i: i.clone().__iand__(13).__ior__(2).__ixor__(5), fed(99, 3), gradient=False),
}

FAMILIES = {
    "in-place": IN_PLACE,
    "arithmetic": ARITHMETIC,
    "functions": FUNCTIONS,
    "activations": ACTIVATIONS,
    "comparisons": COMPARISONS,
    "creation": CREATION,
    "conversions": CONVERSIONS,
    "views": VIEWS,
    "joins": JOINS,
    "products": PRODUCTS,
    "convolutions": CONVOLUTIONS,
    "pooling": POOLING,
    "resizes": RESIZES,
    "norms": NORMS,
    "stored": STORED,
    "attention": ATTENTION,
    "reductions": REDUCTIONS,
    "indexing": INDEXING,
    "scatters": SCATTERS,
    "losses": LOSSES,
    "numbers": NUMBERS,
}
