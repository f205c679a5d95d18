"""A model that is cut into stages trains as in PyTorch, whatever the schedule and whatever else its ranks do."""

import dataclasses

import pytest
import torch

import reference
import sampling
import tools
from pipelines import PIPELINES, valuesOf
from tools import Case

ADAMW = "adamw(lr=1e-3,betas=0.9:0.999,eps=1e-8,weight_decay=0.01)"
SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("zero-bubble", 1), ("interleaved", 3), ("zero-bubble-v", 2)]


@pytest.mark.parametrize("case", sampling.rows(PIPELINES, valuesOf))
def test_adamw_steps_have_pytorchs_losses(case, adamw, dataset, tmp_path):
    run = tools.train(adamw(case), dataset(case.model, case.microbatches), 4, tmp_path / "run")
    theirs, _ = reference.train(case.model, case.microbatches, "adamw", 4, torch.float32, clip=case.clip)
    reference.checkLosses(run.losses, theirs, case.model, case.microbatches, "adamw", 4, case.clip)
    assert run.losses[0] == pytest.approx(theirs[0], rel=1e-5)
    # No stage's parameters are missing.
    reference.loaded(case.model, run.tensors)


@pytest.mark.parametrize("case", sampling.rows([dataclasses.replace(case, clip=0) for case in PIPELINES], valuesOf))
def test_first_gradients_are_pytorchs_in_fp64(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", f"sgd(lr={reference.GRADIENT_RATE:.0f})")
    run = tools.train(plan, dataset(case.model, case.microbatches), 1, tmp_path / "run")
    before = reference.snapshot(case.spec.fresh())
    after = reference.loaded(case.model, run.tensors)
    gradients = {name: (before[name] - after[name]) / reference.GRADIENT_RATE for name in before}
    name, difference = max(reference.differences(
        gradients, reference.gradients(case.model, case.microbatches)).items(), key=lambda item: item[1])
    assert difference <= 1e-4 or difference <= 3 * reference.gradientSpread(case.model, case.microbatches), name


# Of the translator the gradients of one value, which each layer of the decoder reads, are added up stage by stage, so that
# bits depend on the cut. What is computed again is read with other strides, on which its products depend (docs/recompute.md).
@pytest.mark.parametrize("model, schedules, recomputes", [
    ("gpt2-deep", SCHEDULES, ("", "selective")),
    ("translator", [("gpipe", 1), ("1f1b", 1), ("zero-bubble", 1)], ("",)),
    ("translator", [("gpipe", 2), ("interleaved", 2), ("zero-bubble-v", 2)], ("",))], ids=["gpt2", "translator", "translator-chunks"])
def test_schedules_and_recompute_change_no_bit(model, schedules, recomputes, exported, dataset, tmp_path):
    first = None
    for schedule, chunks in schedules:
        for recompute in recomputes:
            case = Case(model, "data=2,pipe=2", microbatches=4, schedule=schedule, chunks=chunks, recompute=recompute)
            plan = case.compile(exported(model), tmp_path / "plan", ADAMW)
            tensors = tools.train(plan, dataset(model, 4), 3, tmp_path / "run").tensors
            first = first or tensors
            for name, tensor in first.items():
                assert torch.equal(tensors[name], tensor), (schedule, recompute, name)


def test_a_trained_pipeline_goes_on_without_one(exported, dataset, tmp_path):
    """Files know nothing of stages."""
    piped, plain = Case("gpt2-deep", "pipe=4", microbatches=2), Case("gpt2-deep", "data=2", microbatches=2)
    data = dataset("gpt2-deep", 2)
    trained = tools.train(piped.compile(exported("gpt2-deep"), tmp_path / "piped", ADAMW), data, 2, tmp_path / "a")
    for case in (piped, plain):
        plan = case.compile(exported("gpt2-deep"), tmp_path / "plan", "sgd(lr=0)")
        idle = tools.train(plan, data, 1, tmp_path / "b", "--init", trained.weights)
        for name, tensor in trained.tensors.items():
            assert torch.equal(idle.tensors[name], tensor), name
