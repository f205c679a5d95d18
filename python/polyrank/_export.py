"""Exports a torch module: all parameters under their own names, and the batch open or as in the example."""

import logging
import os
import warnings
from pathlib import Path

from ._tools import Error

ENDINGS = {"onnx": ".onnx", "pt2": ".pt2", "torchscript": ".pt"}


def export(module, example, path, *, batch="open", decompose=False):
    """Writes `module` so that Polyrank can train it. Returns the path.

    `example` are inputs: a tensor, a tuple of tensors, or a dict of them by the names of forward's arguments. The ending
    of `path` chooses the format: .pt2 (torch.export), .onnx, or .pt (TorchScript). The model is exported in its mode:
    after model.train() its dropouts and batch norms are on. Unless `batch` is "fixed", the first dim of all inputs is
    left open and has one size, which `compile` is given (a TorchScript trace keeps the sizes of the example).
    `decompose` writes a .pt2 file with PyTorch's core operators, for a model of which the compiler says so.
    """
    path = Path(path)
    formats = [name for name, ending in ENDINGS.items() if ending == path.suffix]
    if not formats:
        raise Error(f"'{path}' ends with '{path.suffix}', which is no format: use {', '.join(ENDINGS.values())}")
    if batch not in ("open", "fixed"):
        raise Error(f"batch is 'open' or 'fixed', not {batch!r}")
    if decompose and formats[0] != "pt2":
        raise Error(f"decompose is for .pt2 files, not for '{path}'")
    args, kwargs = inputsOf(example)
    isOpen = batch == "open"
    if isOpen and differInBatch(args, kwargs):
        raise Error("the inputs differ in their first dim, which is no batch then; give batch='fixed'")
    try:
        write(module, args, kwargs, formats[0], path, isOpen, decompose)
    except Exception as error:  # of many kinds; the message is PyTorch's
        others = " or ".join(ending for ending in ENDINGS.values() if ending != path.suffix)
        advice = f"; batch='fixed' may help, or a path that ends with {others}" if isOpen else f"; {others} may help"
        raise Error(f"PyTorch cannot export the model as {formats[0]}: {firstLine(error)}{advice}") from error
    return path


def firstLine(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def inputsOf(example):
    """The inputs by position and by name."""
    import torch

    if isinstance(example, torch.Tensor):
        example = (example,)
    if not isinstance(example, (tuple, list, dict)):
        raise Error(f"the example is a {type(example).__name__}, not a tensor, a tuple of tensors or a dict of them")
    values = example.values() if isinstance(example, dict) else example
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise Error(f"the example inputs are not all tensors: one is a {type(value).__name__}")
    return ((), dict(example)) if isinstance(example, dict) else (tuple(example), {})


def differInBatch(args, kwargs):
    return len({tensor.shape[0] for tensor in [*args, *kwargs.values()] if tensor.dim()}) > 1


def openBatch(args, kwargs):
    """dynamic_shapes of torch.export: dim 0 of all inputs that have dims."""
    import torch

    batch = torch.export.Dim("batch", min=1)

    def of(tensor):
        return {0: batch} if tensor.dim() else None

    return {name: of(value) for name, value in kwargs.items()} if kwargs else tuple(of(value) for value in args)


def write(module, args, kwargs, format, path, isOpen, decompose):
    """Writes the file. What PyTorch refuses is its own exception."""
    import torch

    shapes = openBatch(args, kwargs) if isOpen else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if format == "onnx":
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            torch.onnx.export(module, args, os.fspath(path), kwargs=kwargs, dynamo=True, optimize=False, verbose=False,
                              dynamic_shapes=shapes)
        elif format == "pt2":
            program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
            torch.export.save(program.run_decompositions() if decompose else program, path)
        else:
            example = {"example_kwarg_inputs": kwargs} if kwargs else {"example_inputs": args}
            torch.jit.trace(module, **example, strict=False, check_trace=False).save(os.fspath(path))
