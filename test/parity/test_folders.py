"""Weights go to and from folders as transformers saves and loads them."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

import tools

CONFIG = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                    use_cache=False)
INDEX = "model.safetensors.index.json"


def fresh(seed):
    torch.manual_seed(seed)
    return GPT2LMHeadModel(CONFIG).eval()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A plan that changes no weights, of a model with tied embeddings, and data for it."""
    folder = tmp_path_factory.mktemp("folders")
    torch.onnx.export(fresh(0), (torch.zeros(4, 32, dtype=torch.int64),), folder / "model.onnx", input_names=["input_ids"],
                      output_names=["logits"], dynamo=True, optimize=False, verbose=False)
    torch.manual_seed(5)
    np.savez(folder / "data.npz", input_ids=torch.randint(64, (8, 32)).numpy(), labels=torch.randint(64, (8, 32)).numpy())
    tools.tool("compile", folder / "model.onnx", "-o", folder / "plan", "--mesh", "data=2", "--loss",
               "cross_entropy(logits,labels)", "--optimizer", "sgd(lr=0)")
    return folder / "plan", folder / "data.npz"


def run(compiled, *options, code=0):
    plan, data = compiled
    return tools.tool("run", plan, "--data", data, "--steps", 1, *options, code=code)


def stateOf(model):
    return {name: tensor for name, tensor in model.state_dict().items() if not name.endswith(("attn.bias", "masked_bias"))}


def same(state, other):
    assert state.keys() == other.keys()
    return all(torch.equal(tensor, other[name]) for name, tensor in state.items())


@pytest.mark.parametrize("size", ["50GB", "40KB"])
def test_weights_go_from_save_pretrained_through_a_run_to_from_pretrained(size, compiled, tmp_path):
    model = fresh(1)
    model.save_pretrained(tmp_path / "theirs", max_shard_size=size)
    isSharded = (tmp_path / "theirs" / INDEX).exists()
    assert isSharded == (size == "40KB")
    inits = [tmp_path / "theirs", f"{tmp_path}/theirs/", tmp_path / "theirs" / (INDEX if isSharded else "model.safetensors")]
    for number, init in enumerate(inits):
        ours = tmp_path / f"ours{number}"
        _, said = run(compiled, "--init", init, "--save", f"{ours}/", "--save-shard-size", size)
        assert f"saved {ours}/" in said
        shutil.copy(tmp_path / "theirs/config.json", ours)
        loaded, report = GPT2LMHeadModel.from_pretrained(ours, output_loading_info=True)
        assert not any(report.values()), report
        assert same(stateOf(loaded), stateOf(model))
        assert loaded.lm_head.weight is loaded.transformer.wte.weight
    if not isSharded:
        assert sorted(path.name for path in ours.iterdir()) == ["config.json", "model.safetensors"]
        return
    # As they say: the index has every tensor, in the file that has it; no file is larger than asked unless for one tensor.
    index = json.loads((ours / INDEX).read_text())
    count = len(set(index["weight_map"].values()))
    assert count > 2 and index["metadata"] == {"total_size": sum(
        tensor.nbytes for number in range(count) for tensor in
        load_file(ours / f"model-{number + 1:05}-of-{count:05}.safetensors").values())}
    for path in ours.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            assert file.metadata() == {"format": "pt"}
            names = set(file.keys())
        assert names == {name for name, where in index["weight_map"].items() if where == path.name}
        tied = {"transformer.wte.weight", "lm_head.weight"}
        assert names == tied or sum(tensor.nbytes for tensor in load_file(path).values()) <= 40_000 or len(names) == 1
        assert tied <= names or not tied & names
    # Again: a set takes the place of the set before.
    before = {path.name: path.read_bytes() for path in ours.iterdir()}
    run(compiled, "--init", tmp_path / "theirs", "--save", f"{ours}/", "--save-shard-size", size)
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == before


