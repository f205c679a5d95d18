"""Learning rates of each step are those of PyTorch's and transformers' schedulers, and groups those of PyTorch's optimizers."""

import warnings

import numpy as np
import pytest
import torch
import transformers.optimization as transformers
from torch import nn
from torch.optim import lr_scheduler as torch_lr

import reference
import tools
from cases import GPT2_TENSOR
from tools import Case, tool

STEPS = 3000
BASES = (1e-3, 0.17)
MLP = Case("mlp", "data=1")
warnings.filterwarnings("ignore", module="torch.optim.lr_scheduler")


def behind(warmup, start, make):
    """A linear warm-up in front of a scheduler."""
    return lambda o: torch_lr.SequentialLR(o, [torch_lr.LinearLR(o, start, 1.0, warmup), make(o)], [warmup])


def oneCycle(steps, **options):
    return lambda o: torch_lr.OneCycleLR(o, [g["lr"] for g in o.param_groups], steps, cycle_momentum=False, **options)


SCHEDULES = {
    "constant(warmup=100)": lambda o: transformers.get_constant_schedule_with_warmup(o, 100),
    "constant(warmup=300,warmup_start=1/3)": lambda o: torch_lr.LinearLR(o, 1 / 3, 1.0, 300),
    "linear(total=2500,end=0.1)": lambda o: torch_lr.LinearLR(o, 1.0, 0.1, 2500),
    "linear(warmup=500,total=3000)": lambda o: transformers.get_linear_schedule_with_warmup(o, 500, 3000),
    "polynomial(total=3000,power=0.9)": lambda o: torch_lr.PolynomialLR(o, 3000, 0.9),
    "polynomial(total=2000,power=2,warmup=200,warmup_start=0.01)":
        behind(200, 0.01, lambda o: torch_lr.PolynomialLR(o, 1800, 2.0)),
    # Its lr_end is of the optimizer's rate, and of groups in proportion.
    "polynomial(total=2500,power=2,min=x0.01,warmup=20)":
        lambda o: transformers.get_polynomial_decay_schedule_with_warmup(o, 20, 2500, 0.01 * o.defaults["lr"], 2.0),
    "cosine(total=3000)": lambda o: torch_lr.CosineAnnealingLR(o, 3000),
    "cosine(warmup=100,warmup_start=0.001,total=3000,min=1e-5)":
        behind(100, 0.001, lambda o: torch_lr.CosineAnnealingLR(o, 2900, 1e-5)),
    "cosine(warmup=100,total=3000)": lambda o: transformers.get_cosine_schedule_with_warmup(o, 100, 3000),
    "cosine(warmup=100,total=3000,cycles=2.25)": lambda o: transformers.get_cosine_schedule_with_warmup(o, 100, 3000, 2.25),
    "cosine(warmup=100,total=3000,min=x0.1)":
        lambda o: transformers.get_cosine_with_min_lr_schedule_with_warmup(o, 100, 3000, min_lr_rate=0.1),
    "one_cycle(total=3000)": oneCycle(3000),
    "one_cycle(total=3000,pct_start=0.25,anneal_strategy=linear,three_phase=true,div_factor=10,final_div_factor=100)":
        oneCycle(3000, pct_start=0.25, anneal_strategy="linear", three_phase=True, div_factor=10, final_div_factor=100),
    "inverse_sqrt(warmup=100)": lambda o: transformers.get_inverse_sqrt_schedule(o, 100),
    "inverse_sqrt": lambda o: transformers.get_inverse_sqrt_schedule(o, 0),
    "inverse_sqrt(warmup=100,timescale=1000)": lambda o: transformers.get_inverse_sqrt_schedule(o, 100, 1000),
    "wsd(warmup=100,decay=1000,total=3000)": lambda o: transformers.get_wsd_schedule(o, 100, 1000, 3000),
    "wsd(warmup=100,decay=1000,total=2500,decay_type=linear,min=x0.1,warmup_start=0.1)":
        lambda o: transformers.get_wsd_schedule(o, 100, 1000, 2500, decay_type="linear", min_lr_ratio=0.1),
    "wsd(warmup=100,decay=1000,total=3000,decay_type=1-sqrt)":
        lambda o: transformers.get_wsd_schedule(o, 100, 1000, 3000, decay_type="1-sqrt"),
    "exponential(gamma=0.999)": lambda o: torch_lr.ExponentialLR(o, 0.999),
    "exponential(gamma=0.999,warmup=50,warmup_start=0.5)": behind(50, 0.5, lambda o: torch_lr.ExponentialLR(o, 0.999)),
    "step(size=500)": lambda o: torch_lr.StepLR(o, 500),
    "step(size=300,gamma=0.5,warmup=50,warmup_start=0.5)": behind(50, 0.5, lambda o: torch_lr.StepLR(o, 300, 0.5)),
}


