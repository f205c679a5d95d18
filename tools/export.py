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
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from polyrank._export import ENDINGS, differInBatch, firstLine, inputsOf, write  # noqa: E402
from polyrank._tools import Error  # noqa: E402


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
    try:
        return made[0], *inputsOf(made[1])
    except Error as error:
        fail(f"what '{factory}' returns: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="MODULE:FACTORY")
    parser.add_argument("--format", choices=ENDINGS, required=True)
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
    if isOpen and differInBatch(args, kwargs):
        fail("the inputs differ in their first dim, which is no batch then; give --batch fixed")
    try:
        write(model, args, kwargs, options.format, path, isOpen, options.decompose)
    except Exception as error:  # of many kinds; the message is PyTorch's
        others = " or ".join(f"--format {name}" for name in ENDINGS if name != options.format)
        advice = f"; --batch fixed may help, or {others}" if isOpen else f"; {others} may help"
        fail(f"PyTorch cannot export the model as {options.format}: {firstLine(error)}{advice}")
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
