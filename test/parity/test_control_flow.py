"""Branches and loops whose course is known when a model is compiled, and a clear no to the others."""

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import tools
from test_import import check
from tools import tool

BATCH, BAG, SGD = 8, 5, 0.5


class Bags(nn.Module):
    """The exporter writes a loop over the bags, which takes the rows of one by its number."""

    def __init__(self, mode):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(20, 6, mode=mode), nn.Linear(6, 3)

    def forward(self, ids):
        return self.head(self.bag(ids))


class Weighted(nn.Module):
    """Bags of unequal sizes, one of them empty, with a weight for each word; the last goes to the end."""

    def __init__(self):
        super().__init__()
        self.table, self.weight = nn.Parameter(torch.randn(20, 6)), nn.Parameter(torch.randn(1, BAG))

    def forward(self, ids):
        weights = (self.weight * ids.ne(3)).view(-1)
        return F.embedding_bag(ids[0], self.table, torch.tensor([0, 2, 2]), mode="sum", per_sample_weights=weights)[None]


def export(model, ids, path, optimize, dynamic=False):
    torch.onnx.export(model, (ids,), path, input_names=["ids"], output_names=["y"], dynamo=True, optimize=optimize,
                      dynamic_shapes=({0: torch.export.Dim("batch")},) if dynamic else None, verbose=False)


def moved(model, loss):
    """The weights after a step of SGD."""
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=SGD).step()
    return dict(model.state_dict())


@pytest.mark.parametrize("mode, optimize, dynamic", [
    ("sum", False, True), ("mean", False, False), ("max", False, True), ("sum", True, False), ("mean", True, True),
    ("max", True, False)])
def test_bags_of_embeddings_train_on_two_ranks(mode, optimize, dynamic, tmp_path):
    torch.manual_seed(1)
    model, ids, labels = Bags(mode), torch.randint(20, (BATCH, BAG)), torch.randn(BATCH, 3)
    export(model, ids, tmp_path / "model.onnx", optimize, dynamic)
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=2", "--loss", "mse(y,t)",
         "--optimizer", f"sgd(lr={SGD})", *(["--dim", f"batch={BATCH // 2}"] if dynamic else []))
    size = BATCH // 2 if dynamic else BATCH
    tools.saveData(tmp_path / "data.npz", {"ids": ids[:size], "t": labels[:size]})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = F.mse_loss(model(ids[:size]), labels[:size])
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    for name, tensor in moved(model, loss).items():
        assert torch.allclose(run.tensors[name], tensor, rtol=1e-5, atol=1e-6), name


def test_bags_that_leave_out_an_index_are_refused_with_the_way_out(tmp_path):
    """The exporter goes through each index of a bag and asks whether it counts."""
    export(nn.Sequential(nn.EmbeddingBag(20, 6, mode="sum", padding_idx=0)), torch.ones(2, 3, dtype=torch.int64), tmp_path / "model.onnx", False)
    _, error = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert "EmbeddingBag with a padding_idx is exported so: take torch.nn.Embedding" in error


@pytest.mark.parametrize("optimize", [False, True])
def test_bags_of_unequal_sizes_are_taken_one_by_one(optimize, tmp_path):
    torch.manual_seed(2)
    model, ids = Weighted(), torch.randint(20, (1, BAG))
    export(model, ids, tmp_path / "model.onnx", optimize)
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "mse(y,t)", "--optimizer", f"sgd(lr={SGD})")
    target = torch.randn(1, 3, 6)
    tools.saveData(tmp_path / "data.npz", {"ids": ids, "t": target})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = F.mse_loss(model(ids), target)
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    for name, tensor in moved(model, loss).items():
        assert torch.allclose(run.tensors[name], tensor, rtol=1e-5, atol=1e-6), name


