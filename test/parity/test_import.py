"""The importer against onnxruntime: every way to export a model means the same to both."""

import subprocess

import numpy
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import tools
from families import export_gpt2


def check(folder, path, batch, expected=None):
    """Evaluates the imported model on `batch` and compares with onnxruntime, or with the `expected` first output."""
    session = onnxruntime.InferenceSession(path)
    results = zip(session.get_outputs(), session.run(None, batch) if expected is None else [expected])
    compare(folder, path, [(i.name, batch[i.name]) for i in session.get_inputs()], [(o.name, value) for o, value in results])


def compare(folder, path, inputs, outputs):
    """Evaluates the imported model, whose inputs and outputs are given in order, each with its name."""
    data = folder / "test_data_set_0"
    data.mkdir()
    for kind, values in (("input", inputs), ("output", outputs)):
        for index, (name, value) in enumerate(values):
            tensor = numpy_helper.from_array(value, name)
            (data / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())
    done = subprocess.run([tools.bin() / "import-onnx", path, "--data", folder, "--tolerance", "2e-5"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# (attention, opset, dynamic dims, heads, layers, vocabulary, batch and length of the run)
@pytest.mark.parametrize("attention, opset, dynamic, heads, layers, vocab, run", [
    ("eager", 20, "", 4, 2, 100, (2, 16)),
    ("eager", 20, "batch length", 4, 2, 100, (5, 11)),
    ("sdpa", 18, "", 4, 1, 100, (2, 16)),
    ("sdpa", 20, "batch", 6, 3, 33, (3, 16)),
    ("sdpa", 20, "batch length", 4, 2, 100, (5, 11)),
    ("sdpa", 23, "batch", 4, 2, 100, (1, 16)),  # one Attention node
])
def test_gpt2_exports_mean_what_onnxruntime_computes(tmp_path, attention, opset, dynamic, heads,
                                                     layers, vocab, run):
    model = export_gpt2.build(layers, heads, 48, vocab, 32, attention).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.1 * torch.randn_like(tensor))
    dims = {i: torch.export.Dim(name) for i, name in enumerate(dynamic.split())}
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (), path, kwargs={"input_ids": torch.zeros(2, 16, dtype=torch.int64)},
                      input_names=["input_ids"], output_names=["logits"], opset_version=opset,
                      dynamic_shapes={"input_ids": dims} if dims else None,
                      dynamo=True, optimize=False, verbose=False)
    ids = numpy.random.default_rng(1).integers(0, vocab, run)
    check(tmp_path, path, {"input_ids": ids})


LAYERS = {
    "classifier": (nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 10),
                                 nn.LogSoftmax(-1)), (8, 16)),
    "three-dims": (nn.Sequential(nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 10, bias=False),
                                 nn.Softmax(-1)), (2, 3, 16)),
    "batch-norm": (nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Dropout(0.3)), (4, 16)),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_sequential_exports_mean_what_onnxruntime_computes(tmp_path, name, optimize):
    torch.manual_seed(1)
    model, shape = LAYERS[name]
    path = tmp_path / "model.onnx"
    torch.onnx.export(model.eval(), (torch.zeros(shape),), path, input_names=["x"], dynamo=True,
                      optimize=optimize, verbose=False)
    check(tmp_path, path, {"x": numpy.random.default_rng(1).normal(size=shape).astype(numpy.float32)})


def test_the_state_dict_has_exactly_the_names_and_aliases_of_the_parameters(tmp_path):
    model = export_gpt2.build(2, 4, 32, 64, 16)
    path = tmp_path / "model.onnx"
    export_gpt2.export(model, path, batch=2)
    text = subprocess.run([tools.bin() / "import-onnx", path], capture_output=True, text=True,
                          check=True, timeout=60).stdout
    names = set()
    for line in text.splitlines():
        if line.strip().startswith("graph.parameter"):
            names.add(line.split("@")[1].split(" :")[0].strip('"'))
            if "aliases = [" in line:
                names |= {name.strip(' "') for name in line.split("aliases = [")[1].split("]")[0].split(",")}
    assert names == set(model.state_dict())
