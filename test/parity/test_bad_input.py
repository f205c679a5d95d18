"""Hostile and broken files: a message that names the thing, exit code 1, nothing half-written, little time and memory."""

import io
import os
import resource
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tools
from test_command_line import DATA, LOSS, refuse

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, type=FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def node(op, inputs, outputs, name, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name, **attributes)


WEIGHT = helper.make_tensor("fc.weight", FLOAT, [4, 4], np.ones(16, "f4").tobytes(), raw=True)


def model(*nodes, x=(4, 4), type=FLOAT, outputs=("y",), weights=(WEIGHT,), opset=18, **more):
    """A model of input `x`; its outputs are [4, 4]."""
    graph = helper.make_graph(list(nodes), "graph", [value("x", x, type)],
                              [value(name, [4, 4]) for name in outputs], list(weights))
    opsets = more.pop("opsets", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=opsets, **more)


def stored(type, dims, **fields):
    return TensorProto(name="fc.weight", data_type=type, dims=dims, **fields)


def product(weight):
    return model(node("MatMul", "x fc.weight", "y", "node_fc"), weights=[weight])


def constant(name, values):
    return helper.make_tensor(name, INT64, [len(values)], values)


RELU = node("Relu", "x", "y", "node_relu")


def nested(depth):
    """If in If in If, written by hand: protobuf's own writer stops long before 2000."""
    def field(number, data):
        length, size = b"", len(data)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    return field(7, graph)


