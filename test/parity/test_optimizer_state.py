"""Optimizer state goes between checkpoints and torch.optim: whoever goes on, the losses are the same."""

import json
from pathlib import Path

import pytest
import torch

import reference
import tools
from cases import GPT2_TENSOR
from models import MODELS
from safetensors.torch import load_file
from tools import Case

SCRIPT = Path(__file__).resolve().parents[2] / "tools/optimizer_state.py"
BEFORE, ALL = 3, 6

OPTIMIZERS = {
    "adamw(lr=1e-2,weight_decay=0.1)": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adam(lr=1e-2,amsgrad=True)": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "sgd(lr=0.1,momentum=0.9)": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd(lr=0.1)": lambda p: torch.optim.SGD(p, lr=0.1),
    "rmsprop(lr=1e-3,momentum=0.5,centered=True)": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "adagrad(lr=1e-2)": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "adafactor(lr=1e-2)": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}


def convert(*arguments, code=0, fresh=False):
    ended, output, errors = tools.script(SCRIPT, *arguments, fresh=fresh)
    assert ended == code, errors
    return output + errors


def steps(spec, model, optimizer, begin, end):
    data, losses = spec.data(1), []
    for step in range(begin, end):
        batch = reference.globalBatch(data, step, 1)
        optimizer.zero_grad()
        loss = spec.lossOf(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(plan, data, count, folder, *more):
    """A run with a log and a checkpoint at its end."""
    log = folder.with_suffix(".jsonl")
    tools.tool("run", plan, "--data", data, "--steps", count, "--order", "sequential", "--checkpoint", folder, "--log", log, *more)
    return [line["loss"] for line in tools.stepsOf(log)]


def checkpoint(folder, step):
    return folder / f"step-{step:09}"


def bothWays(case, optimizer, exported, dataset, tmp_path, names):
    plan = case.compile(exported(case.model), tmp_path / "plan", optimizer)
    data, spec = dataset(case.model, 1), case.spec
    model = spec.fresh()
    theirs = OPTIMIZERS[optimizer](model.parameters())
    torch.save(theirs.state_dict(), tmp_path / "fresh.pt")
    options = names(model, tmp_path)

    # What PyTorch has begun goes on here.
    begun = steps(spec, model, theirs, 0, BEFORE)
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    ours = run(plan, data, 1, tmp_path / "one")
    assert ours[0] == pytest.approx(begun[0], rel=1e-5)
    convert("from-torch", tmp_path / "theirs.pt", checkpoint(tmp_path / "one", 1), checkpoint(tmp_path / "theirs", BEFORE),
            "--step", BEFORE, "--weights", tmp_path / "weights.pt", *options)
    ours = run(plan, data, ALL, tmp_path / "on", "--resume", checkpoint(tmp_path / "theirs", BEFORE))
    assert ours == pytest.approx(steps(spec, model, theirs, BEFORE, ALL), rel=2e-4)

    # What is begun here goes on in PyTorch.
    run(plan, data, BEFORE, tmp_path / "begun", "--save", tmp_path / "begun.safetensors")
    whole = run(plan, data, ALL, tmp_path / "whole")
    convert("to-torch", checkpoint(tmp_path / "begun", BEFORE), tmp_path / "ours.pt", "--like", tmp_path / "fresh.pt", *options)
    model = spec.fresh()
    model.load_state_dict(load_file(tmp_path / "begun.safetensors"))
    theirs = OPTIMIZERS[optimizer](model.parameters())
    theirs.load_state_dict(torch.load(tmp_path / "ours.pt", weights_only=True))
    assert steps(spec, model, theirs, BEFORE, ALL) == pytest.approx(whole[BEFORE:], rel=2e-4)


def byNames(model, folder):
    (folder / "names.txt").write_text("\n".join(name for name, _ in model.named_parameters()))
    return "--names", folder / "names.txt"


def byState(model, folder):
    torch.save(model.state_dict(), folder / "names.pt")
    return "--names", folder / "names.pt"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_go_on_in_pytorch_and_here(optimizer, exported, dataset, tmp_path):
    bothWays(Case("mlp", "data=2"), optimizer, exported, dataset, tmp_path, byNames)


def test_of_a_transformer_on_four_ranks_with_tied_weights_too(exported, dataset, tmp_path):
    bothWays(Case("gpt2", "data=2,tensor=2", GPT2_TENSOR), "adamw(lr=1e-2,weight_decay=0.1)", exported, dataset, tmp_path, byState)


@pytest.fixture
def begun(exported, dataset, tmp_path):
    plan = Case("mlp", "data=1").compile(exported("mlp"), tmp_path / "plan", "adamw(lr=1e-2,weight_decay=0.1)")
    run(plan, dataset("mlp", 1), 1, tmp_path / "one")
    model = MODELS["mlp"].fresh()
    options = byNames(model, tmp_path)
    optimizer = torch.optim.AdamW(model.parameters())
    steps(MODELS["mlp"], model, optimizer, 0, 2)
    torch.save(optimizer.state_dict(), tmp_path / "theirs.pt")
    return checkpoint(tmp_path / "one", 1), options


def test_what_does_not_fit_is_refused(begun, tmp_path):
    one, names = begun
    order = (tmp_path / "names.txt").read_text().split()
    out = checkpoint(tmp_path / "out", 2)
    (tmp_path / "out").mkdir()
    back = ("from-torch", tmp_path / "theirs.pt", one, out, "--step")
    # Another number of steps, a missing, an unknown and a repeated name, another order, another optimizer.
    assert "was updated 2 times, and --step is 3" in convert(*back, 3, *names, code=1)
    for text, message in ((order[1:], f"does not name {order[0]}"), (["w", *order[1:]], "trains no w"),
                          ([*order, order[0]], f"names {order[0]} twice"), (order[::-1], "has shape")):
        (tmp_path / "wrong.txt").write_text("\n".join(text))
        assert message in convert(*back, 2, "--names", tmp_path / "wrong.txt", code=1)
    (tmp_path / "wrong.txt").write_text("\n".join(["w", *order[1:]]))
    convert("to-torch", one, tmp_path / "ours.pt", "--names", tmp_path / "wrong.txt", "--alias", f"w={order[0]}")
    model = MODELS["mlp"].fresh()
    for optimizer, message in ((torch.optim.SGD(model.parameters(), momentum=0.9), "they are two optimizers"),
                               (torch.optim.AdamW([model.fc1.weight]), "has 1 parameters")):
        steps(MODELS["mlp"], model, optimizer, 0, 1)
        torch.save(optimizer.state_dict(), tmp_path / "other.pt")
        assert message in convert("from-torch", tmp_path / "other.pt", one, out, "--step", 1, *names, code=1)
    state = model.state_dict()
    del state["fc2.bias"]
    torch.save(state, tmp_path / "short.pt")
    assert "has no fc2.bias" in convert(*back, 2, *names, "--weights", tmp_path / "short.pt", code=1)
    assert "is of an optimizer with 1 parameters" in convert("to-torch", one, tmp_path / "ours.pt", *names, "--like",
                                                           tmp_path / "other.pt", code=1)
    # Nothing is left of those, and nothing that is there is replaced.
    assert not any((tmp_path / "out").iterdir())
    convert(*back, 2, *names, fresh=True)
    assert "exists; give another name" in convert(*back, 2, *names, code=1)


def test_a_damaged_checkpoint_is_refused(begun, tmp_path):
    one, names = begun
    assert "is no checkpoint" in convert("to-torch", tmp_path, tmp_path / "ours.pt", *names, code=1)
    manifest, (shard,) = one / "manifest.json", one.glob("shard-*.safetensors")
    text, data = manifest.read_bytes(), shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "is damaged: a checksum differs" in convert("to-torch", one, tmp_path / "ours.pt", *names, code=1)
    shard.write_bytes(data)
    manifest.write_bytes(text.replace(b'"step": 1,', b'"step": 2,'))
    assert "its digest differs" in convert("to-torch", one, tmp_path / "ours.pt", *names, code=1)
    manifest.write_bytes(text)
    convert("to-torch", one, tmp_path / "ours.pt", *names, fresh=True)
    assert json.loads(text)["manifest"]["step"] == 1
