"""Attention in many forms, and what looks like it: where it is one op is what its form says, and gradients are PyTorch's, by one
call and by parts."""

import copy
import json
import math
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

import attention_models
import exporters
import shared
import tools
from reference import GRADIENT_RATE
from vision_language import difference

# All numbers differ, so that one dim cannot pass for another.
BATCH, HEADS, GROUPS, QUERIES, KEYS, WIDTH, VALUES, INPUTS = 2, 6, 3, 5, 7, 4, 9, 8
LEAST = torch.finfo(torch.float32).min
WAYS = ("fused", "parts")  # --attention


class Attend(nn.Module):
    """One attention of `x` to `memory`, whose queries, keys and values go through `form`."""

    def __init__(self, form, groups=HEADS, queries=QUERIES):
        super().__init__()
        self.form, self.groups = form, groups
        # A bias of keys would move all scores of a query alike: its gradient is rounding alone.
        self.query, self.key = nn.Linear(INPUTS, HEADS * WIDTH), nn.Linear(INPUTS, groups * WIDTH, bias=False)
        self.value, self.out = nn.Linear(INPUTS, groups * VALUES), nn.Linear(HEADS * VALUES, 3)
        self.perHead, self.pairs = nn.Parameter(torch.randn(HEADS)), nn.Parameter(torch.randn(HEADS, queries, KEYS))

    def forward(self, x, memory, seen):
        def split(y, heads):
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x), HEADS), split(self.key(memory), self.groups), split(self.value(memory), self.groups)
        return self.out(self.form(self, q, k, v, seen > 0).transpose(1, 2).flatten(2))


def positions(q, k):
    """Of queries and of keys, both counted so that the last ones are equal."""
    return torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])[None]


def attend(scores, v):
    return scores.softmax(-1) @ v


def scaled(q, k):
    return q @ k.transpose(2, 3) / math.sqrt(WIDTH)


def padded(fill):
    """Numbers that are added for keys of padding."""
    return lambda m, q, k, v, seen: attend(scaled(q, k) + torch.where(seen, 0.0, fill)[:, None, None], v)


def replaced(fill):
    return lambda m, q, k, v, seen: attend(scaled(q, k).masked_fill(~seen[:, None, None], fill), v)


def sees(rule, fill=-math.inf):
    """Keys at places for which the rule holds."""
    def form(m, q, k, v, seen):
        return attend(scaled(q, k).masked_fill(~rule(*positions(q, k)), fill), v)
    return form


def repeated(keys, values):
    return lambda m, q, k, v, seen: attend(scaled(q, keys(k)), values(v))


def inEinsum(m, q, k, v, seen):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return torch.einsum("bhqk,bkhd->bqhd", torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1), v).transpose(1, 2)


def turned(m, q, k, v, seen):
    return attend((k @ q.transpose(2, 3)).transpose(2, 3), v)


def twoMasks(m, q, k, v, seen):
    query, key = positions(q, k)
    return attend(scaled(q, k) + torch.where(seen, 0.0, -1e4)[:, None, None] + torch.where(key <= query, 0.0, -1e4), v)


def twoFills(m, q, k, v, seen):
    query, key = positions(q, k)
    return attend((scaled(q, k) + torch.where(seen, 0.0, -20.0)[:, None, None]).masked_fill(key > query, -30.0), v)


def zeroedAfter(m, q, k, v, seen):
    return scaled(q, k).softmax(-1).masked_fill(~seen[:, None, None], 0.0) @ v


def zeroedBoth(m, q, k, v, seen):
    hidden = ~seen[:, None, None]
    return scaled(q, k).masked_fill(hidden, LEAST).softmax(-1).masked_fill(hidden, 0.0) @ v


