"""Files as other tools write them, in the place of a model, of weights and of data: named as what they are."""

import bz2
import gzip
import io
import lzma
import pickle

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch

import tools
from test_command_line import LOSS

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
PAGE = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n"


def written(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


@pytest.fixture(scope="module")
def files(exported):
    """What it is -> a file of that kind, and what is said of it."""
    model = exported("mlp").read_bytes()
    layer = torch.nn.Linear(2, 2)
    program = torch.export.export(layer, (torch.zeros(1, 2),))
    return {
        "gzip": (gzip.compress(model), "is compressed with gzip; unpack it first: gzip -dk FILE"),
        "bzip2": (bz2.compress(model), "bzip2 -dk FILE"),
        "xz": (lzma.compress(model), "xz -dk FILE"),
        "torch.save": (written(lambda to: torch.save(layer.state_dict(), to)), "is what torch.save writes"),
        "torch.save of old": (written(lambda to: torch.save(layer.state_dict(), to, _use_new_zipfile_serialization=False)),
                              "is what torch.save writes (a pickle); "),
        "torch.jit.save": (written(lambda to: torch.jit.save(torch.jit.script(layer), to)), "is what torch.save writes"),
        "torch.export.save": (written(lambda to: torch.export.save(program, to)), "is what torch.export.save writes (.pt2); "),
        "pickle": (pickle.dumps(list(range(100000))), "(a pickle); "),
        "git-lfs": (LFS, "is a pointer of git-lfs and not the file itself; fetch that: git lfs pull"),
        "page": (PAGE, "is a web page (HTML), as a download that failed leaves it"),
        "safetensors": (safetensors.torch.save(layer.state_dict()), "is a safetensors file"),
        "npz": (written(lambda to: np.savez(to, x=np.zeros(3))), "is a set of NumPy arrays; "),
        "npy": (written(lambda to: np.save(to, np.zeros(3))), "is a NumPy array; "),
        "onnx": (model, "is an ONNX model; "),
    }


ALL = ("gzip", "bzip2", "xz", "torch.save", "torch.save of old", "pickle", "git-lfs")
MODELS = ("torch.jit.save", "torch.export.save", "onnx")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", (*ALL, "page", "safetensors", "npz", "npy"))
def test_what_is_named_onnx_and_is_none(kind, files, tmp_path):
    content, says = files[kind]
    (tmp_path / "model.onnx").write_bytes(content)
    for options in (("--describe",), ("-o", tmp_path / "plan", *LOSS)):
        _, error = tools.tool("compile", tmp_path / "model.onnx", *options, code=1)
        assert "model.onnx" in error and says in error
        assert "torch.onnx.export" in error or kind in ("gzip", "bzip2", "xz", "git-lfs", "page")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind, writer", [("torch.jit.save", "TorchScript"), ("torch.export.save", "torch 2.")])
def test_formats_are_told_by_what_files_hold(kind, writer, files, tmp_path):
    (tmp_path / "model.onnx").write_bytes(files[kind][0])
    said, _ = tools.tool("compile", tmp_path / "model.onnx", "--describe")
    assert f"written by {writer}" in said


@pytest.fixture(scope="module")
def trained(exported, dataset, tmp_path_factory):
    plan = tmp_path_factory.mktemp("formats") / "plan"
    tools.tool("compile", exported("mlp"), "-o", plan, *LOSS)
    return plan, dataset("mlp", 1)


@pytest.mark.parametrize("kind", (*ALL, *MODELS, "page", "npz", "npy"))
def test_what_is_given_as_weights_and_is_none(kind, files, trained, tmp_path):
    content, says = files[kind]
    (tmp_path / "w.safetensors").write_bytes(content)
    _, error = tools.tool("run", trained[0], "--data", trained[1], "--steps", 1, "--init", tmp_path / "w.safetensors", code=1)
    assert "w.safetensors: is " in error and says in error
    assert "safetensors.torch.save_model" in error or kind in ("gzip", "bzip2", "xz", "git-lfs", "page")


@pytest.mark.parametrize("name", ["data.npz", "data.bin", "data.pt", "data"])
@pytest.mark.parametrize("kind", (*ALL, *MODELS, "safetensors"))
def test_what_is_given_as_data_and_is_none(kind, name, files, trained, tmp_path):
    content, says = files[kind]
    (tmp_path / name).write_bytes(content)
    _, error = tools.tool("run", trained[0], "--data", tmp_path / name, "--steps", 1, code=1)
    assert f"{name}: is " in error and says in error
    assert ("--token-type" in error) == (name != "data.npz")


@pytest.mark.filterwarnings("ignore")
def test_external_data_that_is_a_pointer_of_git_lfs(exported, tmp_path):
    model = onnx.load(exported("mlp"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").write_bytes(LFS)
    _, error = tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", *LOSS, code=1)
    assert "weights, which is a pointer of git-lfs and not the file itself" in error, error


@pytest.fixture(scope="module")
def causal(exported, tmp_path_factory):
    plan = tmp_path_factory.mktemp("causal") / "plan"
    tools.tool("compile", exported("gpt2"), "-o", plan, "--loss", "cross_entropy(logits,labels)")
    return plan


@pytest.mark.parametrize("shift", [False, True])
def test_labels_that_nobody_shifted_are_warned_of(shift, causal, tmp_path):
    ids = np.random.default_rng(0).integers(0, 64, (16, 16))
    labels = ids.copy()
    labels[:, -1] = -100
    if shift:
        labels[:, :-1] = ids[:, 1:]
    np.savez(tmp_path / "data.npz", input_ids=ids, labels=labels)
    _, error = tools.tool("run", causal, "--data", tmp_path / "data.npz", "--steps", 1, "--quiet")
    assert ("the labels 'labels' are 'input_ids' itself" in error) != shift, error


def test_a_label_of_minus_one_shows_how_to_ignore_it(causal, tmp_path):
    ids = np.zeros((8, 16), np.int64)
    np.savez(tmp_path / "data.npz", input_ids=ids, labels=ids - 1)
    _, error = tools.tool("run", causal, "--data", tmp_path / "data.npz", "--steps", 1, "--order", "sequential",
                          code=1)
    assert ("value -1 at element 0 (sample 0), but input 'labels' takes i64 in [0, 64), or -100 for what does not count; "
            "where that is -1, compile with --loss 'cross_entropy(OUTPUT,labels,ignore_index=-1)'") in error, error
