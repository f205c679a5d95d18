"""Exports a model with ops that the compiler does not know, for the message that lists them.

    python test/models/export_unsupported.py OUT.onnx
"""

import sys

import onnx
import torch
from torch import nn


class Volume(nn.Module):
    """The determinant of a matrix that each step gives."""

    def __init__(self):
        super().__init__()
        self.edges = nn.Linear(8, 4)

    def forward(self, x):
        return torch.linalg.det(self.edges(x).unflatten(-1, (2, 2)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(8, 8, batch_first=True)
        self.first, self.second = Volume(), Volume()

    def forward(self, x):
        x, _ = self.memory(x)
        return self.first(x) + self.second(x)


torch.manual_seed(0)
torch.onnx.export(Model(), (torch.zeros(3, 2, 8),), sys.argv[1], input_names=["x"], output_names=["y"],
                  dynamo=True, optimize=False, external_data=False, verbose=False)
# Without the lines of source files, which name folders of the machine.
model = onnx.load(sys.argv[1])
for nodes in [model.graph.node, *(function.node for function in model.functions)]:
    for node in nodes:
        kept = [entry for entry in node.metadata_props if "stack_trace" not in entry.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
onnx.save(model, sys.argv[1])