@pytest.fixture(scope="module")
def plan(exported, tmp_path_factory):
    """A small training plan without a schedule, with a rate that its group has and one of its own."""
    return MLP.compile(exported("mlp"), tmp_path_factory.mktemp("rates") / "plan", "sgd(lr=1e-3)",
                       "--group", "fc1.*: lr=x0.3", "--group", "fc2.*: lr=0.2")


def rates(plan, data, steps, *options):
    """What each step's line of the log says: of the optimizer, of both groups."""
    log = plan.parent / "log.jsonl"
    tool("run", plan, "--data", data, "--steps", steps, "--log", log, "--allow-nan", "--quiet", *options)
    return [[line[name] for line in tools.stepsOf(log)] for name in ("lr", "lr(x0.3)", "lr(0.2)")]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("text", SCHEDULES)
def test_each_step_has_the_rate_of_the_reference(text, base, plan, dataset):
    ours = rates(plan, dataset("mlp", 1), STEPS, "--lr", base, "--lr-schedule", text)
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (base, 0.3 * base, 0.2)]
    optimizer = torch.optim.SGD(groups, lr=base)
    scheduler, theirs = SCHEDULES[text](optimizer), []
    for _ in range(STEPS):
        theirs.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    for mine, reference in zip(ours, zip(*theirs)):
        assert np.array_equal(np.float32(mine), np.float32(reference))


def theirs(case, make, schedule=None, frozen=(), steps=6, dtype=torch.float64):
    """Losses and weights of PyTorch's optimizer, whose groups `make` chooses by name."""
    model = case.spec.fresh().to(dtype)
    data = case.spec.data(case.microbatches)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.endswith(tuple(frozen)) if frozen else True
    optimizer = make({n: p for n, p in model.named_parameters() if p.requires_grad})
    scheduler = schedule and schedule(optimizer)
    losses = []
    for step in range(steps):
        batch = {name: t.to(dtype) if t.is_floating_point() else t
                 for name, t in reference.globalBatch(data, step, case.microbatches).items()}
        optimizer.zero_grad()
        loss = case.spec.lossOf(model, batch)
        loss.backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses, reference.snapshot(case.spec.fresh().to(dtype)), reference.snapshot(model)


def compare(case, run, losses, before, after):
    assert run.losses == pytest.approx(losses, rel=1e-4)
    ours = reference.loaded(case.model, run.tensors)
    moved = sum(((after[n] - before[n]) ** 2).sum() for n in before) ** 0.5
    missed = sum(((after[n] - ours[n]) ** 2).sum() for n in before) ** 0.5
    assert missed <= 1e-3 * moved
    for name in before:  # a group's parameters move by their own rate, which may be small beside others'
        own = (after[name] - before[name]).norm()
        assert (after[name] - ours[name]).norm() <= 1e-2 * own + 1e-6 * after[name].norm(), name


TRAINED = {"cosine(warmup=2,warmup_start=0.25,total=6,min=1e-4)":
           behind(2, 0.25, lambda o: torch_lr.CosineAnnealingLR(o, 4, 1e-4)),
           "one_cycle(total=6,pct_start=0.5)": oneCycle(6, pct_start=0.5),
           "step(size=2,gamma=0.5)": lambda o: torch_lr.StepLR(o, 2, 0.5)}


@pytest.mark.parametrize("case", [Case("gpt2", "data=2"), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4, zero=3)],
                         ids=str)
@pytest.mark.parametrize("text", TRAINED)
def test_training_with_a_schedule_is_pytorchs(text, case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "adamw(lr=1e-2,weight_decay=0.5,eps=1e-6)", "--lr-schedule", text)
    run = tools.train(plan, dataset(case.model, case.microbatches), 6, tmp_path / "run")
    compare(case, run, *theirs(case, lambda p: torch.optim.AdamW(p.values(), 1e-2, weight_decay=0.5, eps=1e-6), TRAINED[text]))


def test_a_rate_given_to_the_run_is_as_if_it_were_compiled(exported, dataset, tmp_path):
    group, text = ("--group", "fc1.*: lr=x0.3, weight_decay=0"), "cosine(warmup=2,total=5)"

    def weights(name, lr, compiled=(), run=()):
        plan = MLP.compile(exported("mlp"), tmp_path / name, f"adamw(lr={lr})", *group, *compiled)
        done = tools.train(plan, dataset("mlp", 1), 5, tmp_path / name, *run)
        return done.weights.read_bytes(), [(line["lr"], line["lr(x0.3)"]) for line in done.log]

    expected = weights("compiled", 0.03, ("--lr-schedule", text))
    assert weights("run", 0.001, (), ("--lr", 0.03, "--lr-schedule", text)) == expected
    assert weights("both", 0.001, ("--lr-schedule", "step(size=1)"), ("--lr", 0.03, "--lr-schedule", text)) == expected
    assert weights("rate", 0.001, ("--lr-schedule", text), ("--lr", 0.03)) == expected
    assert weights("other", 0.001, ("--lr-schedule", text)) != expected