def test_trained_tensors_and_moving_means_go_to_folders_of_their_own(compiled, tmp_path):
    plan, data = compiled
    averaged = tmp_path / "averaged.plan"
    tools.tool("compile", plan.parent / "model.onnx", "-o", averaged, "--loss", "cross_entropy(logits,labels)", "--ema", 0.9,
               "--optimizer", "sgd(lr=0.1)", "--freeze", "transformer.h.0.*")
    run((averaged, data), "--save", f"{tmp_path}/a/", "--save-trained", f"{tmp_path}/b/", "--save-ema", f"{tmp_path}/c/",
        "--save-shard-size", "40KB")
    run((averaged, data), "--save", tmp_path / "a.safetensors", "--save-trained", tmp_path / "b.safetensors", "--save-ema",
        tmp_path / "c.safetensors")
    for name in "abc":
        state = {}
        for path in (tmp_path / name).glob("model-*.safetensors"):
            state.update(load_file(path))
        assert same(state, load_file(tmp_path / f"{name}.safetensors"))


def test_an_index_that_lies_ends_the_run_before_it_begins(compiled, tmp_path):
    fresh(1).save_pretrained(tmp_path / "theirs", max_shard_size="40KB")
    index = json.loads((tmp_path / "theirs" / INDEX).read_text())
    del index["weight_map"]["transformer.ln_f.bias"]
    (tmp_path / "theirs" / INDEX).write_text(json.dumps(index))
    _, said = run(compiled, "--init", tmp_path / "theirs", code=1)
    assert "has tensor 'transformer.ln_f.bias', of which" in said and "step" not in said
    _, said = run(compiled, "--init", tmp_path, code=1)
    assert "has neither model.safetensors nor" in said


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_nothing_in_a_folder_is_lost(compiled, tmp_path):
    ours = tmp_path / "ours"
    save = ("--save", f"{ours}/", "--save-shard-size", "40KB")
    run(compiled, *save)
    (ours / "notes.txt").write_text("mine")
    before = contents(ours)
    # Another number of files, and one file, would leave files of the set before beside them.
    for size in ("20KB", "5GB"):
        _, said = run(compiled, "--save", f"{ours}/", "--save-shard-size", size, code=1)
        assert f"--save '{ours}/': has 'model-00001-of-" in said and "of another set of weights" in said
    # What is read is not written over, under whatever name; nor are two options for one folder.
    for init in (ours, ours / INDEX):
        _, said = run(compiled, "--init", init, *save, code=1)
        assert "is the same file as the weights" in said
    for other in ("new/", "./new/", "new//"):
        _, said = run(compiled, "--save", f"{tmp_path}/new/", "--save-trained", f"{tmp_path}/{other}", code=1)
        assert "is the same file as --save" in said and not (tmp_path / "new").exists()
    # A folder without its slash is none, and neither is a file with one, nor a folder in no folder.
    _, said = run(compiled, "--save", ours, code=1)
    assert f"--save '{ours}': is a folder; '{ours}/' saves the weights into it" in said
    _, said = run(compiled, "--save", f"{ours}/notes.txt/", code=1)
    assert "exists and is not a folder" in said
    _, said = run(compiled, "--save", f"{tmp_path}/none/new/", code=1)
    assert "the folder cannot be made: No such file" in said
    # Files of these names that are something else stay.
    (ours / INDEX).write_text("a list of mine")
    _, said = run(compiled, *save, code=1)
    assert "exists and is not an index of safetensors" in said
    (ours / INDEX).write_bytes(before[INDEX])
    assert contents(ours) == before
    # A run that fails leaves no folder behind, and neither does a check.
    plan, data = compiled
    arrays = dict(np.load(data))
    arrays["labels"] = arrays["labels"] * 0 + 64
    np.savez(tmp_path / "bad.npz", **arrays)
    _, said = run((plan, tmp_path / "bad.npz"), "--save", f"{tmp_path}/new/", code=1)
    assert not (tmp_path / "new").exists()
    run(compiled, "--save", f"{tmp_path}/new/", "--check")
    assert not (tmp_path / "new").exists()
    run(compiled, "--save", f"{tmp_path}/new/")
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize("size", ["5", "many", "0GB", "5XB"])
def test_a_size_that_is_none_is_refused(size, compiled, tmp_path):
    _, said = run(compiled, "--save", f"{tmp_path}/new/", "--save-shard-size", size, code=1)
    assert f"'{size}' is no size" in said and not (tmp_path / "new").exists()
