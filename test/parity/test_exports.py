"""Every way in which PyTorch and others write a model: old exporter, opsets, element types, encodings, outputs."""

import subprocess
import warnings

import numpy as np
import onnx
import onnx.version_converter
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.onnx import TrainingMode

import tools
from test_import import check
from tools import tool

BATCH = 4


class Encoder(nn.Module):
    """An encoder as torch.nn has it: token and position embeddings, padding mask, dropout."""

    def __init__(self, vocab=50, width=24, length=10, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, ids, mask):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        return self.head(self.layers(x, src_key_padding_mask=mask == 0)[:, 0])


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Hardswish(), nn.InstanceNorm2d(8, affine=True),
            nn.PReLU(8), nn.Conv2d(8, 8, 3, padding="same", groups=8), nn.BatchNorm2d(8), nn.Mish(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(8 * 36, 5), nn.LogSoftmax(-1))

    def forward(self, x):
        return self.layers(x)


class Grouped(nn.Module):
    """RMS norm and grouped-query attention as torch.nn.functional has them."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(40, 16), nn.RMSNorm(16, eps=1e-6)
        self.q, self.kv = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

    def forward(self, ids):
        x = self.norm(self.embed(ids))
        heads = lambda y, count: y.view(*y.shape[:2], count, 4).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        y = nn.functional.scaled_dot_product_attention(heads(self.q(x), 4), heads(k, 2), heads(v, 2),
                                                       is_causal=True, enable_gqa=True)
        return x + y.transpose(1, 2).flatten(2)


def draw(name):
    random = torch.Generator().manual_seed(1)
    if name == "norms":
        return {"x": torch.randn(BATCH, 3, 12, 12, generator=random)}
    ids = torch.randint(40, (BATCH, 10), generator=random)
    mask = (torch.arange(10) < torch.tensor([[10], [7], [5], [9]])).long()
    return {"ids": ids, "mask": mask} if name == "encoder" else {"ids": ids}


def build(name):
    torch.manual_seed(0)
    return {"encoder": Encoder, "norms": Norms, "grouped": Grouped}[name]()


def export(model, inputs, path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs.values()), str(path), input_names=list(inputs), output_names=["logits"],
                          **({"verbose": False} if options.get("dynamo") else {}), **options)
    return path


@pytest.mark.parametrize("name, opset, exporter", [
    ("encoder", 14, "old"), ("encoder", 20, "old"), ("encoder", 18, "new"), ("encoder", 22, "new"),
    ("norms", 13, "old"), ("norms", 17, "folded"), ("norms", 21, "new"), ("norms", 23, "new"),
    ("grouped", 18, "new"), ("grouped", 21, "converted"), ("grouped", 23, "new"),
])
def test_every_opset_means_what_onnxruntime_computes(name, opset, exporter, tmp_path):
    model, inputs = build(name).eval(), draw(name)
    options = dict(dynamo=False, do_constant_folding=exporter == "folded") if exporter in ("old", "folded") \
        else dict(dynamo=True, optimize=False)
    path = export(model, inputs, tmp_path / "model.onnx", opset_version=18 if exporter == "converted" else opset, **options)
    if exporter == "converted":
        onnx.save(onnx.version_converter.convert_version(onnx.load(path), opset), path)
    assert onnx.load(path).opset_import[0].version == opset
    check(tmp_path, path, {n: t.numpy() for n, t in inputs.items()})


def step(model, inputs, labels):
    """PyTorch's loss and update of one SGD step in fp64."""
    model = model.double()
    loss = nn.functional.cross_entropy(model(*(t.double() if t.is_floating_point() else t for t in inputs.values())), labels)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return loss.item(), model.state_dict()


