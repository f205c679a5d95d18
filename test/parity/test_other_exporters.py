"""Weights as exporters other than PyTorch's write them: as Constant nodes, and under any name."""

import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import tools
from tools import tool

BATCH, STEPS = 8, 2


def net():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5))


def export(folder, rename=lambda name: name, areConstants=False, producer="tf2onnx"):
    """MatMul and Add of weights under names from `rename`; nothing says what they are."""
    state = {rename(name): value.t() if value.ndim == 2 else value for name, value in net().state_dict().items()}
    names = list(state)
    tensors = [numpy_helper.from_array(value.contiguous().numpy(), name) for name, value in state.items()]
    nodes = [helper.make_node("MatMul", ["x", names[0]], ["a"]), helper.make_node("Add", ["a", names[1]], ["b"]),
             helper.make_node("Tanh", ["b"], ["c"]), helper.make_node("MatMul", ["c", names[2]], ["d"]),
             helper.make_node("Add", ["d", names[3]], ["logits"])]
    if areConstants:
        nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors] + nodes
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [BATCH, 8])],
                              [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [BATCH, 5])],
                              [] if areConstants else tensors)
    onnx.save(helper.make_model(graph, producer_name=producer, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]),
              folder / "model.onnx")
    return names


def compiled(folder, *more, code=0):
    return tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "cross_entropy(logits,labels)",
                "--optimizer", "sgd(lr=0.1)", *more, code=code)[1]


NAMES = {
    "MXNet": lambda name: "fc" + name.replace(".", "_"),
    "tf2onnx": lambda name: f"StatefulPartitionedCall/model/{name.replace('.', '/')}/ReadVariableOp:0",
    "numbers": lambda name: str(10 + 2 * int(name[0]) + name.endswith("bias")),
}


@pytest.mark.parametrize("areConstants", [False, True], ids=["initializers", "constants"])
@pytest.mark.parametrize("name", NAMES)
def test_all_weights_train_under_their_names(tmp_path, name, areConstants):
    names = export(tmp_path, NAMES[name], areConstants)
    said = compiled(tmp_path)
    assert "does not say which of its tensors are parameters" in said
    model, x, labels = net(), torch.randn(BATCH * STEPS, 8), torch.randint(5, (BATCH * STEPS,))
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    update, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        loss = nn.functional.cross_entropy(model(x[part]), labels[part])
        update.zero_grad()
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)
    assert sorted(run.tensors) == sorted(names)


def test_a_file_of_which_nearly_nothing_would_train_names_the_rest(tmp_path):
    export(tmp_path, lambda name: name if name == "2.bias" else "onnx::MatMul_" + name, producer="pytorch")
    said = compiled(tmp_path, code=1)
    assert "of what the exporter computed, 224 elements in 3 tensors are constants" in said
    assert "Only 5 elements would be trained. Name what is a parameter with --train-only PATTERN" in said
    assert "1 parameter of 4 (5 of 229 elements) frozen" in compiled(tmp_path, "--train-only", "onnx::*")
    data = {"x": torch.randn(BATCH, 8), "labels": torch.randint(5, (BATCH,))}
    tools.saveData(tmp_path / "data.npz", data)
    tensors = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run").tensors
    before = net().state_dict()
    assert torch.equal(tensors["2.bias"], before["2.bias"])
    assert not torch.equal(tensors["onnx::MatMul_0.weight"].t(), before["0.weight"])


@pytest.mark.parametrize("size", [-1, 0])
def test_a_batch_of_no_size_is_open(tmp_path, size):
    export(tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = size
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    onnx.save(model, tmp_path / "model.onnx")
    forward = ("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward")
    tool(*forward, "--input", "x=float32[16,8]")
    assert "input `x` has no size for dim 0; give it with --input x=float32[SIZE," in tool(*forward, code=1)[1]
