"""Inputs and outputs whose batch is not in dim 0: masks and numbers without one, recurrent states, time first."""

import numpy as np
import pytest
import torch

import tools
from test_bind import B, H, L, Masked, export


class Gram(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(H, H)

    def forward(self, x):
        h = self.linear(x)
        return (h.transpose(-1, -2) @ h).mean(0), h


@pytest.mark.parametrize("mesh", [(), ("--mesh", "data=2", "--microbatches", "2")], ids=["one", "data"])
def test_inputs_without_a_batch_train_as_in_pytorch(mesh, tmp_path):
    model, micro = Masked(), 2 if mesh else 1
    torch.manual_seed(1)
    mask, scale = torch.randn(L, L), torch.tensor(0.5)
    x, target = torch.randn(3 * B * micro, L, H), torch.randn(3 * B * micro, L, H)
    path = export(model, (mask, x[:B], scale), tmp_path / "model.pt2")
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", *mesh, "--loss", "mse(output,target)", "--optimizer", "sgd(lr=0.5)")
    assert "input 'mask' of [5,5] has no batch, as the others have one of 4: all samples take the same" in said
    assert "input 'scale' of [] has no batch" in said
    data = dict(mask=mask, scale=scale, x=x, target=target)
    np.savez(tmp_path / "data.npz", **{name: value.numpy() for name, value in data.items()})
    tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--steps", 3, "--order", "sequential", "--log", tmp_path / "log")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, line in enumerate(tools.stepsOf(tmp_path / "log")):
        rows = slice(step * B * micro, (step + 1) * B * micro)
        loss = torch.nn.functional.mse_loss(model(mask, x[rows], scale), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for wrong in (mask[None].repeat(3 * B * micro, 1, 1), mask[:4]):
        np.savez(tmp_path / "wrong.npz", **{**data, "mask": wrong})
        _, said = tools.tool("run", tmp_path / "plan", "--data", tmp_path / "wrong.npz", "--steps", 1, code=1)
        assert "but input 'mask' has no batch: all samples take the same [5,5], which the file has once" in said


@pytest.mark.parametrize("mesh", [(), ("--mesh", "data=2")], ids=["one", "data"])
def test_outputs_without_a_batch_are_those_of_one_batch(mesh, tmp_path):
    model, x = Gram(), torch.randn(B, L, H)
    path = export(model, (x,), tmp_path / "model.pt2")
    tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", *mesh)
    np.savez(tmp_path / "in.npz", x=x.numpy())
    run = ("run", tmp_path / "plan", "--outputs", tmp_path / "out.npz", "--inputs")
    tools.tool(*run, tmp_path / "in.npz")
    ours = np.load(tmp_path / "out.npz")
    for name, their in zip(ours.files, model(x)):
        assert ours[name].shape == their.shape
        assert np.abs(ours[name] - their.detach().numpy()).max() < 1e-5
    np.savez(tmp_path / "two.npz", x=np.concatenate([x, x]))
    _, said = tools.tool(*run, tmp_path / "two.npz", code=1)
    assert "has no batch, so that each batch of 4 samples makes another one, and there are 8 samples" in said


class Recurrent(torch.nn.Module):
    """A network of two layers that takes and gives its states, [layers, batch, width]."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cells = torch.nn.ModuleList(torch.nn.GRUCell(H, H) for _ in range(2))
        self.head = torch.nn.Linear(H, 3)

    def forward(self, x, state):
        states = []
        for cell, before in zip(self.cells, state):
            x = cell(x, before)
            states.append(x)
        return self.head(x), torch.stack(states)


def exported(model, inputs, path, kind):
    if kind == "onnx":
        torch.onnx.export(model, inputs, str(path.with_suffix(".onnx")), input_names=["x", "state"], output_names=["scores", "states"],
                          dynamo=True, optimize=False, verbose=False)
        return path.with_suffix(".onnx"), "scores"
    if kind == "pt":
        torch.jit.save(torch.jit.trace(model, inputs), str(path.with_suffix(".pt")))
        return path.with_suffix(".pt"), "output_0"
    return export(model, inputs, path), "output_0"


@pytest.mark.parametrize("kind", ["pt2", "onnx", "pt"])
def test_states_with_the_batch_in_dim_1_train_as_in_pytorch(kind, tmp_path):
    model, micro, steps = Recurrent(), 2, 3
    samples = steps * micro * B
    x, state, labels = torch.randn(samples, H), torch.randn(2, samples, H), torch.randint(3, (samples,))
    path, output = exported(model, (x[:B], state[:, :B]), tmp_path / "model.pt2", kind)
    inputs = ("--input", f"x=float32[{B},{H}]", "--input", f"state=float32[2,{B},{H}]") if kind == "pt" else ()
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", f"cross_entropy({output},labels)", "--optimizer", "sgd(lr=0.5)",
                         "--mesh", "data=2", "--microbatches", micro, *inputs)
    assert "input 'state' of [2,4,8] has the batch in dim 1: the data has an array of [2,SAMPLES,8]" in said
    data = dict(x=x, state=state, labels=labels)
    np.savez(tmp_path / "data.npz", **{name: value.numpy() for name, value in data.items()})
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        rows = slice(step * micro * B, (step + 1) * micro * B)
        loss = torch.nn.functional.cross_entropy(model(x[rows], state[:, rows])[0], labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours.tensors[name], value, rtol=2e-4, atol=2e-6)
    data["state"][1, 7, 3] = float("nan")
    np.savez(tmp_path / "data.npz", **{name: value.numpy() for name, value in data.items()})
    _, said = tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--steps", 3, "--order", "sequential", code=6)
    assert f"array 'state': value nan at element {(samples + 7) * H + 3} (sample 7)" in said


@pytest.mark.parametrize("options", [(), ("--mesh", "data=2"), ("--mesh", "data=2,tensor=2", "--shard", "*.weight_ih=[tensor,-]")],
                         ids=["one", "data", "data-tensor"])
def test_states_are_written_with_their_samples_in_dim_1(options, tmp_path):
    model = Recurrent()
    samples = 2 * B + 1  # the last batch is not full
    x, state = torch.randn(samples, H), torch.randn(2, samples, H)
    path = export(model, (x[:B], state[:, :B]), tmp_path / "model.pt2")
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", *options)
    assert "output 'output_1' of [2,4,8] has the batch in dim 1: it is written as [2,SAMPLES,8]" in said
    np.savez(tmp_path / "in.npz", x=x.numpy(), state=state.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    ours = np.load(tmp_path / "out.npz")
    for name, their in zip(("output_0", "output_1"), model(x, state)):
        np.testing.assert_allclose(ours[name], their.detach().numpy(), rtol=1e-5, atol=1e-6)
    for wrong, why in ((state.transpose(0, 1), "has shape [9,2,8], but input 'state' has the batch in dim 1: it takes an array of [2,SAMPLES,8]"),
                       (state[:, :B], "has 4 samples, but 'x' has 9")):
        np.savez(tmp_path / "wrong.npz", x=x.numpy(), state=wrong.numpy())
        _, said = tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "wrong.npz", "--outputs", tmp_path / "out.npz", code=1)
        assert f"array 'state' {why}" in said


class TimeFirst(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru = torch.nn.GRU(H, H)
        self.head = torch.nn.Linear(H, 3)

    def forward(self, x):
        return self.head(self.gru(x)[0])


def test_a_model_that_takes_time_first_is_warned_of(tmp_path):
    path = export(TimeFirst(), (torch.randn(L, B, H),), tmp_path / "model.pt2")
    compile = ("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    _, said = tools.tool(*compile)
    assert ("dim 0 of input 'x' of [5,4,8] is taken for the batch, but no output has a part for each of its 5, as outputs have for "
            "each of the 4 of its dim 1; where that is the batch, say so with --mesh data=1 --shard 'x=[-,data,-]'") in said
    _, said = tools.tool(*compile, "--mesh", "data=1", "--shard", "x=[-,data,-]")
    assert "is taken for the batch" not in said


@pytest.mark.parametrize("axis", ["", ",axis=2", ",axis=-1"])
def test_a_model_that_takes_time_first_trains_with_labels_that_do(axis, tmp_path):
    model, steps = TimeFirst(), 3
    x, labels = torch.randn(L, steps * B, H), torch.randint(3, (L, steps * B))
    path = export(model, (x[:, :B],), tmp_path / "model.pt2")
    compile = ("compile", path, "-o", tmp_path / "plan", "--optimizer", "sgd(lr=0.5)", "--mesh", "data=2", "--shard", "x=[-,data,-]")
    if not axis:
        _, said = tools.tool(*compile, "--loss", "cross_entropy(output,labels)", code=1)
        assert "may have its classes in any dim; say which: cross_entropy(output,labels,axis=1) as PyTorch's cross_entropy has it, axis=2" in said
        _, said = tools.tool(*compile, "--loss", "cross_entropy(output,labels,axis=1)", code=1)
        assert "output 'output' has its batch in dim 1, which cannot be the classes" in said
        return
    _, said = tools.tool(*compile, "--loss", f"cross_entropy(output,labels{axis})")
    assert "output 'output' of [5,4,3] has the batch in dim 1" in said
    np.savez(tmp_path / "data.npz", x=x.numpy(), labels=labels.numpy())
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        rows = slice(step * B, (step + 1) * B)
        loss = torch.nn.functional.cross_entropy(model(x[:, rows]).flatten(0, 1), labels[:, rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)


def test_an_output_with_the_batch_and_another_dim_in_one_is_taken_apart(tmp_path):
    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(H, 3)

        def forward(self, x):
            return self.head(x).flatten(0, 1), self.head(x).transpose(0, 1).flatten(0, 1)

    model, x = Flat(), torch.randn(2 * B, L, H)
    path = export(model, (x[:B],), tmp_path / "model.pt2")
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2")
    assert "output 'output_0' of [20,3] has the batch and another dim in one: it is taken as [4,5,3], and written as [SAMPLES,5,3]" in said
    assert "of [20,3] has the batch and another dim in one: it is taken as [5,4,3], and written as [5,SAMPLES,3]" in said
    np.savez(tmp_path / "in.npz", x=x.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    ours = np.load(tmp_path / "out.npz")
    scores = model.head(x).detach().numpy()
    for name, their in zip(ours.files, (scores, scores.swapaxes(0, 1))):
        np.testing.assert_allclose(ours[name], their, rtol=1e-5, atol=1e-6)


def test_an_input_that_may_have_its_batch_in_several_dims_asks_which(tmp_path):
    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.Linear(H, H)

        def forward(self, x, pairs):
            return self.cell(x) + pairs.sum((0, 2))

    path = export(Pairs(), (torch.randn(B, H), torch.randn(2, B, B, H)), tmp_path / "model.pt2")
    compile = ("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    _, said = tools.tool(*compile, code=1)
    assert ("input 'pairs' of [2,4,4,8] has another dim 0 than the others, which have a batch of 4, and several other dims of that size; "
            "say which is the batch, as in --mesh data=1 --shard 'pairs=[-,data,-,-]', or, if all samples take the same, "
            "--shard 'pairs=[-,-,-,-]'") in said
    _, said = tools.tool(*compile, "--mesh", "data=1", "--shard", "pairs=[-,data,-,-]")
    assert "input 'pairs' of [2,4,4,8] has the batch in dim 1: the data has an array of [2,SAMPLES,4,8]" in said
    _, said = tools.tool(*compile, "--shard", "pairs=[-,-,-,-]")
    assert "input 'pairs' of [2,4,4,8] has no batch" in said
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=3", "--shard", "pairs=[-,data,-,-]", code=1)
    assert "has a batch of 4, which the mesh axis data=3 does not divide" in said


def test_the_batch_is_what_the_outputs_follow(tmp_path):
    """Most inputs and outputs have the layers in dim 0, and none the same size twice."""
    class Stacked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.lstm = torch.nn.LSTM(H, H, num_layers=2, batch_first=True)
            self.head = torch.nn.Linear(H, 3)

        def forward(self, h, c, mask, x):
            y, (h, c) = self.lstm(x, (h, c))
            return self.head(torch.softmax(y @ y.transpose(-1, -2) + mask, -1) @ y), h, c

    model, steps = Stacked(), 3
    samples = steps * 2 * B
    h, c, mask, x = torch.randn(2, samples, H), torch.randn(2, samples, H), torch.randn(L, L), torch.randn(samples, L, H)
    labels = torch.randint(3, (samples, L))
    path = export(model, (h[:, :B], c[:, :B], mask, x[:B]), tmp_path / "model.pt2")
    described, _ = tools.tool("compile", path, "--describe")
    assert "cross_entropy(output_1,labels,axis=2)" in described
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(output_0,labels,axis=2)", "--optimizer", "sgd(lr=0.5)",
                         "--mesh", "data=2,pipe=2", "--microbatches", 2)
    assert "input 'h' of [2,4,8] has the batch in dim 1" in said and "input 'mask' of [5,5] has no batch" in said
    np.savez(tmp_path / "data.npz", **{name: value.numpy() for name, value in dict(h=h, c=c, mask=mask, x=x, labels=labels).items()})
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        rows = slice(step * 2 * B, (step + 1) * 2 * B)
        loss = torch.nn.functional.cross_entropy(model(h[:, rows], c[:, rows], mask, x[rows])[0].flatten(0, 1), labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)


def test_an_input_with_the_batch_and_another_dim_in_one_is_taken_apart(tmp_path):
    """Labels, as they are given to a loss of [batch * length] rows."""
    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.head = torch.nn.Linear(H, 3)

        def forward(self, x, labels):
            return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels)

    model, steps = Flat(), 3
    x, labels = torch.randn(steps * 2 * B, L, H), torch.randint(3, (steps * 2 * B, L))
    labels[0, :3] = -100
    path = export(model, (x[:B], labels[:B].flatten()), tmp_path / "model.pt2")
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "output(output)", "--optimizer", "sgd(lr=0.5)", "--mesh", "data=2",
                         "--microbatches", 2)
    assert ("input 'labels' of [20] has the batch and another dim in one: it is taken as [4,5], and the data has an array of [SAMPLES,5]; "
            "if all samples take the same, say --shard 'labels=[-]'") in said
    np.savez(tmp_path / "data.npz", x=x.numpy(), labels=labels.numpy())
    ours = tools.train(tmp_path / "plan", tmp_path / "data.npz", steps, tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        rows = slice(step * 2 * B, (step + 1) * 2 * B)
        loss = model(x[rows], labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert ours.losses[step] == pytest.approx(loss.item(), rel=1e-5)
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--shard", "labels=[-]")
    assert "input 'labels' of [20] has no batch" in said


# What the file leaves open, and under which name.

def exportedOpen(model, inputs, dims, path, kind, outputs):
    """Of `dims`, {input: {dim: name}}, the file leaves the sizes open. Returns the path and the names that they have there."""
    opened = {name: {d: torch.export.Dim(each) for d, each in of.items()} or None for name, of in dims.items()}
    if kind == "onnx":
        path = path.with_suffix(".onnx")
        torch.onnx.export(model, tuple(inputs), str(path), input_names=list(dims), output_names=outputs, dynamic_shapes=opened,
                          dynamo=True, optimize=False, verbose=False)
        return path, {name: name for of in dims.values() for name in of.values()}
    program = torch.export.export(model, tuple(each.contiguous() for each in inputs), dynamic_shapes=opened)
    torch.export.save(program, str(path))
    shapes = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
    return path, {name: str(shapes[key][d]) for key, of in dims.items() for d, name in of.items()}


@pytest.mark.parametrize("size", [3, L])
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_a_dim_that_the_file_leaves_open_is_the_batch_where_outputs_follow_it_alone(kind, size, tmp_path):
    """Time is the first dim, and may even have the batch's size."""
    model, x = TimeFirst(), torch.randn(L, 2 * size, H)
    path, names = exportedOpen(model, (x[:, :7],), {"x": {1: "batch"}}, tmp_path / "model.pt2", kind, ["output"])
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--dim", f"{names['batch']}={size}")
    assert f"input 'x' of [5,{size},8] has the batch in dim 1: the data has an array of [5,SAMPLES,8]" in said
    assert "is taken for the batch" not in said
    np.savez(tmp_path / "in.npz", x=x.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output"], model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class OpenMask(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(H, H)

    def forward(self, mask, x):
        return torch.softmax(self.linear(x) @ x.transpose(-1, -2) + mask, -1) @ x


@pytest.mark.parametrize("mesh", [(), ("--mesh", "data=2")], ids=["one", "data"])
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_a_mask_as_long_as_the_batch_is_large_has_none(kind, mesh, tmp_path):
    """The file has different names for the two, and fixes neither."""
    model, size = OpenMask(), 6
    mask, x = torch.randn(size, size), torch.randn(2 * size, size, H)
    path, names = exportedOpen(model, (mask[:L, :L], x[:7, :L]), {"mask": {0: "length", 1: "length"}, "x": {0: "batch", 1: "length"}},
                               tmp_path / "model.pt2", kind, ["output"])
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", *mesh, "--dim", f"{names['batch']}={size}",
                         "--dim", f"{names['length']}={size}")
    assert "input 'mask' of [6,6] has no batch" in said and "input 'x'" not in said
    np.savez(tmp_path / "in.npz", x=x.numpy(), mask=mask.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output"], model(mask, x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_a_dim_that_the_file_fixes_is_not_the_batch_that_it_leaves_open(kind, tmp_path):
    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.Linear(H, H)

        def forward(self, x, pairs, table):
            return self.cell(x) + pairs.sum((0, 2)) + table.sum(0)

    model, x, pairs, table = Pairs(), torch.randn(2 * B, H), torch.randn(2, 2 * B, B, H), torch.randn(B, H)
    path, names = exportedOpen(model, (x[:7], pairs[:, :7], table), {"x": {0: "batch"}, "pairs": {1: "batch"}, "table": {}},
                               tmp_path / "model.pt2", kind, ["output"])
    _, said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2", "--dim", f"{names['batch']}={B}")
    assert "input 'pairs' of [2,4,4,8] has the batch in dim 1" in said and "input 'table' of [4,8] has no batch" in said
    np.savez(tmp_path / "in.npz", x=x.numpy(), pairs=pairs.numpy(), table=table.numpy())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output"], model(x, pairs, table).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_names_of_dims_that_an_exporter_counts_do_not_tell_them_apart(tmp_path):
    """Each open dim of each input has its own name, as in files of tf2onnx."""
    import onnx
    from onnx import TensorProto, helper
    model, value = tmp_path / "model.onnx", helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "y"], ["z"])], "graph",
                              [value("x", TensorProto.FLOAT, ["unk__1", H]), value("y", TensorProto.FLOAT, ["unk__2", H])],
                              [value("z", TensorProto.FLOAT, ["unk__3", H])],
                              [onnx.numpy_helper.from_array(np.eye(H, dtype=np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), model)
    compile = ("compile", model, "-o", tmp_path / "plan", "--mode", "forward")
    _, said = tools.tool(*compile, "--dim", "unk__1=4", "--dim", "unk__2=4")
    assert "has no batch" not in said and "is taken for the batch" not in said