@pytest.mark.parametrize("name, options", [("encoder", ("--dropout", "off")), ("norms", ())])
def test_old_exports_in_training_mode_train(name, options, tmp_path):
    model, inputs = build(name).train(), draw(name)
    path = export(model, inputs, tmp_path / "model.onnx", dynamo=False, training=TrainingMode.TRAINING,
                  do_constant_folding=False)
    labels = torch.tensor([1, 0, 4, 2])
    tool("compile", path, "-o", tmp_path / "plan", "--mesh", "data=2", "--loss", "cross_entropy(logits,labels)",
         "--optimizer", "sgd(lr=0.1)", *options)
    tools.saveData(tmp_path / "data.npz", {**inputs, "labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    # Batch norm follows the batch, as the file says; the encoder drops nothing.
    loss, expected = step(model.train(name == "norms"), inputs, labels)
    assert run.losses == pytest.approx([loss], rel=1e-5)
    model.load_state_dict(run.tensors, strict=True)
    for parameter, tensor in expected.items():
        if tensor.is_floating_point():
            assert torch.allclose(run.tensors[parameter].double(), tensor, atol=1e-5), parameter


class FoldedTable(nn.Module):
    """Of a table only what is looked up is left by an exporter that folds (Swin's relative positions)."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(7, 3)), nn.Linear(3, 5)
        self.register_buffer("places", torch.tensor([6, 0, 3, 3]))

    def forward(self, x):
        return self.head(x + self.table[self.places]).mean(1)


@pytest.mark.parametrize("fold", [False, True])
def test_parameters_that_an_old_exporter_folded_are_warned_of(fold, tmp_path):
    path = export(FoldedTable(), {"x": torch.zeros(BATCH, 4, 3)}, tmp_path / "model.onnx", dynamo=False,
                  do_constant_folding=fold)
    _, said = tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)",
                   "--optimizer", "sgd(lr=0.1)")
    warned = ("of what the exporter computed, 12 elements in 1 tensor are constants; parameters among them are "
              "neither trained nor saved: onnx::Add_")
    assert (warned in said) == fold
    assert ("optimize=False) to keep all" in said) == fold


def test_an_input_of_one_number_is_the_same_for_all_samples(tmp_path):
    """As the old exporter writes an `int` that a model takes."""
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 5)

        def forward(self, x, factor):
            return self.head(x) * factor

    model, x, factor = Scaled(), torch.randn(2 * BATCH, 3), torch.tensor(2)
    path = export(model, {"x": x[:BATCH], "factor": factor}, tmp_path / "model.onnx", dynamo=True, optimize=False)
    described, _ = tool("compile", path, "--describe")
    assert "cannot be compiled" not in described
    _, said = tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2")
    assert said.count("input 'factor' of [") == 1
    np.savez(tmp_path / "in.npz", x=x.numpy(), factor=factor.numpy())
    tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["logits"], model(x, factor).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_computed_and_saved_in_float32(dtype, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5)).to(dtype)
    path = export(model, {"x": torch.zeros(BATCH, 6, dtype=dtype)}, tmp_path / "model.onnx", dynamo=True, optimize=False)
    x, labels = torch.randn(BATCH, 6), torch.tensor([1, 0, 4, 2])
    _, said = tool("compile", path, "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)",
                   "--optimizer", "sgd(lr=0.1)")
    assert f"4 tensors are {str(dtype).removeprefix('torch.')} in the file; computed and saved in float32" in said
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss, expected = step(model, {"x": x}, labels)
    assert run.losses == pytest.approx([loss], rel=1e-5)
    for name, tensor in expected.items():
        assert run.tensors[name].dtype == torch.float32
        assert torch.allclose(run.tensors[name].double(), tensor, atol=1e-6), name


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_weights_may_be_encoded_one_by_one(dtype, tmp_path):
    """float_data, double_data, and the bits of fp16 as int32_data."""
    numpy = helper.tensor_dtype_to_np_dtype(dtype)
    weight = np.random.default_rng(0).normal(size=(3, 6)).astype(numpy)
    elements = weight.view(np.uint16).astype(np.int32) if dtype == TensorProto.FLOAT16 else weight
    tensor = TensorProto(dims=weight.shape, data_type=dtype, name="fc.weight")
    field = {TensorProto.FLOAT: "float_data", TensorProto.FLOAT16: "int32_data", TensorProto.DOUBLE: "double_data"}[dtype]
    getattr(tensor, field).extend(elements.flatten().tolist())
    value = lambda name, shape: helper.make_tensor_value_info(name, dtype, shape)
    onnx.save(helper.make_model(helper.make_graph(
        [helper.make_node("Gemm", ["x", "fc.weight"], ["y"], transB=1)], "g", [value("x", (2, 6))], [value("y", (2, 3))],
        [tensor]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "model.onnx")
    x = np.random.default_rng(1).normal(size=(2, 6)).astype(numpy)
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward")
    np.savez(tmp_path / "in.npz", x=x)
    tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert np.allclose(np.load(tmp_path / "out.npz")["y"], x.astype(np.float64) @ weight.astype(np.float64).T, atol=1e-5)


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.first, self.second = nn.Embedding(9, 6), nn.Linear(6, 3), nn.Linear(6, 5)

    def forward(self, ids, weights):
        x = (self.embed(ids) * weights[..., None]).sum(1)
        return self.first(x), self.second(x)


@pytest.fixture(scope="module")
def twoOutputs(tmp_path_factory):
    torch.manual_seed(0)
    model, path = TwoOutputs().eval(), tmp_path_factory.mktemp("two") / "model.onnx"
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    torch.onnx.export(model, (torch.zeros(3, 4, dtype=torch.int32), torch.zeros(3, 4)), path,
                      input_names=["ids", "weights"], output_names=["first", "second"],
                      dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}), dynamo=True, optimize=False,
                      verbose=False)
    return model, path


def test_dims_that_were_left_open_are_bound_by_name(twoOutputs, tmp_path):
    model, path = twoOutputs
    forward = ("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    tool(*forward, "--mesh", "data=2", "--dim", "batch=4", "--dim", "length=6")
    inputs = {"ids": torch.randint(9, (4, 6), dtype=torch.int32), "weights": torch.randn(4, 6)}
    tools.saveData(tmp_path / "in.npz", inputs)
    tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    with torch.no_grad():
        for name, theirs in zip(("first", "second"), model(*inputs.values())):
            assert np.allclose(out[name], theirs, atol=1e-5), name
    for options, words in [(("--dim", "batch=4"), ["`ids`", "`length`", "--dim length=N"]),
                           (("--dim", "batch=4", "--dim", "len=6"), ["--dim len=6", "batch, length"]),
                           (("--dim", "batch=0"), ["NAME=SIZE"]),
                           (("--dim", "batch=2", "--dim", "batch=3"), ["both 2 and 3"])]:
        _, said = tool(*forward, *options, code=1)
        assert all(word in said for word in words), said


def test_the_loss_chooses_among_several_outputs(twoOutputs, tmp_path):
    model, path = twoOutputs
    compile = ("compile", path, "-o", tmp_path / "plan", "--dim", "batch=4", "--dim", "length=6", "--optimizer", "sgd(lr=0.1)")
    tool(*compile, "--loss", "cross_entropy(second,labels)")
    inputs = {"ids": torch.randint(9, (4, 6), dtype=torch.int32), "weights": torch.randn(4, 6)}
    labels = torch.tensor([1, 0, 4, 2])
    tools.saveData(tmp_path / "data.npz", {**inputs, "labels": labels})
    losses = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run").losses
    with torch.no_grad():
        assert losses == pytest.approx([nn.functional.cross_entropy(model(*inputs.values())[1], labels).item()], rel=1e-5)
    _, said = tool(*compile, "--loss", "cross_entropy(third,labels)", code=1)
    assert "third" in said and "first" in said and "second" in said


def test_ten_gigabytes_of_weights_are_not_read(tmp_path):
    width, count = 4096, 160  # of 64 MiB each, in a file that has no blocks
    nodes, tensors, bytes = [], [], 4 * width * width
    with open(tmp_path / "weights.bin", "wb") as file:
        file.truncate(count * bytes)
        for i in range(count):
            # Nameless ones might be copies of the others, and have their shape.
            name = f"onnx::MatMul_{i}" if i % 2 else f"layers.{i}.weight"
            file.seek(i * bytes)
            file.write(np.float32(i + 1).tobytes())
            tensors.append(TensorProto(dims=[width, width], data_type=TensorProto.FLOAT, name=name,
                                       data_location=TensorProto.EXTERNAL))
            for key, value in (("location", "weights.bin"), ("offset", i * bytes), ("length", bytes)):
                tensors[-1].external_data.add(key=key, value=str(value))
            nodes.append(helper.make_node("MatMul", [f"x{i}", name], [f"x{i + 1}"], name=f"/layers.{i}/MatMul"))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (8, width))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [value("x0")], [value(f"x{count}")], tensors),
                                opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "model.onnx")
    # What a shell has read includes what its children have.
    shell = '"$@" > "$0" && cat /proc/$$/io'
    done = subprocess.run(["bash", "-c", shell, tmp_path / "module.mlir", tools.bin() / "polyrank-compile",
                           tmp_path / "model.onnx", "--mode", "forward", "--stop-after", "import"],
                          capture_output=True, text=True, check=True, timeout=tools.SECONDS)
    assert (tmp_path / "module.mlir").read_text().count("  graph.parameter @") == count
    read = dict(line.split(": ") for line in done.stdout.splitlines())
    assert int(read["rchar"]) < 16 << 20