def value(name, shape, type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def scalar(name, number):
    return constant(name, np.int64(number) if not isinstance(number, bool) else np.bool_(number))


def graph(name, nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, name, inputs, outputs, list(initializers))


def save(path, nodes, inputs, outputs, initializers=(), opset=20):
    onnx.save(helper.make_model(graph("g", nodes, inputs, outputs, initializers), ir_version=9,
                                opset_imports=[helper.make_opsetid("", opset)]), path)


def body(nodes, carried=(), scanned=(), initializers=()):
    """Of a loop: turn and condition in; the condition, which must be computed, and the results out."""
    return graph("body", [helper.make_node("Identity", ["go"], ["go_on"]), *nodes],
                 [value("turn", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), *(value(i, None) for i, _ in carried)],
                 [value("go_on", [], TensorProto.BOOL), *(value(o, None) for _, o in carried),
                  *(value(o, None) for o in scanned)], initializers)


def test_a_loop_of_known_turns_carries_scans_and_sees_what_is_around_it(tmp_path):
    inner = helper.make_node("If", ["odd"], ["z"], name="choose", then_branch=graph("t", [
        helper.make_node("Mul", ["x", "two"], ["doubled"])], [], [value("doubled", None)]), else_branch=graph("e", [
            helper.make_node("Add", ["x", "a"], ["added"])], [], [value("added", None)]))
    nodes = [helper.make_node("Loop", ["turns", "", "x"], ["last", "all"], name="loop", body=body([
        helper.make_node("Mod", ["turn", "itwo"], ["rest"]), helper.make_node("Cast", ["rest"], ["odd"], to=TensorProto.BOOL),
        inner, helper.make_node("Add", ["z", "a"], ["b"]), helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0)],
        [("a", "b")], ["s"]))]
    save(tmp_path / "model.onnx", nodes, [value("x", [2, 3])], [value("last", [2, 3]), value("all", [4])],
         [scalar("turns", 4), scalar("itwo", 2), constant("two", np.float32(2))])
    check(tmp_path, tmp_path / "model.onnx", {"x": np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)})


def test_a_loop_ends_when_its_condition_does(tmp_path):
    less = [helper.make_node("Add", ["i", "one"], ["next"]), helper.make_node("Less", ["next", "three"], ["again"]),
            helper.make_node("Add", ["a", "x"], ["b"])]
    loop = graph("body", less, [value("turn", [], TensorProto.INT64), value("go", [], TensorProto.BOOL),
                                value("i", [], TensorProto.INT64), value("a", None)],
                 [value("again", [], TensorProto.BOOL), value("next", [], TensorProto.INT64), value("b", None)])
    save(tmp_path / "model.onnx", [helper.make_node("Loop", ["", "yes", "zero", "x"], ["", "y"], name="loop", body=loop)],
         [value("x", [2])], [value("y", [2])],
         [scalar("yes", True), scalar("zero", 0), scalar("one", 1), scalar("three", 3)])
    check(tmp_path, tmp_path / "model.onnx", {"x": np.float32([1, 2])}, np.float32([4, 8]))


ADD = helper.make_node("Add", ["a", "x"], ["b"])
RELU = graph("branch", [helper.make_node("Relu", ["x"], ["r"])], [], [value("r", None)])


def deep(levels):
    inner = RELU
    for level in range(levels):
        inner = graph("branch", [helper.make_node("If", ["yes"], [f"r{level}"], name=f"if{level}", then_branch=inner,
                                                  else_branch=RELU)], [], [value(f"r{level}", None)])
    return inner


def test_a_branch_that_no_turn_takes_costs_each_turn(tmp_path):
    """A hundred thousand turns past many names that none of them comes to end soon."""
    many = graph("many", [helper.make_node("Add", ["a", f"n{i}"], [f"n{i + 1}"]) for i in range(20_000)], [], [value("n20000", None)])
    node = helper.make_node("If", ["no"], ["b"], name="never", then_branch=many, else_branch=graph(
        "few", [helper.make_node("Relu", ["a"], ["r"])], [], [value("r", None)]))
    save(tmp_path / "model.onnx", [helper.make_node("Loop", ["many", "", "x"], ["y"], name="loop", body=body([node], [("a", "b")]))],
         [value("x", [2])], [value("y", [2])], [scalar("many", 100_000), scalar("no", False)])
    _, error = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert "and loops by their turns" in error


