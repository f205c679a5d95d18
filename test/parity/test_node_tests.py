"""ONNX's own node tests on the cpu target: compiled kernels, the real runtime.

Many tests are one model, in which each is a function of its own with its own opset.
"""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tools

ROOT = Path("/usr/share/libonnx-testdata/data/node")
GROUPS = 4
# Operands whose values must be known when the model is compiled.
KNOWN = {"OneHot": {2}, "ConstantOfShape": {0}, "Range": {0}, "NonZero": {0}, "Resize": {1, 2, 3}, "Upsample": {1}, "Compress": {1}}
# Indices and labels that need not be known.
DATA = {"ScatterND": {1}, "ScatterElements": {1}, "SoftmaxCrossEntropyLoss": {1}, "NegativeLogLikelihoodLoss": {1}}


def readTensor(path):
    tensor = TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


class Merged:
    """Node tests as one model with one sample: all inputs and outputs have a dim of 1 in front."""

    def __init__(self):
        self.nodes, self.constants, self.functions = [], [], []
        self.inputs, self.outputs, self.arrays, self.expected = [], [], {}, {}

    def add(self, name):
        model = onnx.load(ROOT / name / "model.onnx")
        values = [readTensor(p) for p in self.files(name, "input")]
        for index, value in enumerate(model.graph.input):
            full = f"{name}.{value.name}"
            if self.isArgument(model, index, values[index]):
                self.inputs.append(helper.make_tensor_value_info(
                    full + ".batch", value.type.tensor_type.elem_type, (1, *values[index].shape)))
                self.arrays[full + ".batch"] = values[index][None]
                self.reshape(full + ".batch", full, values[index].shape)
            else:
                self.nodes.append(helper.make_node("Constant", [], [full], value=numpy_helper.from_array(values[index])))
        for node in model.graph.node:
            node.name = name
        self.functions.append(helper.make_function(
            "tests", name, [i.name for i in model.graph.input], [o.name for o in model.graph.output],
            list(model.graph.node), list(model.opset_import)))
        self.nodes.append(helper.make_node(
            name, [f"{name}.{i.name}" for i in model.graph.input], [f"{name}.{o.name}" for o in model.graph.output],
            domain="tests", name=name))
        for value, path in zip(model.graph.output, self.files(name, "output")):
            full, expected = f"{name}.{value.name}", readTensor(path)
            self.reshape(full, full + ".batch", (1, *expected.shape))
            self.outputs.append(helper.make_tensor_value_info(
                full + ".batch", value.type.tensor_type.elem_type, (1, *expected.shape)))
            self.expected[full + ".batch"] = expected[None]

    @staticmethod
    def files(name, kind):
        folder = ROOT / name / "test_data_set_0"
        return [folder / f"{kind}_{i}.pb" for i in range(len(list(folder.glob(f"{kind}_*.pb"))))]

    @staticmethod
    def isArgument(model, index, value):
        """Shapes, axes and the like are known when a model is compiled; data is not."""
        node = model.graph.node[0]
        name = model.graph.input[index].name
        place = list(node.input).index(name) if name in node.input else index
        isData = (place == 0 or place in DATA.get(node.op_type, ())
                  or not np.issubdtype(value.dtype, np.integer))
        return isData and value.ndim > 0 and place not in KNOWN.get(node.op_type, ())

    def reshape(self, source, target, shape):
        self.constants.append(numpy_helper.from_array(np.array(shape, np.int64), target + ".shape"))
        self.nodes.append(helper.make_node("Reshape", [source, target + ".shape"], [target], allowzero=1))

    def save(self, path):
        graph = helper.make_graph(self.nodes, "tests", self.inputs, self.outputs, self.constants)
        onnx.save(helper.make_model(graph, functions=self.functions, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("tests", 1)]), path)


def isEmpty(name):
    return any(readTensor(path).size == 0 for kind in ("input", "output") for path in Merged.files(name, kind))


@pytest.fixture(scope="module")
def names():
    if not ROOT.exists():
        pytest.skip(f"install libonnx-testdata for {ROOT}")
    listed = subprocess.run([tools.bin() / "import-onnx", "--node-tests", ROOT], capture_output=True,
                            text=True, check=True, timeout=60).stdout
    return [line[:-1] for line in listed.splitlines() if line.endswith("\t")]


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_node_test_of_an_op_in_the_table_on_the_cpu(group, names, tmp_path):
    merged = Merged()
    for name in names[group::GROUPS]:
        if not isEmpty(name):
            merged.add(name)
    merged.save(tmp_path / "tests.onnx")
    np.savez(tmp_path / "in.npz", **merged.arrays)
    tools.tool("compile", tmp_path / "tests.onnx", "-o", tmp_path / "plan", "--mode", "forward")
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    out, wrong = np.load(tmp_path / "out.npz"), []
    for name, expected in merged.expected.items():
        ours = out[name]
        if ours.shape != expected.shape or not np.allclose(
                ours.astype(np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-6, equal_nan=True):
            wrong.append(name)
    assert wrong == []


def test_padding_is_right_on_a_cpu_of_short_vectors(names, tmp_path):
    """Rows that end in a vector of nothing but padding: LLVM 22.1.8 read these for AVX2 as if they were data."""
    merged = Merged()
    merged.add("test_constant_pad")
    merged.save(tmp_path / "tests.onnx")
    np.savez(tmp_path / "in.npz", **merged.arrays)
    tools.tool("compile", tmp_path / "tests.onnx", "-o", tmp_path / "plan", "--mode", "forward", "--cpu", "x86-64-v3")
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    (name, expected), = merged.expected.items()
    assert np.array_equal(np.load(tmp_path / "out.npz")[name], expected)


def test_tensors_without_elements_are_refused_by_name(names, tmp_path):
    empty = [name for name in names if isEmpty(name)]
    assert len(empty) >= 5
    for name in ("test_tril_zero", "test_constantofshape_int_shape_zero"):
        merged = Merged()
        merged.add(name)
        merged.save(tmp_path / "empty.onnx")
        _, error = tools.tool("compile", tmp_path / "empty.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
        assert name in error and "without elements" in error
