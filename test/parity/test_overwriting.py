"""Nothing of the user's is destroyed: outputs over inputs, over each other, over files of another kind; runs that diverged."""

import hashlib
import json
import os
import shutil

import numpy as np
import onnx
import pytest

import tools
from test_command_line import DATA, LOSS, refuse
from tools import Case


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def files(exported, dataset, tmp_path):
    """A model with its weights beside it, its plan, data, and a file of weights."""
    graph = onnx.load(exported("mlp"))
    onnx.save(graph, tmp_path / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "model.plan", *DATA, *LOSS,
               "--optimizer", "sgd(lr=0.1)")
    shutil.copy(dataset("mlp", 1), tmp_path / "data.npz")
    tools.tool("run", tmp_path / "model.plan", "--data", tmp_path / "data.npz", "--steps", 1,
               "--save", tmp_path / "w.safetensors", "--quiet")
    (tmp_path / "shards.txt").write_text("# none\n")
    return tmp_path


def link(files, name, how):
    """Another name of the file."""
    other = files / "other"
    other.mkdir()
    if how == "symbolic":
        (other / name).symlink_to(files / name)
    elif how == "hard":
        os.link(files / name, other / name)
    else:
        return files / "other" / ".." / name
    return other / name


@pytest.mark.parametrize("how", ["symbolic", "hard", "path"])
@pytest.mark.parametrize("option, name, what", [
    ("--save", "data.npz", "the data (--data)"),
    ("--save", "w.safetensors", "the weights (--init)"),
    ("--save", "model.plan", "the plan"),
    ("--log", "data.npz", "the data (--data)"),
    ("--log", "model.plan", "the plan"),
    ("--profile", "data.npz", "the data (--data)"),
])
def test_no_output_of_a_run_is_an_input_of_it_under_another_name(option, name, what, how, files):
    path, before = link(files, name, how), contents(files)
    error = refuse("run", files / "model.plan", "--data", files / "data.npz", "--init", files / "w.safetensors",
                   "--steps", 1, "--quiet", option, path)
    assert f"{option} '{path}': is the same file as {what} '{files / name}'" in error
    assert contents(files) == before


@pytest.mark.parametrize("option", ["--save", "--log", "--profile"])
def test_no_output_of_a_run_is_the_external_data_of_its_model(option, files):
    before = contents(files)
    os.link(files / "model.onnx.data", files / "weights")
    error = refuse("run", files / "model.plan", "--data", files / "data.npz", "--steps", 1, "--quiet",
                   option, files / "weights")
    assert f"is the same file as the weights '{files / 'model.onnx.data'}'" in error
    (files / "weights").unlink()
    assert contents(files) == before


@pytest.mark.parametrize("exists", [False, True])
def test_two_outputs_of_a_run_are_two_files(exists, files):
    run = ("run", files / "model.plan", "--data", files / "data.npz", "--steps", 1, "--quiet")
    if exists:
        (files / "x").write_text("")
    (files / "link").symlink_to("x")
    for other in ("x", "link", "./x"):
        assert "is the same file as --save" in refuse(*run, "--save", files / "x", "--log", f"{files}/{other}")
    assert (files / "x").exists() == exists
    tools.tool(*run, "--save", files / "x", "--log", files / "y")


def test_no_plan_takes_the_place_of_what_the_compiler_reads(files):
    before = contents(files)
    for name, what in (("model.onnx", "the model"), ("shards.txt", "--shard-file"), ("model.onnx.data", None)):
        error = refuse("compile", files / "model.onnx", "-o", files / name, *DATA, *LOSS,
                       "--shard-file", files / "shards.txt")
        if what:
            assert f"-o '{files / name}': is the same file as {what} '{files / name}'" in error
        else:
            assert f"-o '{files / name}': exists and is not a plan" in error
    assert contents(files) == before


@pytest.mark.parametrize("option, name, message", [
    ("--save", "model.onnx", "'.onnx' is the name of an ONNX model"),
    ("--save", "notes", "exists and is not a safetensors file"),
    ("--log", "notes", "exists and is not a log of polyrank-run"),
    ("--profile", "notes", "exists and is not a profile of polyrank-run"),
    ("--save", "new.pt", "'.pt' is the name of PyTorch's pickle"),
    ("--save", "new.bin", "'.bin' is the name of PyTorch's pickle"),
    ("--save", "new.npz", "'.npz' is the name of a NumPy set"),
    ("--log", "new.safetensors", "'.safetensors' is the name of safetensors"),
])
def test_an_output_takes_no_other_formats_place_nor_name(option, name, message, files):
    (files / "notes").write_text("what I did today\n")
    before = contents(files)
    error = refuse("run", files / "model.plan", "--data", files / "data.npz", "--steps", 1, "--quiet",
                   option, files / name)
    assert f"{option} '{files / name}'" in error and message in error
    assert contents(files) == before