@pytest.mark.parametrize("node, says", [
    (helper.make_node("If", ["positive"], ["y"], then_branch=RELU, else_branch=RELU), "If: its condition depends on inputs or parameters"),
    (helper.make_node("Loop", ["count", "", "x"], ["y"], body=body([ADD], [("a", "b")])), "Loop: its number of turns depends on inputs"),
    (helper.make_node("Loop", ["", "positive", "x"], ["y"], body=body([ADD], [("a", "b")])), "Loop: its condition depends on inputs"),
    (helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body([ADD], [("a", "b")])), "and loops by their turns"),
    (helper.make_node("Loop", ["", "yes", "x"], ["y"], body=graph("body", [], [
        value("turn", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("a", None)], [
            value("go", [], TensorProto.BOOL), value("a", None)])), "and loops by their turns"),
    (helper.make_node("Loop", ["zero", "", "x"], ["", "y"], body=body([ADD], [("a", "b")], ["b"])), "Loop: it makes no turn, and its result `y` has no"),
    (helper.make_node("Loop", ["one"], ["y"], body=body([])), "Loop: it needs a number of turns, a condition and a body"),
    (helper.make_node("Loop", ["one", "", "x", "x"], ["y"], body=body([ADD], [("a", "b")])), "Loop: it needs a number of turns, a condition and a body"),
    (helper.make_node("Loop", ["one", "", "x"], ["y", "z", "w"], body=body([ADD], [("a", "b")], ["b"])), "Loop: it has 3 results, and its body gives 2"),
    (helper.make_node("Loop", ["one", "", "x"], ["y"], body=body([ADD], [("a", "b"), ("c", "b")])), "its graph takes 4 values, and gets 3"),
    (helper.make_node("Loop", ["one", "", "x"], ["y"], body=body([ADD], [("a", "c")])), "its graph does not compute its result `c`"),
    (helper.make_node("Loop", ["one", "", "x"], ["", "y"], body=body([ADD, helper.make_node("SequenceEmpty", [], ["e"])], [("a", "b")], ["e"])),
     "Loop: its result `y` is a sequence for each iteration"),
    (helper.make_node("If", ["yes"], ["y", "z"], then_branch=RELU, else_branch=RELU), "If: its branch has 1 results, and the node 2"),
    (helper.make_node("If", ["yes"], ["y"], then_branch=RELU), "If: it needs a condition and two branches"),
    (helper.make_node("If", ["yes"], ["y"], then_branch=deep(17), else_branch=RELU), "branches and loops stand more than 16 deep"),
    (helper.make_node("If", ["yes"], ["y"], else_branch=RELU, then_branch=graph("t", [helper.make_node("Mul", ["x", "w"], ["r"])], [], [
        value("r", None)], [constant("w", np.ones(2, np.float32))])), "its graph holds the tensor `w`, which would not be trained"),
    (helper.make_node("If", ["yes"], ["y"], else_branch=RELU, then_branch=graph("t", [helper.make_node("Unique", ["x"], ["r"])], [], [
        value("r", None)])), "Unique (opset 20) is not supported"),
])
def test_what_is_not_known_or_not_whole_is_refused(node, says, tmp_path):
    node.name = "node"
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "f"], ["positive"]),
             helper.make_node("Cast", ["s"], ["count"], to=TensorProto.INT64), node]
    save(tmp_path / "model.onnx", nodes, [value("x", [2])], [value("y", None)],
         [scalar("yes", True), scalar("zero", 0), scalar("one", 1), constant("f", np.float32(0))])
    _, error = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert says in error, error