def interleaved(t):
    return t.repeat_interleave(HEADS // GROUPS, dim=1)


def tiled(t):
    return t.repeat(1, HEADS // GROUPS, 1, 1)


ALL, SHARED = f"{HEADS} heads on {HEADS}", f"{HEADS} heads on {GROUPS}"
# Name: the form, what the compiler finds (None: nothing), and the heads of keys where they are fewer.
FORMS = {
    "einsum": (inEinsum, ALL),
    "keys times queries": (turned, None),
    "no scale": (lambda m, q, k, v, seen: attend(q @ k.transpose(2, 3), v), ALL),
    "a scale of each head": (lambda m, q, k, v, seen: attend(q @ k.transpose(2, 3) * m.perHead[:, None, None], v), None),
    "a negative scale": (lambda m, q, k, v, seen: attend(-(q @ k.transpose(2, 3)), v), ALL),
    "softmax over queries": (lambda m, q, k, v, seen: scaled(q, k).softmax(2) @ v, None),
    "softmax over heads": (lambda m, q, k, v, seen: scaled(q, k).softmax(1) @ v, None),
    "sigmoids": (lambda m, q, k, v, seen: scaled(q, k).sigmoid() @ v, None),
    "probabilities are squared": (lambda m, q, k, v, seen: scaled(q, k).softmax(-1).square() @ v, None),
    "softcap": (lambda m, q, k, v, seen: attend(3 * torch.tanh(scaled(q, k) / 3), v), f"{ALL}, softcap 3"),
    "a tanh of another scale": (lambda m, q, k, v, seen: attend(3 * torch.tanh(scaled(q, k) / 2), v), f"{ALL}, softcap 3"),
    "a negative softcap": (lambda m, q, k, v, seen: attend(-3 * torch.tanh(scaled(q, k) / 3), v), None),
    "a tanh of a tanh": (lambda m, q, k, v, seen: attend(torch.tanh(torch.tanh(scaled(q, k))), v), None),
    "a mask under the softcap": (lambda m, q, k, v, seen: attend(3 * torch.tanh(
        (scaled(q, k) + torch.where(seen, 0.0, -2.0)[:, None, None]) / 3), v), None),
    "a bias of pairs": (lambda m, q, k, v, seen: attend(scaled(q, k) + m.pairs, v), f"{ALL}, bias of heads queries keys"),
    # The gradients of what moves all scores of a query alike are rounding alone.
    "a bias of heads": (lambda m, q, k, v, seen: attend(scaled(q, k) + m.perHead.detach()[:, None, None], v),
                        f"{ALL}, bias of heads"),
    "a bias of queries": (lambda m, q, k, v, seen: attend(scaled(q, k) + m.pairs.detach()[0, :, :1], v),
                          f"{ALL}, bias of queries"),
    "a bias that is scaled": (lambda m, q, k, v, seen: attend((q @ k.transpose(2, 3) + m.pairs) / 3, v),
                              f"{ALL}, bias of heads queries keys"),
    "ALiBi": (lambda m, q, k, v, seen: attend(scaled(q, k) + m.perHead.detach()[:, None, None] * positions(q, k)[1], v),
              f"{ALL}, bias of heads keys"),
    **{f"padding of {fill:g} is added": (padded(fill), f"{ALL}, mask of batch keys")
       for fill in (LEAST, -65504.0, -1e4, -3.0, 2.0)},
    **{f"padding is replaced by {fill:g}": (replaced(fill), f"{ALL}, mask of batch keys") for fill in (LEAST, -1e9, -1.5, 0.5)},
    "padding is zero after the softmax": (zeroedAfter, None),
    "padding is masked and zero": (zeroedBoth, f"{ALL}, mask of batch keys"),
    "causal": (sees(lambda query, key: key <= query), f"{ALL}, causal"),
    "causal of a fill that is seen": (sees(lambda query, key: key <= query, -2.5), f"{ALL}, causal"),
    "from the first on": (sees(lambda query, key: key <= query - 2), f"{ALL}, mask of queries keys"),
    "strictly before": (sees(lambda query, key: key < query), f"{ALL}, mask of queries keys"),
    "after": (sees(lambda query, key: key >= query), f"{ALL}, mask of queries keys"),
    "a window of 1": (sees(lambda query, key: (key <= query) & (key > query - 1)), f"{ALL}, causal, window 1"),
    "a window of 3": (sees(lambda query, key: (key <= query) & (key > query - 3)), f"{ALL}, causal, window 3"),
    "a window that is wider than all": (sees(lambda query, key: (key <= query) & (key > query - 9)), f"{ALL}, causal"),
    "a window on both sides": (sees(lambda query, key: (key <= query + 1) & (key > query - 2)), f"{ALL}, mask of queries keys"),
    "blocks": (sees(lambda query, key: key // 4 == query // 4), f"{ALL}, mask of queries keys"),
    "all keys": (sees(lambda query, key: key < 100), ALL),
    "two masks that are added": (twoMasks, f"{ALL}, bias of batch keys, causal"),
    "two fills": (twoFills, f"{ALL}, bias of batch keys, causal"),
    "shared keys": (repeated(interleaved, interleaved), SHARED, GROUPS),
    "shared keys in turns": (repeated(tiled, tiled), ALL, GROUPS),
    "keys in groups and values in turns": (repeated(interleaved, tiled), ALL, GROUPS),
    "one key head": (repeated(lambda t: t, lambda t: t), f"{HEADS} heads on 1", 1),
}  # fmt: skip


class All(nn.Module):
    """One attention of each form, side by side."""

    def __init__(self):
        super().__init__()
        self.forms = nn.ModuleList(Attend(form, *groups) for form, _, *groups in FORMS.values())

    def forward(self, x, memory, seen):
        return torch.cat([form(x, memory, seen) for form in self.forms], -1)


def gradientsOf(model, inputs, target, dtype):
    model = copy.deepcopy(model).to(dtype)
    output = model(**{name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()})
    functional.mse_loss(output, target.to(dtype)).backward()
    return {key: torch.zeros_like(p).double() if p.grad is None else p.grad.double() for key, p in model.named_parameters()}


@shared.remembered
def measured():
    """The first gradients of each way, those of PyTorch in fp64 and in fp32, the attentions that the compiler finds, what --describe
    notes, and how many commands of each kind the plans have."""
    torch.manual_seed(1)
    model, loss = All(), ("--loss", "mse(output,t)")
    seen = torch.ones(BATCH, KEYS, dtype=torch.int64)
    seen[0, :2], seen[1] = 0, 0  # the second sample has no key
    inputs = {"x": torch.randn(BATCH, QUERIES, INPUTS), "memory": torch.randn(BATCH, KEYS, INPUTS), "seen": seen}
    target = torch.randn(model(**inputs).shape)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = exporters.program(model, inputs, folder / "model")
        tools.saveData(folder / "data.npz", inputs | {"t": target})
        after = {}
        for how in WAYS:
            tools.tool("compile", path, "-o", folder / how, *loss, "--optimizer", f"sgd(lr={GRADIENT_RATE})", "--attention", how)
            after[how] = tools.train(folder / how, folder / "data.npz", 1, folder / f"{how}-run").tensors
        commands = {how: tools.inspect(folder / how)["commands_per_step"] for how in WAYS}
        found = attention_models.read(path, loss)
        notes = json.loads(tools.tool("compile", path, "--describe", "--json")[0])["notes"]
    ours = {how: {key: (p.detach().double() - tensors.get(key, p.detach()).double()) / GRADIENT_RATE
                  for key, p in model.named_parameters()} for how, tensors in after.items()}
    return SimpleNamespace(ours=ours, exact=gradientsOf(model, inputs, target, torch.float64),
                           rounded=gradientsOf(model, inputs, target, torch.float32), found=found, notes=notes, commands=commands)


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_found_and_gradients_are_pytorchs(name, sharedFolder):
    run = measured()
    scope = f"forms.{list(FORMS).index(name)}"

    def own(gradients):
        return {key: t for key, t in gradients.items() if key.startswith(scope + ".")}

    exact = own(run.exact)
    assert all(gradient.isfinite().all() for gradient in exact.values())
    for how in WAYS:
        assert difference(own(run.ours[how]), exact) < max(5e-6, 3 * difference(own(run.rounded), exact)), how
    wanted = FORMS[name][1]
    assert [form for form, where in run.found if where == scope] == ([] if wanted is None else [wanted])


def test_every_attention_that_is_found_is_a_call_or_none_is(sharedFolder):
    count = sum(wanted is not None for _, wanted, *_ in FORMS.values())
    for how, expected in (("fused", count), ("parts", 0)):
        commands = measured().commands[how]
        assert [commands[name] for name in ("attention", "attention_grad")] == [expected, expected]


def test_describe_says_how_many_there_are_and_why_others_stay_in_parts(sharedFolder):
    notes = measured().notes
    assert f"{sum(wanted is not None for _, wanted, *_ in FORMS.values())} attentions are one op each" in notes
    assert [note.rpartition(": ")[2] for note in notes if "stays in parts" in note] == [
        "there is a 'graph.tanh' between the product and the softmax",
        "there is a 'graph.tanh' between the product and the tanh of its scores",
        "there is a 'graph.add' between the product and the tanh of its scores",
        "its probabilities are zeroed by another mask than its scores",
    ]