def grouped(optimizer, patterns, **options):
    """PyTorch's optimizer with a group for each pattern (the end of a name), and one for the rest."""
    def make(parameters):
        def groupOf(name):
            return next((i for i, (end, _) in enumerate(patterns) if name.endswith(end)), len(patterns))
        lists = [{"params": [p for n, p in parameters.items() if groupOf(n) == i], **own}
                 for i, (_, own) in enumerate([*patterns, ("", {})])]
        return optimizer([group for group in lists if group["params"]], **options)
    return make


# Options, PyTorch's optimizer, and what is frozen.
GROUPS = {
    "rates": (("adamw(lr=1e-2,eps=1e-6)", "--group", "*.bias: lr=x0.1, weight_decay=0", "--group", "wte.weight: lr=3e-3"),
              grouped(torch.optim.AdamW, [("bias", dict(lr=1e-3, weight_decay=0)), ("wte.weight", dict(lr=3e-3))],
                      lr=1e-2, eps=1e-6), ()),
    "states": (("sgd(lr=0.1,momentum=0.9)", "--group", "*.bias: momentum=0, lr=1", "--group", "*.c_fc.weight: nesterov, momentum=0.5"),
               grouped(torch.optim.SGD, [("bias", dict(momentum=0, lr=1)), ("c_fc.weight", dict(nesterov=True, momentum=0.5))],
                       lr=0.1, momentum=0.9), ()),
    "amsgrad": (("adam(lr=1e-3,eps=1e-6)", "--group", "*.weight: amsgrad, betas=(0.5,0.9), eps=1e-4"),
                grouped(torch.optim.Adam, [("weight", dict(amsgrad=True, betas=(0.5, 0.9), eps=1e-4))], lr=1e-3, eps=1e-6), ()),
    "frozen": (("adamw(lr=1e-2,eps=1e-6)", "--freeze", "*.c_attn.*", "--freeze", "wpe.weight", "--group",
                "*.bias: lr=x0.1, weight_decay=0"),
               grouped(torch.optim.AdamW, [("bias", dict(lr=1e-3, weight_decay=0))], lr=1e-2, eps=1e-6),
               ("c_attn.weight", "c_attn.bias", "wpe.weight")),
    "only": (("adamw(lr=1e-2,eps=1e-6)", "--train-only", "*.mlp.*", "--group", "mlp.*.weight: lr=x2"),
             grouped(torch.optim.AdamW, [("weight", dict(lr=2e-2))], lr=1e-2, eps=1e-6),
             ("c_attn.weight", "c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias", "wpe.weight", "wte.weight",
              "ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias", "ln_f.weight", "ln_f.bias")),
}


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("kind", GROUPS)
def test_groups_are_pytorchs(kind, zero, exported, dataset, tmp_path):
    case = Case("gpt2", "data=2", zero=zero)
    options, make, frozen = GROUPS[kind]
    plan = case.compile(exported("gpt2"), tmp_path / "plan", *options)
    run = tools.train(plan, dataset("gpt2", 1), 6, tmp_path / "run")
    compare(case, run, *theirs(case, make, frozen=frozen))


@pytest.mark.parametrize("case", [Case("gpt2", "data=2", zero=3), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4)],
                         ids=str)
def test_a_schedule_has_its_shape_for_each_group(case, exported, dataset, tmp_path):
    options, make, _ = GROUPS["rates"]
    text = "cosine(warmup=2,warmup_start=0.25,total=6,min=1e-4)"
    plan = case.compile(exported("gpt2"), tmp_path / "plan", *options, "--lr-schedule", text)
    run = tools.train(plan, dataset("gpt2", case.microbatches), 6, tmp_path / "run")
    compare(case, run, *theirs(case, make, TRAINED[text]))


class Adapted(nn.Module):
    """A linear layer beside which a low-rank one is trained (LoRA)."""

    def __init__(self, inputs, outputs, rank=2, alpha=4):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.lora_A = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