@pytest.mark.parametrize("nodes, expected", [
    ([("SequenceEmpty", [], "s"), ("SequenceInsert", ["s", "x"], "t"), ("SequenceInsert", ["t", "d", "zero"], "u"),
      ("ConcatFromSequence", ["u"], "y")], [2, 4, 1, 2]),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceErase", ["s"], "t"), ("ConcatFromSequence", ["t"], "y")], [1, 2]),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceErase", ["s", "zero"], "t"), ("ConcatFromSequence", ["t"], "y")], [2, 4]),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceAt", ["s", "last"], "y")], [2, 4]),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceInsert", ["s", "x", "three"], "y")], "element 3 of a sequence of 2"),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceErase", ["s", "two"], "y")], "element 2 of a sequence of 2"),
    ([("SequenceConstruct", ["x", "d"], "s"), ("SequenceAt", ["s", "two"], "y")], "element 2 of a sequence of 2"),
    ([("SequenceEmpty", [], "s"), ("SequenceErase", ["s"], "y")], "no sequence with elements"),
    ([("SequenceInsert", ["x", "x"], "y")], "operand 0 is no sequence"),
    ([("SequenceEmpty", [], "s"), ("SequenceInsert", ["s", "s"], "y")], "operand 1 is no tensor"),
])
def test_sequences_are_put_together_at_import(nodes, expected, tmp_path):
    made = [helper.make_node(op, inputs, [output], name=f"{op} {output}", **({"axis": 0} if op == "ConcatFromSequence" else {}))
            for op, inputs, output in nodes]
    save(tmp_path / "model.onnx", [helper.make_node("Add", ["x", "x"], ["d"]), *made], [value("x", [2])], [value("y", None)],
         [scalar("zero", 0), scalar("last", -1), scalar("two", 2), scalar("three", 3)])
    if isinstance(expected, str):
        _, error = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
        assert expected in error
    else:
        onnx_model = onnx.load(tmp_path / "model.onnx")
        onnx_model.graph.output[0].CopyFrom(value("y", [len(expected)]))
        onnx.save(onnx_model, tmp_path / "model.onnx")
        check(tmp_path, tmp_path / "model.onnx", {"x": np.float32([1, 2])}, np.float32(expected))


def called(path, body, inputs=("x",), call_inputs=("x",), **attributes):
    """A model that calls one function with these attributes, whose own default of `way` is 0 and of `by` 3."""
    function = helper.make_function(
        "local", "f", list(inputs), ["y"], body, [helper.make_opsetid("", 20)],
        attribute_protos=[helper.make_attribute("way", 0), helper.make_attribute("by", [3.0])])
    model = helper.make_model(
        graph("g", [helper.make_node("f", list(call_inputs), ["y"], domain="local", name="call", **attributes)],
              [value("x", [2])], [value("y", [2])]),
        ir_version=9, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("local", 1)], functions=[function])
    onnx.checker.check_model(model)
    onnx.save(model, path)


def referring(op, output, attribute, name, type):
    """A node without operands whose attribute is the caller's."""
    node = helper.make_node(op, [], [output], name=op)
    node.attribute.append(onnx.AttributeProto(name=attribute, ref_attr_name=name, type=type))
    return node


@pytest.mark.parametrize("attributes, factor", [({}, 3), ({"by": [5.0]}, 5), ({"way": 1}, 1), ({"way": 1, "by": [5.0]}, 1)])
def test_branches_of_a_function_take_the_attributes_of_its_call(attributes, factor, tmp_path):
    product = graph("e", [referring("Constant", "c", "value_floats", "by", onnx.AttributeProto.FLOATS),
                          helper.make_node("Mul", ["x", "c"], ["r"])], [], [value("r", None)])
    same = graph("t", [helper.make_node("Identity", ["x"], ["r"])], [], [value("r", None)])
    called(tmp_path / "model.onnx", [
        referring("Constant", "way_", "value_int", "way", onnx.AttributeProto.INT),
        helper.make_node("Cast", ["way_"], ["taken"], to=TensorProto.BOOL),
        helper.make_node("If", ["taken"], ["y"], then_branch=same, else_branch=product)], **attributes)
    check(tmp_path, tmp_path / "model.onnx", {"x": np.float32([1, 2])}, np.float32([factor, 2 * factor]))


@pytest.mark.parametrize("given", [("x",), ("x", "")])
def test_an_operand_that_a_call_leaves_out_is_left_out_in_the_body(given, tmp_path):
    called(tmp_path / "model.onnx", [helper.make_node("Clip", ["x", "low"], ["y"])], ("x", "low"), given)
    check(tmp_path, tmp_path / "model.onnx", {"x": np.float32([1, 2])}, np.float32([1, 2]))


def test_a_result_that_failed_outside_of_a_branch_is_said_once(tmp_path):
    same = graph("t", [helper.make_node("Identity", ["x"], ["r"])], [], [value("r", None)])
    save(tmp_path / "model.onnx", [helper.make_node("Det", ["x"], ["d"], name="det"), helper.make_node(
        "If", ["yes"], ["y"], name="choose", then_branch=graph("e", [], [], [value("d", None)]), else_branch=same)],
         [value("x", [2, 2])], [value("y", [])], [scalar("yes", True)])
    _, error = tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert "Det (opset 20) is not supported" in error and "choose" not in error
