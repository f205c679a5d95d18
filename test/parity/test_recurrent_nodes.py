"""ONNX's LSTM, GRU, RNN and Scan against onnxruntime: directions, lengths, activations and what is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from test_import import check
from test_operators import Node, f32, floats, i32, i64, imported

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 2


def layer(op, directions=1, biased=True, lengths=None, state=False, peepholes=False, known=(), opset=14, **attributes):
    """A node with all results. Its operands have the order of ONNX: X, W, R, B, lengths, state, cell's state, P."""
    rows = GATES[op] * HIDDEN
    operands = [floats(STEPS, BATCH, WIDTH), floats(directions, rows, WIDTH), floats(directions, rows, HIDDEN),
                floats(directions, 2 * rows) if biased else None, lengths,
                floats(directions, BATCH, HIDDEN) if state else None]
    if op == "LSTM":
        operands += [floats(directions, BATCH, HIDDEN) / 2 if state else None,
                     floats(directions, 3 * HIDDEN) if peepholes else None]
    while operands[-1] is None:
        operands.pop()
    return Node(op, opset, *operands, known=known, outputs=3 if op == "LSTM" else 2, hidden_size=HIDDEN, **attributes)


LENGTHS = i32(2, 4, 1)
BOTH = dict(directions=2, direction="bidirectional")
NODES = {
    **{f"{op}, {direction}": layer(op, 1 + (direction == "bidirectional"), direction=direction)
       for op in GATES for direction in ("forward", "reverse", "bidirectional")},
    **{f"{op}, {direction}, lengths": layer(op, 1 + (direction == "bidirectional"), lengths=LENGTHS, state=True,
                                            direction=direction)
       for op in GATES for direction in ("forward", "reverse", "bidirectional")},
    **{f"{op}, known lengths": layer(op, lengths=LENGTHS, known=(4,), **BOTH) for op in GATES},
    **{f"{op}, known lengths of all steps": layer(op, lengths=i32(4, 4, 4), known=(4,)) for op in GATES},
    **{f"{op}, states, no biases": layer(op, biased=False, state=True, **BOTH) for op in GATES},
    **{f"{op}, clipped": layer(op, state=True, clip=0.3) for op in GATES},
    **{f"{op}, opset 7": layer(op, opset=7) for op in GATES},
    "LSTM, peepholes": layer("LSTM", state=True, peepholes=True, **BOTH),
    "LSTM, coupled gates": layer("LSTM", state=True, input_forget=1),
    "GRU, linear before reset": layer("GRU", state=True, linear_before_reset=1, **BOTH),
    "GRU, linear before reset, lengths": layer("GRU", lengths=LENGTHS, linear_before_reset=1, **BOTH),
    "RNN, relu": layer("RNN", state=True, activations=["Relu"]),
    "RNN, one of each": layer("RNN", activations=["Relu", "Tanh"], **BOTH),
    "LSTM, numbers by function": layer("LSTM", activations=["HardSigmoid", "LeakyRelu", "ScaledTanh"],
                                       activation_alpha=[0.3, 0.1, 1.5], activation_beta=[0.4, 0.5]),
    "LSTM, other activations": layer("LSTM", activations=["Sigmoid", "Softsign", "Elu"], activation_alpha=[0.5]),
    "GRU, other activations": layer("GRU", activations=["Affine", "Tanh"], activation_alpha=[0.5], activation_beta=[0.25]),
    "RNN, softplus": layer("RNN", activations=["Softplus"]),
    "RNN, thresholds": layer("RNN", activations=["ThresholdedRelu"], activation_alpha=[0.5]),
}


@pytest.mark.parametrize("name", NODES)
def test_a_layer_means_what_onnxruntime_computes(tmp_path, name):
    values = NODES[name].save(tmp_path / "model.onnx")
    check(tmp_path, tmp_path / "model.onnx", values)


REFUSED = {
    "other direction": (layer("LSTM", direction="sideways"), "`sideways` is none of forward, reverse and bidirectional"),
    "one direction too few": (layer("GRU", direction="bidirectional"), "its W of [1, 6, 5] has not 3 dims, the first of 2"),
    "other layout": (layer("LSTM", layout=2), "its layout 2 is neither 0 nor 1"),
    "other activation": (layer("RNN", activations=["Gelu"]), "its activation `Gelu` is none of ONNX's"),
    "activations of one direction": (layer("RNN", activations=["Tanh"], **BOTH), "1 activations for 2 directions of 1"),
    "a number is missing": (layer("RNN", activations=["Affine"], activation_alpha=[2.0]),
                            "`Affine` has no number in activation_alpha or activation_beta"),
    "negative clip": (layer("RNN", clip=-1.0), "its clip is negative"),
    "hidden size": (Node("RNN", 14, floats(2, 1, 3), floats(1, 4, 3), floats(1, 4, 4), hidden_size=5),
                    "its hidden_size 5, and R of [1, 4, 4]"),
    "no blocks": (Node("LSTM", 14, floats(2, 1, 3), floats(1, 6, 3), floats(1, 6, 4), hidden_size=4), "6 rows of a weight for 4 gates"),
    "input's weight": (Node("RNN", 14, floats(2, 1, 3), floats(1, 4, 2), floats(1, 4, 4), hidden_size=4),
                       "its input's weight of [4, 2] is not of [4, 3]"),
    "state's weight": (Node("LSTM", 14, floats(2, 1, 3), floats(1, 8, 3), floats(1, 8, 3), hidden_size=3),
                       "its state's weight of [8, 3] is not of [8, 2]"),
    "biases": (Node("RNN", 14, floats(2, 1, 3), floats(1, 4, 3), floats(1, 4, 4), floats(1, 6), hidden_size=4),
               "its input's bias of [3] is not of [4]"),
    "first state": (Node("RNN", 14, floats(2, 1, 3), floats(1, 4, 3), floats(1, 4, 4), None, None, floats(1, 2, 4), hidden_size=4),
                    "its first state of [1, 2, 4] is not of [1, 1, 4]"),
    "known lengths above": (layer("GRU", lengths=i32(2, 5, 1), known=(4,)), "its sequence_lens have 5 for sequences of 4 steps"),
    "known lengths below": (layer("GRU", lengths=i32(2, -1, 1), known=(4,)), "its sequence_lens have -1 for sequences of 4 steps"),
    "lengths of others": (layer("GRU", lengths=i32(2, 4)), "its sequence_lens of [2] are not one integer for each of 3 sequences"),
    "no step": (Node("RNN", 14, floats(0, 1, 2), floats(1, 2, 2), floats(1, 2, 2), known=(0,), hidden_size=2),
                "0 steps, and it needs at least one"),
}


