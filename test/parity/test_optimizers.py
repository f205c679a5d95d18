"""Each optimizer makes PyTorch's updates, or those of its paper, on parameters whole and in parts."""

from unittest import mock

import pytest
import torch

import reference
import tools
from cases import GPT2_TENSOR, LLAMA_TENSOR, MLP_TENSOR, VIT_TENSOR
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


class Lamb(torch.optim.Optimizer):
    """You et al., Large Batch Optimization for Deep Learning (2020), algorithm 2, with bias correction."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
                first, second = group["betas"]
                m.mul_(first).add_(p.grad, alpha=1 - first)
                v.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                root = (v / (1 - second ** self.steps)).sqrt() + group["eps"]
                update = m / (1 - first ** self.steps) / root + group["weight_decay"] * p
                sizes = p.norm(), update.norm()
                p.sub_(group["lr"] * (sizes[0] / sizes[1] if min(sizes) > 0 else 1) * update)


class Muon:
    """PyTorch's Muon for matrices but tables of embeddings, and its AdamW for the rest. PyTorch orthogonalises in bfloat16; here its
    own code does so in the parameters' fp64, since Polyrank computes it in fp32."""

    def __init__(self, named, muon, adamw):
        named = list(named)
        isMatrix = {n: p.ndim == 2 and "wte" not in n and "wpe" not in n and "embed" not in n for n, p in named}
        self.parts = [torch.optim.Muon([p for n, p in named if isMatrix[n]], **muon),
                      torch.optim.AdamW([p for n, p in named if not isMatrix[n]], **adamw)]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        with mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
            for part in self.parts:
                part.step()


OPTIMIZERS = {
    "adagrad": ("adagrad(lr=0.05,lr_decay=0.1,weight_decay=0.02,initial_accumulator_value=0.1)",
                lambda p: torch.optim.Adagrad(p, 0.05, 0.1, 0.02, 0.1)),
    "rmsprop": ("RMSprop(1e-3, momentum=0.9, centered, eps=1e-3)",
                lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.9, centered=True, eps=1e-3)),
    "rmsprop-decay": ("rmsprop(lr=1e-3,alpha=0.9,eps=1e-3,weight_decay=0.1)",
                      lambda p: torch.optim.RMSprop(p, 1e-3, alpha=0.9, eps=1e-3, weight_decay=0.1)),
    "lion": ("lion(lr=1e-4,betas=0.9:0.99,weight_decay=0.5)", lambda p: Lion(p, 1e-4, (0.9, 0.99), 0.5)),
    "lamb": ("lamb(1e-3,(0.9,0.99),eps=1e-3,weight_decay=0.1)", lambda p: Lamb(p, 1e-3, (0.9, 0.99), 1e-3, 0.1)),
    # PyTorch's eps is that of the parameters' type, here fp64.
    "adafactor": ("adafactor(lr=1e-2,eps=(1e-4,1e-3),weight_decay=0.1)",
                  lambda p: torch.optim.Adafactor(p, 1e-2, eps=(1e-4, 1e-3), weight_decay=0.1)),
}
MUON = {
    "muon": ("lr=1e-2,adamw_lr=1e-3,adamw_eps=1e-3", dict(lr=1e-2), dict(lr=1e-3, eps=1e-3)),
    "muon-rms": ("lr=1e-3,weight_decay=0.3,momentum=0.8,nesterov=False,adjust_lr_fn=match_rms_adamw,adamw_eps=1e-3,ns_steps=3",
                 dict(lr=1e-3, weight_decay=0.3, momentum=0.8, nesterov=False, adjust_lr_fn="match_rms_adamw", ns_steps=3),
                 dict(lr=1e-3, eps=1e-3)),
}
CASES = [Case("mlp", "data=1"), Case("mlp", "data=8", zero=3), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4),
         Case("gpt2", "data=2", zero=3)]

MORE = [Case("gpt2", "data=2", zero=0), Case("gpt2", "data=2"), Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR),
        Case("llama", "data=2,tensor=2", LLAMA_TENSOR, microbatches=4, zero=2), Case("vit", "data=2,tensor=2", VIT_TENSOR),
        Case("mlp", "data=2,tensor=2", MLP_TENSOR, zero=3)]
#: Those whose update of an element needs the whole tensor meet more ways to lay that out.
NEEDS_ALL = ("lamb", "adafactor")


@pytest.mark.parametrize("name,case", [(name, case) for name in OPTIMIZERS for case in CASES + MORE * (name in NEEDS_ALL)], ids=str)
def test_updates_are_those_of_the_reference(name, case, exported, dataset, tmp_path):
    text, make = OPTIMIZERS[name]
    compare(case, text, lambda model: make(model.parameters()), exported, dataset, tmp_path, isSign=name == "lion")


@pytest.mark.parametrize("case", CASES + MORE, ids=str)
@pytest.mark.parametrize("name", MUON)
def test_muon_updates_matrices_and_adamw_the_rest(name, case, exported, dataset, tmp_path):
    text, muon, adamw = MUON[name]
    tables = "" if case.model == "mlp" else ",adamw=*wte*:*wpe*" if "gpt2" in case.model else ",adamw=*embed*"
    compare(case, f"muon({text}{tables})", lambda model: Muon(model.named_parameters(), muon, adamw), exported, dataset, tmp_path)


def compare(case, text, make, exported, dataset, tmp_path, isSign=False, more=(), clip=None):
    plan = case.compile(exported(case.model), tmp_path / "plan", text, *more)
    run = tools.train(plan, dataset(case.model, case.microbatches), STEPS, tmp_path / "run")
    model = case.spec.fresh().double()
    data, update, losses = case.spec.data(case.microbatches), make(model), []
    sure = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters()}
    for step in range(STEPS):
        batch = {key: t.double() if t.is_floating_point() else t
                 for key, t in reference.globalBatch(data, step, case.microbatches).items()}
        update.zero_grad()
        loss = case.spec.lossOf(model, batch)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if isSign:  # A sign is all of its update, and of what is zero but for rounding it is any: of keys' biases.
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


@pytest.mark.parametrize("name", NEEDS_ALL)
def test_what_is_updated_as_a_whole_is_clipped_before(name, exported, dataset, tmp_path):
    text, make = OPTIMIZERS[name]
    compare(Case("gpt2", "data=2,tensor=2", GPT2_TENSOR), text, lambda model: make(model.parameters()), exported, dataset, tmp_path,
            more=("--clip-norm", 0.5), clip=0.5)
