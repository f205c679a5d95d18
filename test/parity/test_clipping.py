"""Clipped gradients, their norm and what becomes of the weights are PyTorch's, whatever is split."""

import json

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import reference
import tools
from cases import GPT2_SEQUENCE, GPT2_TENSOR, LLAMA_TENSOR
from tools import Case

STEPS = 6
KINDS = {"2": (("--clip-norm", 0.4), lambda p: clip_grad_norm_(p, 0.4)),
         "inf": (("--clip-norm", 0.02, "--clip-norm-type", "inf"), lambda p: clip_grad_norm_(p, 0.02, "inf")),
         "loose": (("--clip-norm", 1e6), lambda p: clip_grad_norm_(p, 1e6)),
         "value": (("--clip-value", 3e-3), lambda p: clip_grad_value_(p, 3e-3))}
CASES = [(Case("mlp", "data=1"), "2"), (Case("mlp", "data=2", microbatches=4), "2"),
         (Case("mlp", "data=8"), "inf"), (Case("mlp", "data=2,tensor=2", ("fc1.weight=[tensor,-]",)), "value"),
         (Case("gpt2", "data=2", zero=0), "2"), (Case("gpt2", "data=2"), "2"), (Case("gpt2", "data=2"), "loose"),
         (Case("gpt2", "data=2,tensor=2", GPT2_TENSOR), "2"),
         (Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4), "inf"),
         (Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE), "2"),
         (Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR), "2"),  # norms over padded heads
         (Case("llama-tied", "data=2", microbatches=4), "2"), (Case("llama", "data=2,tensor=2", LLAMA_TENSOR), "value"),
         (Case("resnet", "data=2"), "2")]


def theirs(case, clip, dtype):
    """Losses, norms before clipping and weights of SGD with momentum."""
    model = case.spec.fresh().to(dtype)
    data = case.spec.data(case.microbatches)
    update = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    losses, norms = [], []
    for step in range(STEPS):
        batch = {name: t.to(dtype) if t.is_floating_point() else t
                 for name, t in reference.globalBatch(data, step, case.microbatches).items()}
        update.zero_grad()
        loss = case.spec.lossOf(model, batch)
        loss.backward()
        norms.append(clip(model.parameters()))
        update.step()
        losses.append(loss.item())
    return losses, norms, reference.snapshot(model)


@pytest.mark.parametrize("case, kind", CASES, ids=lambda value: str(value))
def test_clipping_is_pytorchs(case, kind, exported, dataset, tmp_path):
    options, clip = KINDS[kind]
    plan = case.compile(exported(case.model), tmp_path / "plan", "sgd(lr=0.3,momentum=0.9)", *options)
    run = tools.train(plan, dataset(case.model, case.microbatches), STEPS, tmp_path / "run")
    losses, norms, weights = theirs(case, clip, torch.float64)
    assert run.losses == pytest.approx(losses, rel=1e-4)
    if kind != "value":
        assert [line["grad_norm"] for line in run.log] == pytest.approx([n.item() for n in norms], rel=1e-3)
    ours = reference.loaded(case.model, run.tensors)
    for name, weight in weights.items():
        assert (ours[name] - weight).norm() <= 1e-4 * weight.norm(), name


def test_clipping_reduces_one_more_number(exported, tmp_path):
    """The update stays split: gradients are reduced to parts, with and without clipping."""
    def collectives(*options):
        plan = Case("gpt2", "data=2").compile(exported("gpt2"), tmp_path / "plan", "adamw", *options)
        return sorted((line["kind"], line["bytes"]) for line in tools.inspect(plan)["collectives"])

    plain, clipped = collectives(), collectives("--clip-norm", 1)
    for line in plain:
        clipped.remove(line)
    assert len(clipped) == 1 and clipped[0][0] == "AllReduce" and clipped[0][1] <= 8


@pytest.mark.parametrize("options, message", [
    (("--clip-norm", 1, "--clip-value", 1), "excludes"), (("--clip-norm", -1), "--clip-norm"),
    (("--clip-norm-type", "inf"), "--clip-norm"), (("--clip-norm", 1, "--clip-norm-type", "3"), "--clip-norm-type"),
    (("--mode", "forward", "--clip-norm", 1), "no gradients")])
def test_what_cannot_be_meant_is_refused(options, message, exported, tmp_path):
    loss = () if "forward" in options else ("--loss", "cross_entropy(logits,labels)")
    _, errors = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=1", *loss, *options,
                           code=1)
    assert message in errors
