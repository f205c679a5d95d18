"""A case of test_aten.py, and what its operands are.

A case is a function of tensors. Floats are parameters, so that gradients are compared too; integers and booleans are
given as `known` (buffers, whose elements the compiler looks at) or as `fed` (inputs, which it does not know).
"""

import torch

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
