"""Writes calls.txt: calls of each of PyTorch's operators that test/parity/aten_cases.py traces to, one for each set of
arguments and their types, with the names that the operator's schema has for them. To be run where cases were added:

    .venv/bin/python test/fuzz/calls.py
"""

import re
import sys
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "parity"))

from aten_cases import FAMILIES  # noqa: E402

LETTERS = {torch.float32: "f", torch.int64: "i", torch.bool: "b", torch.float64: "d", torch.float16: "h",
           torch.int32: "j", torch.bfloat16: "g", torch.uint8: "u", torch.int8: "c"}
MOST = 1024  # elements: what the targets' weights have


class NotWritten(Exception):
    """An argument that a line cannot have: a number that is computed, a tensor that is too large."""


def literal(value):
    if value is None or isinstance(value, (bool, str, int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, torch.device):
        return repr(str(value))
    raise NotWritten


def tensorOf(dtype, sizes):
    if dtype not in LETTERS or torch.Size(sizes).numel() > MOST:
        raise NotWritten
    return LETTERS[dtype] + "[" + ", ".join(map(str, sizes)) + "]"


def textOf(value):
    node = value.node()
    if node.kind() == "prim::Constant":
        constant = value.toIValue()
        return tensorOf(constant.dtype, constant.shape) if isinstance(constant, torch.Tensor) else literal(constant)
    if node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
        return "[" + ", ".join(map(textOf, node.inputs())) + "]"
    type = value.type()
    if not isinstance(type, torch._C.TensorType) or type.sizes() is None or type.dtype() is None:
        raise NotWritten
    return tensorOf(type.dtype(), type.sizes())


def isDefault(argument, text):
    try:
        return argument.has_default_value() and literal(argument.default_value) == text
    except NotWritten:
        return False


def lineOf(node):
    """The call, and what it has in common with others."""
    schema = torch._C.parse_schema(node.schema())
    given = [(argument, textOf(value)) for argument, value in zip(schema.arguments, node.inputs())]
    name = node.kind() + ("." + schema.overload_name if schema.overload_name else "")
    line = f"{name}({', '.join(f'{argument.name}={text}' for argument, text in given if not isDefault(argument, text))})"
    return line, name + re.sub(r"\[[^]]*\]", "[]", re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "0", line))


def trace(case):
    operands = tuple(value.clone() for _, value in case.operands)
    if operands:
        return torch.jit.trace(lambda *values: case.call(*values), operands, check_trace=False, strict=False).graph
    return torch.jit.trace(lambda x: (case.call(), x)[0], (torch.zeros(1),), check_trace=False).graph


def main():
    warnings.simplefilter("ignore")
    shortest = {}
    for cases in FAMILIES.values():
        for case in cases.values():
            for node in trace(case).nodes():
                if not node.kind().startswith("aten::"):
                    continue
                try:
                    line, kind = lineOf(node)
                except NotWritten:
                    continue
                if len(line) < len(shortest.get(kind, line + " ")):
                    shortest[kind] = line
    (HERE / "calls.txt").write_text("".join(line + "\n" for line in sorted(set(shortest.values()))))


if __name__ == "__main__":
    main()