def calling(depth, width):
    """Functions that call each other: width to the power of depth nodes."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "f0", ["a"], ["b"], [node("Relu", "a", "b", "leaf")], opsets)]
    for i in range(1, depth):
        names = ["a", *(f"t{k}" for k in range(width - 1)), "b"]
        body = [node(f"f{i - 1}", names[k], names[k + 1], "call", domain="local") for k in range(width)]
        functions.append(helper.make_function("local", f"f{i}", ["a"], ["b"], body, opsets))
    return model(node(f"f{depth - 1}", "x", "y", "call", domain="local"), opsets=opsets, functions=functions)


MODELS = {
    "cycle": (model(node("Add", "x b", "a", "first"), node("Mul", "a fc.weight", "b", "second"),
                    node("Relu", "b", "y", "third")),
              "Add: uses `b`, which is computed from its own result `a`: the graph has a cycle: 1 node, `first`"),
    "unsorted": (model(node("Add", "x a", "y", "late"), node("Relu", "x", "a", "early")),
                 "uses `a`, which only a later node, `early`, computes; sort the nodes"),
    "dangling": (model(node("Add", "x nowhere", "y", "add")),
                 "uses `nowhere`, which is no input, no weight and no node's result: 1 node, `add`"),
    "twice": (model(node("Relu", "x", "y", "one"), node("Neg", "x", "y", "two")),
              "computes `y`, which is the name of an input, a weight or another node's result"),
    "overwritten": (model(node("Relu", "x", "fc.weight", "relu"), node("Neg", "fc.weight", "y", "neg")),
                    "computes `fc.weight`, which is the name of an input, a weight"),
    "no-output": (model(RELU, outputs=[]), "the model has no outputs"),
    "output": (model(RELU, outputs=["z"]), "output `z` is no tensor that a node computes"),
    "dims": (model(node("MatMul", "x fc.weight", "y", "node_fc"), x=(4, 5)),
             "the contracted dims of [4, 5] and [4, 4] differ: 5 and 4: 1 node, `node_fc`"),
    "op": (model(node("Frobnicate", "x", "y", "node_frob")),
           "Frobnicate (opset 18) is not supported: 1 node, `node_frob`"),
    "domain": (model(node("Relu", "x", "y", "node_relu", domain="their.own")),
               "their.own.Relu: the model names no opset of its domain, `their.own`"),
    "opset-new": (model(RELU, opset=99), "opset 99 is not supported, only up to 25; export with opset_version=20"),
    "opset-old": (model(RELU, opset=2),
                  "Relu (opset 2) is not supported, only from opset 6 on; export with opset_version=20"),
    "opset-negative": (model(RELU, opset=-3), "Relu (opset -3) is not supported, only from opset 6 on"),
    "input-type": (model(RELU, type=TensorProto.FLOAT8E4M3FN), "input `x` is float8_e4m3fn, which is not supported"),
    "input-string": (model(RELU, type=TensorProto.STRING), "input `x` is string, which is not supported"),
    "weight-type": (product(stored(TensorProto.COMPLEX64, [4, 4], raw_data=b"\0" * 128)),
                    "tensor `fc.weight` has elements of complex64, which is not supported; convert it to float32"),
    "weight-short": (product(stored(FLOAT, [4, 4], raw_data=b"\0" * 60)),
                     "tensor `fc.weight`: its shape needs 64 bytes, but the file holds 60"),
    "resize-part": (model(helper.make_node("Resize", ["x", "", "scales"], ["y"], "node_resize", mode="linear",
                                           coordinate_transformation_mode="tf_crop_and_resize"),
                          weights=[helper.make_tensor("scales", FLOAT, [2], [2.0, 1.0])]),
                    "Resize: its part (`roi`) is missing: 1 node, `node_resize`"),
    "scatter-outside": (model(node("ScatterND", "x at fc.weight", "y", "node_scatter"),
                              weights=[WEIGHT, helper.make_tensor("at", INT64, [4, 1], [0, 1, 2, 4])]),
                        "ScatterND: its indices lead to element 4 of a dim of 4: 1 node, `node_scatter`"),
    "scatter-mean": (model(node("ScatterND", "x at fc.weight", "y", "node_scatter", reduction="mean"),
                           weights=[WEIGHT, helper.make_tensor("at", INT64, [4, 1], [0, 1, 2, 3])]),
                     "ScatterND: the reduction `mean`"),
    "einsum": (model(node("Einsum", "x fc.weight", "y", "node_einsum", equation="ij,jkl->ik")),
               "Einsum: `jkl` does not fit operand 1 of [4, 4]: 1 node, `node_einsum`"),
    "labels": (model(node("SoftmaxCrossEntropyLoss", "x places", "y", "node_loss"),
                     weights=[constant("places", [1, 2, 3])]),
               "SoftmaxCrossEntropyLoss: labels of [3] for scores of [4, 4]: 1 node, `node_loss`"),
    "reflect": (model(node("Pad", "x pads", "y", "node_pad", mode="mirror"), weights=[constant("pads", [1, 1, 1, 1])]),
                "Pad: Pad with mode `mirror`: 1 node, `node_pad`"),
    # What is claimed and not there.
    "claim-resize": (model(helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], "node_resize", mode="cubic"),
                           weights=[constant("sizes", [1 << 30, 4])]),
                     "Resize: Resize of a dim of 4 to 1073741824: 1 node, `node_resize`"),
    "claim-pad": (model(node("Pad", "x pads", "y", "node_pad", mode="edge"),
                        weights=[constant("pads", [0, 1 << 40, 0, 0])]),
                  "Pad: pads [0, 1099511627776, 0, 0] of 4 elements with mode `edge`: 1 node, `node_pad`"),
    "claim-transposed": (model(node("Reshape", "x shape", "x4", "reshape"),
                               node("ConvTranspose", "x4 filters", "y", "node_up", strides=[1 << 20, 1 << 20],
                                    output_padding=[1 << 20, 1 << 20]),
                               weights=[constant("shape", [1, 1, 4, 4]),
                                        helper.make_tensor("filters", FLOAT, [1, 1 << 2, 2, 2], [1.0] * 16)]),
                         "ConvTranspose"),
    "claim-weight": (product(stored(FLOAT, [1 << 20, 1 << 18], raw_data=b"\0" * 64)),
                     "tensor `fc.weight`: its shape needs 1099511627776 bytes, but the file holds 64"),
    "claim-overflow": (product(stored(FLOAT, [1 << 40, 1 << 40], raw_data=b"")),
                       "`fc.weight`: its shape [1099511627776, 1099511627776] has more than 2^48 elements"),
    "claim-input": (model(RELU, x=(1 << 31, 1 << 31)),
                    "input `x` of shape [2147483648, 2147483648] is too large"),
    "claim-range": (model(node("Range", "zero many one", "r", "node_range"), node("Cast", "r", "c", "cast", to=1),
                          node("Add", "x c", "y", "add"),
                          weights=[helper.make_tensor(n, INT64, [], [v])
                                   for n, v in dict(zero=0, many=1 << 60, one=1).items()]),
                    "Range: it has more than 67108864 elements: 1 node, `node_range`"),
    "claim-fill": (model(node("ConstantOfShape", "shape", "c", "node_fill"), node("NonZero", "c", "n", "node_nonzero"),
                         node("Gather", "x n", "y", "gather"), weights=[constant("shape", [1 << 20, 1 << 20])]),
                   "NonZero: its operand of shape [1048576, 1048576] is too large: 1 node, `node_nonzero`"),
    "claim-depth": (nested(2000), "graphs are nested more than 32 deep"),
    "claim-calls": (calling(14, 10), "the model has more than 524288 nodes once calls of its functions are replaced"),
    "claim-nodes": (model(*[RELU] * 600_000), "holds more than 524288 nodes"),
}


def refuseFast(name, *args):
    """`refuse` with little memory; a tool that believes a claim would be killed for it."""
    command = [str(tools.bin() / f"polyrank-{name}"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)))
    assert done.returncode == 1, done.stderr[-4000:]
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_compile_refuses_models_that_make_no_sense(name, tmp_path):
    content, message = MODELS[name]
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    error = refuseFast("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
    assert message in error and path.name in error
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("entries, message", [
    (dict(location="none.data"), "external data `none.data`: No such file or directory; it belongs into the model's"),
    (dict(location="short.data"), "its shape needs 64 bytes, but its external data has 32"),
    (dict(location="long.data", offset="80", length="64"), "lies at bytes 80 to 144 of {folder}/long.data, which has 128"),
    (dict(location="long.data", offset="0", length="128"), "its shape needs 64 bytes, but its external data has 128"),
    (dict(location="long.data", offset="-1"), "the offset of its external data is `-1`, which is no place in a file"),
    (dict(location="long.data", length=str(1 << 60)), "its external data has 1152921504606846976"),
    (dict(location="../secret"), "external data `../secret`: leaves the model's folder"),
    (dict(location="/etc/hostname"), "external data `/etc/hostname`: not a path relative to the model's folder"),
    (dict(location="link.data"), "`link.data` is a symbolic link"),
    (dict(), "external data ``: not a path"),
])
def test_compile_refuses_external_data_that_is_not_beside_the_model(entries, message, tmp_path):
    weight = stored(FLOAT, [4, 4], data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        weight.external_data.add(key=key, value=text)
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"s" * 64)
    (folder / "short.data").write_bytes(b"a" * 32)
    (folder / "long.data").write_bytes(b"a" * 128)
    (folder / "link.data").symlink_to(tmp_path / "secret")
    (folder / "model.onnx").write_bytes(product(weight).SerializeToString())
    error = refuse("compile", folder / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward")
    assert "tensor `fc.weight`: " in error and message.format(folder=folder) in error
    assert not (tmp_path / "plan").exists()


def test_compile_refuses_random_bytes(tmp_path):
    for seed in range(20):
        (tmp_path / "random.onnx").write_bytes(np.random.default_rng(seed).bytes(1 + 97 * seed))
        assert "random.onnx" in refuse("compile", tmp_path / "random.onnx", "-o", tmp_path / "plan", *LOSS)


@pytest.fixture(scope="module")
def trained(exported, dataset, tmp_path_factory):
    """The MLP's plan for two ranks, its data, and its weights after a step."""
    folder = tmp_path_factory.mktemp("trained")
    tools.tool("compile", exported("mlp"), "-o", folder / "plan", *DATA, *LOSS)
    data = dataset("mlp", 1)
    tools.tool("run", folder / "plan", "--data", data, "--steps", 1, "--save", folder / "w.safetensors", "--quiet")
    return folder / "plan", data, folder / "w.safetensors"


