"""Each optimizer makes PyTorch's updates, or those of its paper, on parameters whole and in parts."""

import pytest
import torch

import reference
import tools
from cases import GPT2_TENSOR
from tools import Case

STEPS = 6


class Lion(torch.optim.Optimizer):
    """Chen et al., Symbolic Discovery of Optimization Algorithms (2023), program 1."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                first, second = group["betas"]
                update = torch.sign(first * m + (1 - first) * p.grad)
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                m.mul_(second).add_(p.grad, alpha=1 - second)


OPTIMIZERS = {
    "adagrad": ("adagrad(lr=0.05,lr_decay=0.1,weight_decay=0.02,initial_accumulator_value=0.1)",
                lambda p: torch.optim.Adagrad(p, 0.05, 0.1, 0.02, 0.1)),
    "rmsprop": ("RMSprop(1e-3, momentum=0.9, centered, eps=1e-3)",
                lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.9, centered=True, eps=1e-3)),
    "rmsprop-decay": ("rmsprop(lr=1e-3,alpha=0.9,eps=1e-3,weight_decay=0.1)",
                      lambda p: torch.optim.RMSprop(p, 1e-3, alpha=0.9, eps=1e-3, weight_decay=0.1)),
    "lion": ("lion(lr=1e-4,betas=0.9:0.99,weight_decay=0.5)", lambda p: Lion(p, 1e-4, (0.9, 0.99), 0.5)),
}
CASES = [Case("mlp", "data=1"), Case("mlp", "data=8", zero=3), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4),
         Case("gpt2", "data=2", zero=3)]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_those_of_the_reference(name, case, exported, dataset, tmp_path):
    text, make = OPTIMIZERS[name]
    plan = case.compile(exported(case.model), tmp_path / "plan", text)
    run = tools.train(plan, dataset(case.model, case.microbatches), STEPS, tmp_path / "run")
    model = case.spec.fresh().double()
    data, update, losses = case.spec.data(case.microbatches), make(model.parameters()), []
    sure = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters()}
    for step in range(STEPS):
        batch = {key: t.double() if t.is_floating_point() else t
                 for key, t in reference.globalBatch(data, step, case.microbatches).items()}
        update.zero_grad()
        loss = case.spec.lossOf(model, batch)
        loss.backward()
        if name == "lion":  # A sign is all of its update, and of what is zero but for rounding it is any: of keys' biases.
            for n, p in model.named_parameters():
                sure[n] &= p.grad.abs() > 1e-4 * p.grad.abs().max()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-4)
    before, theirs = reference.snapshot(case.spec.fresh().double()), reference.snapshot(model)
    ours = reference.loaded(case.model, run.tensors)
    assert sum(s.sum() for s in sure.values()) > 0.7 * sum(s.numel() for s in sure.values())
    moved = sum(((theirs[n] - before[n])[sure[n]] ** 2).sum() for n in sure) ** 0.5
    missed = sum(((theirs[n] - ours[n])[sure[n]] ** 2).sum() for n in sure) ** 0.5
    assert missed <= 1e-3 * moved
