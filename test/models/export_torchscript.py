"""Saves two small models as TorchScript.

    python test/models/export_torchscript.py traced OUT.pt
    python test/models/export_torchscript.py scripted OUT.pt

`traced` is the classifier of export_mlp.py; its input is `input` float32 [8, 16]. `scripted` has what only
scripts have: branches, loops, lists, a method and a function, a default, an interface, a buffer and a frozen
parameter. Its input is `x` float32 [.., 4].
"""

import argparse
from typing import List, Optional

import torch

import export_mlp


@torch.jit.interface
class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Scale(torch.nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor
        self.register_buffer("shift", torch.full((4,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + self.shift


def halves(x: torch.Tensor, count: int) -> List[torch.Tensor]:
    parts: List[torch.Tensor] = []
    for i in range(count):
        if i % 2 == 1:
            continue
        parts.append(x[:, i:])
    return parts


class Scripted(torch.nn.Module):
    chosen: Layer

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.chosen = Scale(2.0)
        self.gain = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]), requires_grad=False)
        self.count = 3

    def depth(self, limit: Optional[int]) -> int:
        if limit is None:
            return self.count
        return min(limit, self.count)

    def forward(self, x: torch.Tensor, limit: Optional[int] = None):
        if x.dim() == 1:
            return x * self.gain
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        i = 0
        while i < self.depth(limit):
            x = self.chosen.forward(x)
            i += 1
        if self.training:
            x = torch.nn.functional.dropout(x, 0.5, True)
        parts = halves(x, 3)
        total = x * self.gain
        for part in parts:
            total[:, :part.size(1)] += part
        return total


def build(kind):
    torch.manual_seed(0)
    if kind == "traced":
        return torch.jit.trace(export_mlp.build(), torch.zeros(8, 16))
    return torch.jit.script(Scripted().eval())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["traced", "scripted"])
    parser.add_argument("out")
    args = parser.parse_args()
    build(args.kind).save(args.out)


if __name__ == "__main__":
    main()