def test_outputs_replace_those_of_an_earlier_run(files):
    for options in ((), ("--json",), ()):
        tools.tool("run", files / "model.plan", "--data", files / "data.npz", "--steps", 1, "--quiet", "--save",
                   files / "again.safetensors", "--log", files / "log", "--profile", files / "profile", *options)
    tools.tool("compile", files / "model.onnx", "-o", files / "model.plan", *DATA, *LOSS)


def test_one_changed_bit_of_the_weights_is_refused_wherever_it_is(exported, tmp_path):
    """The file has more than one block of digests, and each rank looks at its share."""
    from onnx import TensorProto, helper, numpy_helper
    weight = np.random.default_rng(0).standard_normal((1024, 700), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 700])], [numpy_helper.from_array(weight, "w")])
    path, plan = tmp_path / "model.onnx", tmp_path / "plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    tools.tool("compile", path, "-o", plan, "--mesh", "data=2", "--loss", "mse(y,t)")
    np.savez(tmp_path / "data.npz", x=np.ones((4, 1024), np.float32), t=np.ones((4, 700), np.float32))
    run = ("run", plan, "--data", tmp_path / "data.npz", "--steps", 1, "--quiet")
    tools.tool(*run)
    whole = path.read_bytes()
    start, size = whole.index(weight.tobytes()), weight.nbytes
    for at in (0, size // 3 + 1, size // 2, size - 2_000, size - 1):
        changed = bytearray(whole)
        changed[start + at] ^= 1
        path.write_bytes(changed)
        begin = start + at // 2**20 * 2**20
        assert (f"weights of 'w': bytes {begin} to {min(begin + 2**20, start + size)} of '{path}' are not those that "
                "the plan was compiled with") in refuse(*run)
    path.write_bytes(whole)
    tools.tool(*run)


def diverging(files, **change):
    """Data of which some is changed, as (array, index, value)."""
    arrays = {name: array.copy() for name, array in np.load(files / "data.npz").items()}
    for name, (index, value) in change.items():
        arrays[name][index] = value
    np.savez(files / "other.npz", **arrays)
    return files / "other.npz"


def test_a_run_whose_loss_became_nan_ends_there_with_its_own_status_and_saves_nothing(files):
    data = diverging(files, x=((17, 3), np.nan))
    before = contents(files)
    run = ("run", files / "model.plan", "--data", data, "--steps", 7, "--order", "sequential",
           "--log", files / "log", "--save", files / "w.safetensors")
    output, error = tools.tool(*run, "--json", code=6)
    assert "step 3: the loss is NaN" in error
    assert f"{data}, array 'x': value nan at element {17 * 16 + 3} (sample 17)" in error
    assert f"'{files / 'w.safetensors'}' is as it was" in error
    report = json.loads(output)
    assert report["status"] == "not_finite" and report["steps"] == 3 and "step 3" in report["error"]
    log = tools.stepsOf(files / "log")
    assert [line["step"] for line in log] == [1, 2, 3] and log[2]["loss"] is None
    (files / "log").unlink()
    assert contents(files) == before
    # As it is, on demand.
    tools.tool(*run, "--allow-nan")
    assert contents(files)["w.safetensors"] != before["w.safetensors"]


def test_weights_that_the_last_step_made_infinite_are_not_saved(files):
    tools.tool("compile", files / "model.onnx", "-o", files / "model.plan", *DATA, *LOSS,
               "--optimizer", "sgd(lr=1e39)")
    before = contents(files)
    _, error = tools.tool("run", files / "model.plan", "--data", files / "data.npz", "--steps", 1,
                          "--save", files / "w.safetensors", "--quiet", code=6)
    assert "holds NaN or infinite values after the last step" in error and "--allow-nan" in error
    assert contents(files) == before


def test_an_evaluation_whose_mean_is_nan_says_so_by_its_status(files):
    tools.tool("compile", files / "model.onnx", "-o", files / "forward.plan", "--mode", "forward", *DATA, *LOSS)
    data = diverging(files, x=((17, 3), np.nan))
    output, error = tools.tool("run", files / "forward.plan", "--data", data, "--json", code=6)
    assert json.loads(output)["status"] == "not_finite" and json.loads(output)["steps"] == 7
    tools.tool("run", files / "forward.plan", "--data", data, "--allow-nan")


def test_numbers_in_messages_are_short(files):
    # In one rank's share only: of two that fail, either may be the first to say so.
    x = np.zeros((8, 16))
    x[0, 0] = 1e300
    np.savez(files / "far.npz", x=x, labels=np.zeros(8, np.int64))
    assert "value 1e+300 at element 0 (sample 0)" in refuse(
        "run", files / "model.plan", "--data", files / "far.npz", "--steps", 1, "--quiet", "--order", "sequential")


def test_a_seed_is_not_negative(files):
    assert "--seed: '-1' is no whole number from" in refuse(
        "run", files / "model.plan", "--data", files / "data.npz", "--steps", 1, "--seed", -1)


@pytest.mark.parametrize("name", ["compile", "run", "inspect", "opt"])
def test_each_tool_says_its_version(name):
    assert f"polyrank-{name} 0.1.0" in tools.tool(name, "--version")[0]
