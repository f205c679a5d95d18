"""What a plan trains is what PyTorch trains, on real processes, for every row of the table."""

import pytest
import torch

import reference
import shared
import tools
from cases import CASES, REPEATED, STAGES, TRIED_WITH_MUTANTS, rows

each_case = pytest.mark.parametrize("case", rows(CASES + STAGES, TRIED_WITH_MUTANTS))


@pytest.fixture
def sgd(exported):
    """Case -> its plan with SGD, for two tests, of which one gives another rate."""
    def get(case):
        return shared.made(f"sgd-{case}", lambda folder: case.compile(
            exported(case.model), folder / "plan", f"sgd(lr={case.spec.sgd})")) / "plan"

    return get


def worst(differences):
    return max(differences.items(), key=lambda item: item[1])


@each_case
def test_ten_adamw_steps_have_pytorchs_losses(case, adamw, dataset, tmp_path):
    plan = adamw(case)
    data = dataset(case.model, case.microbatches)
    run = tools.train(plan, data, 10, tmp_path / "run")
    theirs, _ = reference.train(case.model, case.microbatches, "adamw", 10, torch.float32)
    reference.checkLosses(run.losses, theirs, case.model, case.microbatches, "adamw", 10)
    assert run.losses[0] == pytest.approx(theirs[0], rel=1e-5)
    if case in REPEATED:
        again = tools.train(plan, data, 10, tmp_path / "again")
        assert again.losses == run.losses
        assert again.weights.read_bytes() == run.weights.read_bytes()


@each_case
def test_first_gradients_are_pytorchs_in_fp64(case, sgd, dataset, tmp_path):
    run = tools.train(sgd(case), dataset(case.model, case.microbatches), 1, tmp_path / "run",
                      "--lr", f"{reference.GRADIENT_RATE:.0f}")
    before = reference.snapshot(case.spec.fresh())
    after = reference.loaded(case.model, run.tensors)
    gradients = {name: (before[name] - after[name]) / reference.GRADIENT_RATE for name in before}
    name, difference = worst(reference.differences(
        gradients, reference.gradients(case.model, case.microbatches)))
    assert difference <= 1e-4 or difference <= 3 * reference.gradientSpread(case.model, case.microbatches), name


@each_case
def test_sgd_steps_make_pytorchs_updates(case, sgd, dataset, tmp_path):
    steps = case.spec.steps
    run = tools.train(sgd(case), dataset(case.model, case.microbatches), steps, tmp_path / "run")
    before = reference.snapshot(case.spec.fresh())
    ours = reference.loaded(case.model, run.tensors)
    _, theirs = reference.train(case.model, case.microbatches, "sgd", steps, torch.float64)
    # The test would see little if a tensor hardly moved.
    assert all((theirs[n] - before[n]).norm() >= 0.01 * before[n].norm() for n in before
               if not reference.isNoise(n))
    # Where PyTorch is further from itself than this, three times that.
    def withinSpread(difference, number):
        return difference <= 3 * reference.spread(case.model, case.microbatches, "sgd", steps)[number]

    name, difference = worst(reference.differences(
        {n: ours[n] - before[n] for n in before}, {n: theirs[n] - before[n] for n in before}))
    assert difference <= 1e-3 or withinSpread(difference, 1), f"update of {name}"
    name, difference = worst({n: ((ours[n] - theirs[n]).norm() / theirs[n].norm()).item()
                              for n in before})
    assert difference <= 1e-5 or withinSpread(difference, 2), f"value of {name}"


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("optimizer, option", [
    (lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9), "sgd(lr=0.5,momentum=0.9)"),
    (lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1), "adamw(lr=1e-2,weight_decay=0.1)")],
    ids=["momentum", "adamw"])
def test_a_batch_whose_labels_are_all_ignored_has_a_nan_loss_and_zero_gradients(
        optimizer, option, microbatches, exported, tmp_path):
    """Momentum and decay go on; the run does, and ends well."""
    case = tools.Case("mlp", "data=2", microbatches=microbatches)
    plan = case.compile(exported("mlp"), tmp_path / "plan", option)
    data = {name: tensor.clone() for name, tensor in case.spec.data(microbatches).items()}
    size = len(reference.globalBatch(data, 0, microbatches)["labels"])
    data["labels"][size:2 * size] = -100
    data["labels"][:size // 2] = -100
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(plan, tmp_path / "data.npz", 4, tmp_path / "run")
    model = case.spec.fresh()
    update = optimizer(model.parameters())
    for step in range(4):
        batch = reference.globalBatch(data, step, microbatches)
        update.zero_grad()
        loss = case.spec.lossOf(model, batch)
        loss.backward()
        update.step()
        assert run.log[step]["count"] == (batch["labels"] != -100).sum()
        assert (run.losses[step] is None) == loss.isnan().item()
        if step != 1:
            assert run.losses[step] == pytest.approx(loss.item(), rel=1e-5)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(run.tensors[name], tensor, atol=1e-5), name
