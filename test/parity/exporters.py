"""Every way in which PyTorch writes a model to a file: inputs have the names of forward's arguments, the output is `output`."""

import functools
import warnings

import torch

import torchscript


def quiet(function, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **more)


def dynamo(optimize):
    def export(model, inputs, path):
        path = path.with_suffix(".onnx")
        quiet(torch.onnx.export, model, (), path, kwargs=inputs, input_names=list(inputs), output_names=["output"],
              dynamo=True, optimize=optimize, external_data=False, verbose=False)
        return path
    return export


def old(folding):
    """By TorchScript, in the mode that the model is in."""
    def export(model, inputs, path):
        path = path.with_suffix(".onnx")
        quiet(torch.onnx.export, model, tuple(inputs.values()), path, input_names=list(inputs), output_names=["output"],
              dynamo=False, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=folding)
        return path
    return export


def program(model, inputs, path):
    path = path.with_suffix(".pt2")
    quiet(lambda: torch.export.save(torch.export.export(model, (), inputs), path))
    return path


def scripted(model, inputs, path):
    return torchscript.script(model, path.with_suffix(".pt"))


def traced(model, inputs, path):
    return torchscript.trace(model, inputs, path.with_suffix(".pt"))


# The first of each kind of reader, then those that may write the same graph.
FORMATS = {"pt2": program, "trace": traced, "script": scripted,
           "onnx": dynamo(False), "onnx-optimized": dynamo(True), "onnx-old": old(False), "onnx-old-folded": old(True)}


def inputOptions(inputs, name):
    """A script does not say the shapes of its inputs."""
    return [word for key, t in inputs.items() if name == "script"
            for word in ("--input", f"{key}={'float32' if t.is_floating_point() else 'int64'}{list(t.shape)}")]


def rememberOperators():
    """Lets torch.onnx.export make its table of operators once for each opset. It reads the sources of 500 functions, which took
    two thirds of the time of a small model. Each export gets a copy, to which it may add."""
    export = torch.onnx.export

    @functools.wraps(export)
    def remembering(*arguments, **more):
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        if not hasattr(ONNXRegistry, "made"):
            make, ONNXRegistry.made = ONNXRegistry.from_torchlib, {}

            def copied(**which):
                key = tuple(which.items())
                whole = ONNXRegistry.made[key] = ONNXRegistry.made.get(key) or make(**which)
                copy = ONNXRegistry()
                copy._opset_version, copy.functions = whole.opset_version, {name: list(all) for name, all in whole.functions.items()}
                return copy

            ONNXRegistry.from_torchlib = staticmethod(copied)
        return export(*arguments, **more)

    torch.onnx.export = remembering