def onFullDisk(folder, kilobytes, name, *args):
    """Runs a tool while `folder` is a file system of that size; returns exit code, error and what it holds after."""
    script = (f"mount -t tmpfs -o size={kilobytes}k tmpfs '{folder}' || exit 99; cp -p '{folder}.before'/* '{folder}';"
              f"\"$@\" >&2; code=$?; sha256sum '{folder}'/*; exit $code")
    (folder.parent / f"{folder.name}.before").mkdir(exist_ok=True)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", tools.bin().resolve() / f"polyrank-{name}",
                           *map(str, args)], capture_output=True, text=True, timeout=tools.SECONDS)
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("no file system can be mounted here")
    return done.returncode, done.stderr, done.stdout


def test_a_full_disk_leaves_what_was_there(exported, trained, tmp_path):
    plan, data, weights = trained
    full, before = tmp_path / "full", tmp_path / "full.before"
    full.mkdir(), before.mkdir()
    (before / "plan").write_bytes(b"POLYRANK, the plan of before")
    (before / "w.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    kept = subprocess.run(f"sha256sum {before}/*", shell=True, capture_output=True, text=True).stdout
    kept = kept.replace(".before/", "/")
    for call, message, status in [
            (("compile", exported("mlp"), "-o", full / "plan", *DATA, *LOSS), "No space left on device", 1),
            (("run", plan, "--data", data, "--steps", 1, "--save", full / "w.safetensors", "--quiet"),
             "it needs 14504 bytes, its file system has ", 5)]:
        code, error, left = onFullDisk(full, 16, *call)
        assert code == status and message in error and str(full) in error
        assert left == kept


def test_a_limit_on_file_sizes_is_an_error_and_no_signal(exported, tmp_path):
    done = subprocess.run([tools.bin() / "polyrank-compile", exported("mlp"), "-o", tmp_path / "plan", *DATA, *LOSS],
                          capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 1 and "File too large" in done.stderr
    assert os.listdir(tmp_path) == []


def test_no_tool_replaces_what_is_no_file(exported, trained, tmp_path):
    plan, data, _ = trained
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    for path, why in (("pipe", "not a regular file"), ("file/x", "Not a directory"), ("none/x", "No such file")):
        for error in (refuse("compile", exported("mlp"), "-o", tmp_path / path, *LOSS),
                      refuse("run", plan, "--data", data, "--steps", 1, "--save", tmp_path / path, "--quiet")):
            assert why in error and path in error
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_run_finds_nan_in_the_weights(exported, trained, tmp_path):
    plan, data, weights = trained
    run = ("--data", data, "--steps", 1, "--quiet")
    # In the model's own file, before it is compiled.
    graph = onnx.load(exported("mlp"))
    weight = next(w for w in graph.graph.initializer if w.name == "fc2.weight")
    values = onnx.numpy_helper.to_array(weight).copy()
    values[3, 7] = np.nan
    weight.CopyFrom(onnx.numpy_helper.from_array(values, "fc2.weight"))
    onnx.save(graph, tmp_path / "model.onnx")
    tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", *DATA, *LOSS)
    error = refuse("run", tmp_path / "plan", *run, "--save", tmp_path / "out")
    assert "'fc2.weight'" in error and "model.onnx: element [3,7] is NaN" in error and "--allow-nan" in error
    assert not (tmp_path / "out").exists()
    _, error = tools.tool("run", tmp_path / "plan", *run, "--allow-nan")
    assert "loss is not finite" in error
    # In a file of weights; another one that is whole helps.
    content = bytearray(weights.read_bytes())
    content[-4:] = np.array([-np.nan], "<f4").tobytes()
    (tmp_path / "nan.safetensors").write_bytes(content)
    assert "nan.safetensors: element" in refuse("run", plan, *run, "--init", tmp_path / "nan.safetensors")
    tools.tool("run", tmp_path / "plan", *run, "--init", weights)


@pytest.mark.parametrize("options, message", [
    (("--steps", "0"), "--steps: '0' is no whole number from 1 to 1099511627776"),
    (("--steps", "99999999999999999999"), "--steps: '99999999999999999999' is no whole number from"),
    (("--steps", "1", "--seed", "99999999999999999999"), "--seed: '99999999999999999999' is no whole number from"),
    (("--steps", "1", "--holdout", "nan"), "--holdout: 'nan' is no number from 0 to 0.9"),
    (("--steps", "1", "--init", "/dev/null"), "/dev/null: not a regular file"),
    (("--steps", "1", "--threads", "2"), "the plan was compiled for 1 threads; compile it with --threads 2"),
])
def test_run_refuses_wrong_options(options, message, trained):
    plan, data, _ = trained
    assert message in refuse("run", plan, "--data", data, *options)


def npy(shape, data=b"\0" * 64, type="<f4"):
    header = f"{{'descr': '{type}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + data


def archive(compression=zipfile.ZIP_STORED, **members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as zip:
        for name, content in members.items():
            zip.writestr(f"{name}.npy", content)
    return file.getvalue()


def bomb():
    """A member that says it inflates to 2^31 bytes."""
    whole = archive(zipfile.ZIP_DEFLATED, x=npy((8, 16), b"\0" * 512))
    directory = whole.index(b"PK\1\2")
    return whole[:directory + 24] + (1 << 31).to_bytes(4, "little") + whole[directory + 28:]


def weights(header):
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize("name, content, message", [
    ("claim.npz", archive(x=npy((1 << 58, 16))), "array 'x': the shape is too large"),
    ("claim.npz", archive(x=npy((1 << 40, 16))), "array 'x': the shape needs 70368744177664 bytes, but 64 follow"),
    ("bomb.npz", bomb(), "'x.npy': cannot inflate to 2147483648 bytes"),
    ("objects.npz", archive(x=npy((4,), type="|O")), "holds Python objects, which are not read"),
    ("big-endian.npz", archive(x=npy((4, 4), type=">f4")), "big-endian values (>f4); convert them with"),
    ("cut.npz", archive(x=npy((4, 4)))[:-9], "not a .npz set that can be read: it has no end record"),
    ("empty.npz", b"", "empty.npz: not a .npz set"),
    ("tokens.npy", npy((1 << 60,), type="<u2"), "the shape needs 2305843009213693952 bytes, but 64 follow"),
    ("text.txt", b"abc", "a token file feeds one integer input of [batch, length]"),
])
def test_run_refuses_data_that_is_not_what_it_claims(name, content, message, trained, tmp_path):
    (tmp_path / name).write_bytes(content)
    error = refuseFast("run", trained[0], "--data", tmp_path / name, "--steps", 1, "--quiet")
    assert message in error and name in error


@pytest.mark.parametrize("content, message", [
    (b"", "not a safetensors file: it has 0 bytes"),
    ((1 << 60).to_bytes(8, "little") + b"{}", "its header would have 1152921504606846976 bytes, the file has 10"),
    (weights(b'{"fc1.weight":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,0]}}'),
     "tensor 'fc1.weight' has a shape that is too large"),
    (weights(b'{"fc1.weight":{"dtype":"F32","shape":[64,16],"data_offsets":[0,4096]}}'),
     "tensor 'fc1.weight' lies at [0, 4096) of data that has 0 bytes"),
    (weights(b'{"fc1.weight":{"dtype":"F99","shape":[],"data_offsets":[0,0]}}'), "has the unknown dtype 'F99'"),
    (weights(b"{" + b'"a":[' * 100_000), "not a safetensors file: its header has "),
    (weights(b"{}"), "has no tensors for fc1.weight"),
])
def test_run_refuses_weights_that_are_not_what_they_claim(content, message, trained, tmp_path):
    (tmp_path / "w.safetensors").write_bytes(content)
    error = refuseFast("run", trained[0], "--data", trained[1], "--steps", 1, "--init", tmp_path / "w.safetensors")
    assert message in error and "w.safetensors" in error


def test_run_refuses_a_plan_that_claims_more_than_it_holds(trained, tmp_path):
    whole = bytearray(trained[0].read_bytes())
    whole[16:24] = (1 << 60).to_bytes(8, "little")
    (tmp_path / "plan").write_bytes(whole)
    error = refuseFast("run", tmp_path / "plan", "--data", trained[1], "--steps", 1)
    assert "is damaged: it should hold 1152921504606846976 bytes after its header, it holds" in error


def test_run_names_the_sample_whose_label_is_out_of_range_before_any_step(trained, tmp_path):
    arrays = {name: array.copy() for name, array in np.load(trained[1]).items()}
    arrays["labels"][17] = 12
    np.savez(tmp_path / "data.npz", **arrays)
    error = refuse("run", trained[0], "--data", tmp_path / "data.npz", "--steps", 7, "--quiet", "--order", "sequential",
                   "--save", tmp_path / "w")
    assert "data.npz, array 'labels': value 12 at element 17 (sample 17)" in error
    assert "input 'labels' takes i64 in [0, 10)" in error and "step" not in error
    assert os.listdir(tmp_path) == ["data.npz"]
