"""TorchScript files of the parity tests' models, and how they are compiled."""

import warnings

import torch

import tools
from models import BATCH, MODELS


def inputsOf(name):
    """The first batch, by the names of `forward`."""
    batch = {key: tensor[:BATCH] for key, tensor in MODELS[name].data(1).items() if key not in ("labels", "target")}
    return {"input": batch["x"]} if name.startswith("mlp") else batch


def trace(model, inputs, path):
    """`inputs`: by name; those of the file are called so, and outputs by the keys of a dict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, example_kwarg_inputs=inputs, strict=False, check_trace=False).save(str(path))
    return path


def script(model, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model).save(str(path))
    return path


def outputOf(name):
    """A model that returns a tensor has no name for it."""
    return "output" if name.startswith(("mlp", "resnet")) else "logits"


def data(case, path):
    """The case's data under the file's names."""
    tensors = case.spec.data(case.microbatches)
    if case.model.startswith("mlp"):
        tensors["input"] = tensors.pop("x")
    tools.saveData(path, tensors)
    return path


def arguments(case):
    return ["--mesh", case.mesh, "--threads", 1, *(word for s in case.shard for word in ("--shard", s))]


def compile(case, file, plan, optimizer, *more):
    loss = case.spec.lossOption.replace("logits", outputOf(case.model))
    tools.tool("compile", file, "-o", plan, *arguments(case), "--loss", loss, "--optimizer", optimizer,
               "--microbatches", case.microbatches, "--zero-threshold", 1, *more)
    return plan


def state(case, run):
    """The saved weights without the buffers that PyTorch does not save: a TorchScript file does not say which."""
    known = case.spec.fresh().state_dict().keys()
    return {name: tensor for name, tensor in run.tensors.items() if name in known}
