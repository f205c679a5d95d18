"""Cases of views, what is joined, what is written in place, and sizes."""

import torch
import torch.nn.functional as F
from torch import nn

from aten_case import IMAGE, P, X, Y, Case, binary, fed, floats, known, unary, written


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
