"""Cases of operators that make each element from those of their operands, or from nothing."""

import torch
import torch.nn.functional as F

from aten_case import IMAGE, P, X, Y, Case, binary, fed, floats, unary, written

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


def noGrad(x):
    with torch.no_grad():
        return x.exp()


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