def saved(node, path):
    """Without ONNX's inference of shapes, which would refuse it before."""
    infer = onnx.shape_inference.infer_shapes
    onnx.shape_inference.infer_shapes = lambda model: model
    try:
        return node.save(path)
    finally:
        onnx.shape_inference.infer_shapes = infer


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_layer_is_refused(tmp_path, name):
    node, message = REFUSED[name]
    saved(node, tmp_path / "model.onnx")
    assert message in imported(tmp_path / "model.onnx", code=1)


def scan(states, sequences, nodes, results, opset=18, **attributes):
    """A Scan whose body has the inputs s0, .. and x0, .., and these nodes; all of its operands are inputs."""
    operands = {f"s{i}": s for i, s in enumerate(states)} | {f"x{i}": x for i, x in enumerate(sequences)}
    names = ["initial_" + name for name in operands]
    body = helper.make_graph(nodes, "body", [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in operands],
                             [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results])
    outputs = [f"o{i}" for i in range(len(results))]
    node = helper.make_node("Scan", names, outputs, name="scan", body=body, num_scan_inputs=len(sequences), **attributes)
    values = dict(zip(names, operands.values()))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()]
    graph = helper.make_graph([node], "graph", inputs, [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]), values


ADD = [helper.make_node("Add", ["s0", "x0"], ["sum"]), helper.make_node("Mul", ["sum", "x0"], ["product"])]
TWO = [helper.make_node("Mul", ["x0", "x1"], ["product"])]
SCANS = {
    "sums": scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"]),
    "along another axis": scan([f32([0, 0, 0])], [floats(3, 4)], ADD, ["sum", "product"], scan_input_axes=[-1], scan_output_axes=[1]),
    "from the end": scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], scan_input_directions=[1]),
    "to the front": scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], scan_output_directions=[1], opset=11),
    "two sequences": scan([], [floats(4, 2), floats(2, 4)], TWO, ["product"], scan_input_axes=[0, 1],
                          scan_input_directions=[0, 1], opset=9),
    "all from the end": scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], scan_input_directions=[1],
                             scan_output_directions=[1]),
    "turns that differ": scan([f32([0, 0])], [floats(4, 2)], ADD + [helper.make_node("Dropout", ["product"], ["kept"])],
                              ["sum", "kept"]),
}
# Whose turns are alike, and go one way.
LOOPS = ["sums", "along another axis", "all from the end"]


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_means_what_onnxruntime_computes(tmp_path, name):
    model, values = SCANS[name]
    onnx.save(model, tmp_path / "model.onnx")
    check(tmp_path, tmp_path / "model.onnx", values)
    lines = imported(tmp_path / "model.onnx").splitlines()
    assert sum("graph.scan " in line for line in lines) == (name in LOOPS)


REFUSED_SCANS = {
    "unequal sequences": (scan([], [floats(4, 2), floats(3, 2)], TWO, ["product"]), "its sequence 1 has 3 steps, and the one before it 4"),
    "no such axis": (scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], scan_input_axes=[2]),
                     "its sequence 0 of [4, 2] has no such axis as scan_input_axes says"),
    "no such axis of a result": (scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], scan_output_axes=[2]),
                                 "its result `o1` of [2] for each iteration has no such axis as scan_output_axes says"),
    "opset 8": (scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum", "product"], opset=8), "a Scan of opset 8, whose sequences may end early"),
    "no sequence": (scan([f32([0, 0])], [], ADD[:0], ["s0"]), "at least one sequence among its 1 operands"),
    "a state that grows": (scan([f32([[0, 0]])], [floats(4, 2, 2)], [helper.make_node("Concat", ["s0", "x0"], ["more"], axis=0)],
                                ["more", "more"]), "its result `o1` is [3, 2] in one turn and [5, 2] in another"),
    "more results than the body has": (scan([f32([0, 0])], [floats(4, 2)], ADD, ["sum"]), None),
}


@pytest.mark.parametrize("name", REFUSED_SCANS)
def test_what_is_no_such_scan_is_refused(tmp_path, name):
    (model, _), message = REFUSED_SCANS[name]
    if message is None:
        model.graph.node[0].output.append("o9")
        message = "its body gives 1 results, and it has 1 states and 2 results"
    onnx.save(model, tmp_path / "model.onnx")
    assert message in imported(tmp_path / "model.onnx", code=1)


def test_all_steps_are_one_loop_and_share_one_product(tmp_path):
    Node("RNN", 14, floats(8, 1, 3), floats(1, 4, 3), floats(1, 4, 4), hidden_size=4).save(tmp_path / "model.onnx")
    lines = imported(tmp_path / "model.onnx").splitlines()
    assert sum("graph.matmul" in line for line in lines) == 1 + 1
    assert sum("graph.scan 8 of" in line for line in lines) == 1