def test_adapters_train_with_the_base_frozen(mesh, tmp_path):
    """LoRA+ (Hayou et al., 2024): B learns faster than A, whose gradient is zero in the first step."""
    torch.manual_seed(3)
    model = nn.Sequential(Adapted(8, 16), nn.GELU(), Adapted(16, 5)).eval()
    x, labels = torch.randn(48, 8), torch.randint(5, (48,))
    torch.onnx.export(model, (x[:8],), tmp_path / "m.onnx", input_names=["x"], output_names=["logits"], dynamo=True,
                      optimize=False, verbose=False)
    tools.saveData(tmp_path / "data.npz", {"x": x, "labels": labels})
    notes = tool("compile", tmp_path / "m.onnx", "-o", tmp_path / "plan", "--mesh", mesh, "--zero-threshold", 1, "--loss",
                 "cross_entropy(logits,labels)", "--optimizer", "adamw(lr=1e-2,eps=1e-6)", "--train-only", "*.lora_*",
                 "--group", "*.lora_B: lr=x16, weight_decay=0", "--lr-schedule", "linear(total=12)")[1]
    assert "--group '*.lora_B: lr=x16, weight_decay=0': 2 parameters, " in notes
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 12, tmp_path / "run")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "lora_" in name
    optimizer = torch.optim.AdamW([{"params": [layer.lora_B for layer in model[::2]], "lr": 0.16, "weight_decay": 0},
                                   {"params": [layer.lora_A for layer in model[::2]]}], lr=1e-2, eps=1e-6)
    scheduler = torch_lr.LinearLR(optimizer, 1.0, 0.0, 12)
    for step in range(12):
        rows = slice(step % 6 * 8, step % 6 * 8 + 8)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows].double()), labels[rows]).backward()
        optimizer.step()
        scheduler.step()
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            assert (run.tensors[name] - parameter).norm() <= 1e-3 * (parameter - before[name]).norm(), name
        else:
            assert torch.equal(run.tensors[name], before[name]), name


def test_the_plan_says_its_rates(plan):
    assert tools.inspect(plan)["learning_rate"] == {"base": 1e-3, "schedule": "constant",
                                                    "rates": ["lr(x0.3)", "lr(0.2)", "lr"]}
    assert "learning rate 0.001, constant: lr(x0.3), lr(0.2), lr" in tool("inspect", plan)[0]


LOSS = ("--loss", "cross_entropy(logits,labels)")


@pytest.mark.parametrize("options, reason", [
    ((*LOSS, "--lr-schedule", "cosin(total=9)"), "--lr-schedule 'cosin(total=9)': there is no schedule 'cosin'"),
    ((*LOSS, "--lr-schedule", "cosine"), "give total=N"),
    ((*LOSS, "--group", "fc9.*: lr=1"), "--group 'fc9.*: lr=1': 'fc9.*' matches no trainable parameter; nearest: 'fc1"),
    ((*LOSS, "--freeze", "fc1.*", "--group", "fc1.weight: lr=1"), "'fc1.weight' is frozen"),
    ((*LOSS, "--group", "fc1.*: lr=1", "--group", "*.weight: lr=2"), "both name 'fc1.weight'"),
    (("--mode", "forward", "--lr-schedule", "cosine(total=9)"), "--lr-schedule: a forward plan changes no weights"),
    (("--mode", "forward", "--group", "fc1.*: lr=1"), "--group: a forward plan changes no weights")])
def test_what_cannot_be_meant_is_not_compiled(options, reason, exported, tmp_path):
    assert reason in tool("compile", exported("mlp"), "-o", tmp_path / "plan", *options, code=1)[1]
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize("options, reason", [
    (("--lr", -1), "--lr -1: must be a number that is not negative"), (("--lr", "nan"), "--lr nan: must be a number"),
    (("--lr-schedule", "cosine(total=9,warmup=9)"), "--lr-schedule 'cosine(total=9,warmup=9)': cosine: total=9 leaves no step")])
def test_what_cannot_be_meant_is_not_run(options, reason, plan, dataset):
    assert reason in tool("run", plan, "--data", dataset("mlp", 1), "--steps", 1, *options, code=1)[1]


def test_a_run_has_nothing_to_change_in_a_forward_plan_or_where_each_group_has_its_rate(exported, dataset, tmp_path):
    tool("compile", exported("mlp"), "-o", tmp_path / "forward", "--mode", "forward")
    for option, value in (("--lr", 1), ("--lr-schedule", "constant")):
        said = tool("run", tmp_path / "forward", "--data", dataset("mlp", 1), option, value, code=1)[1]
        assert f"{option} is for training plans; a forward plan changes no weights" in said
    tool("compile", exported("mlp"), "-o", tmp_path / "own", *LOSS, "--group", "*: lr=0.1")
    said = tool("run", tmp_path / "own", "--data", dataset("mlp", 1), "--steps", 1, "--lr", 1, code=1)[1]
    assert "each group of the plan has a learning rate of its own" in said


def test_more_steps_than_the_schedule_is_for_are_told(plan, dataset):
    def said(steps):
        return tool("run", plan, "--data", dataset("mlp", 1), "--steps", steps, "--lr-schedule", "cosine(total=3)")[1]

    assert "--steps 4 is more than the 3 steps that the learning rate's schedule is for" in said(4)
    assert "schedule" not in said(3)
