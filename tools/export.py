#!/usr/bin/env python3
"""Exports a torch module so that Polyrank can train it: all parameters under their own names.

    tools/export.py MODULE:FACTORY --format pt2 [-o model.pt2] [--batch fixed] [--decompose]

MODULE is a Python file or the name of a module, FACTORY a function in it that takes nothing and returns the model and
its example inputs: a tuple of tensors, or a dict of them by the names of forward's arguments. The model is exported in
the mode in which FACTORY returns it: after model.train() its dropouts and batch norms are on.

    def tiny():
        return torch.nn.Linear(4, 2).train(), (torch.zeros(8, 4),)

Unless `--batch fixed` is given, the first dim of all inputs is left open and has one size, which is chosen when the
model is compiled. (A TorchScript trace keeps the sizes that it was made with; polyrank-compile --input gives others.)

`--decompose` writes the model with PyTorch's core operators (run_decompositions), of which some stand for many others: for
a model of which polyrank-compile says so.
"""

import argparse
import importlib
import importlib.util
import logging
import sys
import warnings
from pathlib import Path

import torch

ENDINGS = {"onnx": ".onnx", "pt2": ".pt2", "torchscript": ".pt"}


def fail(message):
    sys.exit(f"error: {message}")


def load(name):
    """The module of that name, or in that file."""
    path = Path(name)
    if path.suffix != ".py" and not path.is_file():
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name.split(".")[0]:
                raise
            fail(f"there is neither a file nor a module '{name}'")
    if not path.is_file():
        fail(f"there is no file '{name}'")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def make(target):
    """The model and its inputs, by position and by name."""
    name, _, factory = target.rpartition(":")
    if not name or not factory:
        fail(f"'{target}' is not MODULE:FACTORY, such as model.py:tiny")
    module = load(name)
    if not callable(getattr(module, factory, None)):
        names = [each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")]
        fail(f"'{name}' has no function '{factory}'; it has {', '.join(names) or 'none'}")
    made = getattr(module, factory)()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)
            and isinstance(made[1], (tuple, list, dict))):
        fail(f"'{factory}' must return a torch.nn.Module and its example inputs, a tuple of tensors or a dict of them")
    model, inputs = made
    values = inputs.values() if isinstance(inputs, dict) else inputs
    if not all(isinstance(value, torch.Tensor) for value in values):
        fail(f"the example inputs that '{factory}' returns are not all tensors")
    return (model, (), dict(inputs)) if isinstance(inputs, dict) else (model, tuple(inputs), {})


def openBatch(args, kwargs):
    """dynamic_shapes of torch.export: dim 0 of all inputs that have dims."""
    batch = torch.export.Dim("batch", min=1)

    def of(tensor):
        return {0: batch} if tensor.dim() else None

    return {name: of(value) for name, value in kwargs.items()} if kwargs else tuple(of(value) for value in args)


def exportOnnx(model, args, kwargs, isOpen, path, decomposes):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.onnx.export(model, args, str(path), kwargs=kwargs, dynamo=True, optimize=False, verbose=False,
                      dynamic_shapes=openBatch(args, kwargs) if isOpen else None)


def exportProgram(model, args, kwargs, isOpen, path, decomposes):
    program = torch.export.export(model, args, kwargs, dynamic_shapes=openBatch(args, kwargs) if isOpen else None)
    torch.export.save(program.run_decompositions() if decomposes else program, path)


def exportTrace(model, args, kwargs, isOpen, path, decomposes):
    traced = (torch.jit.trace(model, example_kwarg_inputs=kwargs, strict=False, check_trace=False) if kwargs
              else torch.jit.trace(model, args, strict=False, check_trace=False))
    traced.save(str(path))


EXPORTS = {"onnx": exportOnnx, "pt2": exportProgram, "torchscript": exportTrace}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="MODULE:FACTORY")
    parser.add_argument("--format", choices=EXPORTS, required=True)
    parser.add_argument("-o", "--output", type=Path, help="by default FACTORY with the format's ending")
    parser.add_argument("--batch", choices=("open", "fixed"), default="open",
                        help="whether dim 0 of all inputs has a size that is chosen later")
    parser.add_argument("--decompose", action="store_true", help="write PyTorch's core operators (with --format pt2)")
    options = parser.parse_args()
    if options.decompose and options.format != "pt2":
        fail(f"--decompose is of --format pt2; {options.format} files "
             + ("have core operators always" if options.format == "onnx" else "are not decomposed"))
    path = options.output or Path(options.target.rpartition(":")[2] + ENDINGS[options.format])
    model, args, kwargs = make(options.target)
    isOpen = options.batch == "open"
    if isOpen and len({tensor.shape[0] for tensor in [*args, *kwargs.values()] if tensor.dim()}) > 1:
        fail("the inputs differ in their first dim, which is no batch then; give --batch fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            EXPORTS[options.format](model, args, kwargs, isOpen, path, options.decompose)
        except Exception as error:  # of many kinds; the message is PyTorch's
            others = " or ".join(f"--format {name}" for name in EXPORTS if name != options.format)
            advice = f"; --batch fixed may help, or {others}" if isOpen else f"; {others} may help"
            fail(f"PyTorch cannot export the model as {options.format}: {str(error).strip().splitlines()[0]}{advice}")
    parameters = list(model.parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    print(f"{path}: {type(model).__name__} in {'training' if model.training else 'evaluation'} mode, "
          f"{trained} elements of parameters to train" + (f", {frozen} frozen" if frozen else ""))
    if isOpen and options.format != "torchscript":
        print("the batch is open: polyrank-compile says the name of its dim, which --dim gives a size")
    print(f"next: polyrank-compile {path} --describe")


if __name__ == "__main__":
    main()
