"""Shapes that depend on values: the number is the file's or the user's, and a batch with another one is no result."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional

import tools
from reference import GRADIENT_RATE

IMAGE, TOKENS = 98, 20


class Reader(nn.Module):
    """Tokens, some of which are replaced by features of images; what is read is either all, or these alone."""

    def __init__(self, picks, asserts=True):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.image, self.head = nn.Embedding(99, 8), nn.Linear(6, 8), nn.Linear(8, 3)
        self.picks, self.asserts = picks, asserts

    def forward(self, ids, pixels):
        x, features = self.embed(ids), self.image(pixels)
        mask = ids == IMAGE
        if self.asserts:
            torch._check_tensor_all(mask.sum() * x.shape[-1] == features.numel())
        if not self.picks:
            return self.head(x.masked_scatter(mask[..., None], features))
        picked = x[mask]
        if self.asserts:
            torch._check(picked.shape[0] == TOKENS)
            picked = picked + features.flatten(0, 1)
        loss = self.head(picked).square().mean()
        return loss if self.asserts else loss + x.sum((1, 2))


def draw():
    """Four rows with as many image tokens together as there are features, of which some rows have more than others."""
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(IMAGE, (4, 12), generator=random)
    for row, count in enumerate((5, 7, 2, 6)):
        ids[row, row : row + count] = IMAGE
    return {"ids": ids, "pixels": torch.randn(4, 5, 6, generator=random)}


def save(model, path, decomposes=False):
    program = torch.export.export(model, (), draw(), strict=False)
    torch.export.save(program.run_decompositions() if decomposes else program, path)
    return path


@pytest.mark.parametrize("mesh", ["data=2", "tensor=2"])
@pytest.mark.parametrize("picks, decomposes", [(False, False), (False, True), (True, False)])
def test_image_features_train_as_in_pytorch(tmp_path, picks, decomposes, mesh):
    model, inputs = Reader(picks), draw()
    labels = torch.arange(48).reshape(4, 12) % 3
    split = ("--shard", "image.weight=[tensor,-]") if mesh == "tensor=2" else ()
    loss = "output(output)" if picks else "cross_entropy(output,labels)"
    tools.tool("compile", save(model, tmp_path / "model.pt2", decomposes), "-o", tmp_path / "plan", "--loss", loss,
               "--optimizer", f"sgd(lr={GRADIENT_RATE})", "--mesh", mesh, *split)
    tools.saveData(tmp_path / "data.npz", inputs | ({} if picks else {"labels": labels}))
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    output = model(**inputs)
    loss = output if picks else functional.cross_entropy(output.flatten(0, 1), labels.flatten())
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    for key, parameter in model.named_parameters():
        ours = (parameter.detach() - run.tensors[key]) / GRADIENT_RATE
        assert (ours - parameter.grad).norm() <= 1e-4 * parameter.grad.norm(), key


def test_the_user_says_a_number_that_the_model_does_not_assert(tmp_path):
    path = save(Reader(True, asserts=False), tmp_path / "model.pt2")
    forward = ("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    said = " ".join(tools.tool(*forward, code=1)[1].split())
    assert "depends on the values of inputs or parameters" in said and "give it with --dim u0=N" in said
    tools.tool(*forward, "--dim", f"u0={TOKENS}")
    tools.saveData(tmp_path / "in.npz", draw())
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    theirs = Reader(True, asserts=False)(**draw()).detach().numpy()
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output"], theirs, rtol=1e-5)


def test_a_number_that_the_model_forbids_is_refused(tmp_path):
    class Bounded(nn.Module):
        def forward(self, x):
            picked = x[x > 0]
            torch._check(picked.shape[0] >= 2)
            return picked.sum() + x

    torch.export.save(torch.export.export(Bounded(), (torch.randn(4, 3),)), tmp_path / "model.pt2")
    said = tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mode", "forward", "--dim", "u0=1", code=1)[1]
    assert "--dim u0=1: the model asserts that it is at least 2" in " ".join(said.split())


@pytest.mark.parametrize("picks", [False, True])
def test_a_batch_with_another_number_ends_the_run(tmp_path, picks):
    tools.tool("compile", save(Reader(picks), tmp_path / "model.pt2"), "-o", tmp_path / "plan", "--loss",
               "output(output)" if picks else "cross_entropy(output,labels)")
    inputs = draw()
    inputs["ids"][0, 8] = IMAGE
    tools.saveData(tmp_path / "data.npz", inputs | ({} if picks else {"labels": torch.zeros(4, 12, dtype=torch.long)}))
    tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--steps", 1, code=6)


def exportOnnx(path, **options):
    torch.onnx.export(Reader(False, asserts=False), (), path, kwargs=draw(), verbose=False, external_data=False, **options)
    return path


@pytest.mark.parametrize("mesh", ["data=1", "data=2", "tensor=2"])
@pytest.mark.parametrize("options", [dict(dynamo=True, optimize=False), dict(dynamo=True, optimize=True), dict(dynamo=False)],
                         ids=["dynamo", "optimized", "traced"])
def test_image_features_of_an_onnx_file_train_as_in_pytorch(tmp_path, options, mesh):
    """The exporters write masked_scatter as ScatterND at the places that NonZero finds."""
    model, inputs = Reader(False, asserts=False), draw()
    labels = torch.arange(48).reshape(4, 12) % 3
    path = exportOnnx(tmp_path / "model.onnx", input_names=["ids", "pixels"], output_names=["output"], **options)
    split = ("--shard", "image.weight=[tensor,-]") if mesh == "tensor=2" else ()
    tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(output,labels)", "--optimizer",
               f"sgd(lr={GRADIENT_RATE})", "--mesh", mesh, *split)
    tools.saveData(tmp_path / "data.npz", inputs | {"labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = functional.cross_entropy(model(**inputs).flatten(0, 1), labels.flatten())
    loss.backward()
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    for key, parameter in model.named_parameters():
        ours = (parameter.detach() - run.tensors[key]) / GRADIENT_RATE
        assert (ours - parameter.grad).norm() <= 1e-4 * parameter.grad.norm(), key


def nodeOf(graph, kind):
    return next(node for node in graph.node if node.op_type == kind)


def usesPlaces(graph):
    graph.output.append(onnx.helper.make_tensor_value_info(nodeOf(graph, "NonZero").output[0], onnx.TensorProto.INT64, [3, None]))


def beginsLater(graph):
    cut = nodeOf(graph, "Slice").input
    graph.node.insert(0, onnx.helper.make_node("Constant", [], ["one"], value_ints=[1]))
    cut[1] = "one"


def countsOthers(graph):
    count = next(node for node in graph.node if node.output[0] == nodeOf(graph, "Slice").input[2])
    shape = next(node for node in graph.node if node.output[0] == count.input[0])
    shape.input[0] = nodeOf(graph, "Slice").input[0]


@pytest.mark.parametrize("change", [usesPlaces, beginsLater, countsOthers], ids=lambda change: change.__name__)
def test_places_that_something_else_uses_are_refused(tmp_path, change):
    path = exportOnnx(tmp_path / "model.onnx", dynamo=True, optimize=False)
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)
    said = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", code=1)[1]
    assert "NonZero: its operand" in " ".join(said.split())


def test_a_batch_of_an_onnx_file_with_more_places_ends_the_run(tmp_path):
    path = exportOnnx(tmp_path / "model.onnx", dynamo=True, optimize=False, output_names=["output"])
    tools.tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(output,labels)")
    inputs = draw()
    inputs["ids"][0, 8] = IMAGE
    tools.saveData(tmp_path / "data.npz", inputs | {"labels": torch.zeros(4, 12, dtype=torch.long)})
    tools.tool("run", tmp_path / "plan", "--data", tmp_path / "data.npz", "--steps", 1, code=6)
