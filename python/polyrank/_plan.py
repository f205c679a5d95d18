"""Compiles a model to a plan, which knows its ranks, memory and time."""

import json
import os
import sys
import tempfile
from pathlib import Path

from . import _export
from ._tools import Error, call


class Plan:
    """A plan file: what all ranks do in a step.

    `path` is the file, `ranks` the number of processes, `memory` the bytes that a rank needs for values (of the ranks
    that need most), `seconds` the time of a step as planned by the compiler, and `report` all that `polyrank-inspect
    --json` says, a dict (docs/reports.md). `messages` is what the compiler said: warnings and notes.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.report = json.loads(call("inspect", self.path, json=True)[0])
        if self.report["report"] != "plan":
            raise Error(f"'{self.path}' is not a plan, but a {self.report['report']}")
        self.messages = ""
        self._folder = None  # of files that live as long as the plan

    @property
    def ranks(self):
        return self.report["ranks"]

    @property
    def memory(self):
        return self.report["memory_per_rank"]["total"]

    @property
    def seconds(self):
        return self.report["seconds_per_step"]

    def __fspath__(self):
        return os.fspath(self.path)

    def __repr__(self):
        mesh = f" ({self.report['mesh']})" if self.report["mesh"] else ""
        return (f"<polyrank plan '{self.path}': {self.ranks} rank{'' if self.ranks == 1 else 's'}{mesh}, "
                f"{bytesText(self.memory)} each, {self.seconds * 1e3:.3g} ms a step as planned>")


def bytesText(bytes):
    """As the tools write it: 1.3 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if bytes < 1024:
            break
        bytes /= 1024
    else:
        unit = "TiB"
    return f"{bytes} B" if unit == "B" else f"{bytes:.{1 if bytes < 100 else 0}f} {unit}"


def compile(model, output=None, *, example=None, **options):
    """Compiles a model file, or a torch module, to a plan.

    `model` is the path of an ONNX, .pt2 or TorchScript file; or a module, which is exported with the inputs `example`,
    of which the first dim is one microbatch over all data ranks. The plan is written to `output`; without it, to a
    folder that lives as long as the plan that is returned. A plan reads its first weights from the model's file: keep
    them together. (The file of a module stands beside the plan.) All other arguments are options of polyrank-compile,
    such as mesh="data=2,tensor=2", shard={"*.fc.weight": "[-,tensor]"}, loss="cross_entropy(logits,labels)".
    """
    folder = None
    if output is None:
        folder = tempfile.TemporaryDirectory(prefix="polyrank-")
        output = Path(folder.name) / "model.plan"
    output = Path(output)
    if not isinstance(model, (str, os.PathLike)):
        if example is None:
            raise Error(f"a module ({type(model).__name__}) is exported with example inputs: give example=")
        model = _export.export(model, example, output.with_suffix(".pt2"), batch="fixed")
    elif example is not None:
        raise Error(f"example= is for a module, and '{os.fspath(model)}' is a file: its sizes are given by dim= or input=")
    _, messages = call("compile", model, output=output, **options)
    sys.stderr.write(messages)
    plan = Plan(output)
    plan.messages, plan._folder = messages, folder
    return plan
