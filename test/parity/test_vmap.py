"""Models that use torch.vmap: its regions are in the file, and what they compute trains as in PyTorch."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jvp, stack_module_state
from torch.nn import functional as F

import tools

BATCH, STEPS, SGD = 8, 3, 0.2


class PerSample(nn.Module):
    """A function of one sample, with layers that all samples share."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(6, 12), nn.Linear(12, 6), nn.LayerNorm(6)

    def forward(self, x):
        def one(rows):
            hidden = F.gelu(self.up(rows))
            weights = (rows @ rows.T).softmax(-1)
            return self.norm(rows + self.down(weights @ hidden)).mean(0)

        return torch.vmap(one)(x)

    def inputs(self):
        return {"x": torch.randn(BATCH, 4, 6)}


class Masked(nn.Module):
    """Attention whose mask is a function of four indices, each of which a region maps over."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, valid):
        size = x.shape[1]

        def sees(b, h, q, k):
            return (q >= k) & (q - k < 3 - h) & torch.ops.aten.index(valid, [b, k])

        mask = sees
        for dims in [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]:
            mask = torch.vmap(mask, in_dims=dims)
        mask = mask(torch.arange(x.shape[0]), torch.arange(2), torch.arange(size), torch.arange(size))

        def heads(y):
            return y.unflatten(-1, (2, 3)).transpose(1, 2)

        y = F.scaled_dot_product_attention(heads(self.queries(x)), heads(self.keys(x)), heads(self.values(x)), mask)
        return y.transpose(1, 2).flatten(2)

    def inputs(self):
        valid = torch.rand(BATCH, 5) > 0.3
        valid[:, 0] = True
        return {"x": torch.randn(BATCH, 5, 6), "valid": valid}


class Pairs(nn.Module):
    """Each sample with each prototype: regions in each other, of which the inner one maps over a parameter."""

    def __init__(self):
        super().__init__()
        self.prototypes, self.scale = nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.rand(6))

    def forward(self, x):
        def distance(sample, prototype, scale):
            return ((sample - prototype) * scale).norm()

        each = torch.vmap(distance, in_dims=(None, 0, None))
        return -torch.vmap(each, in_dims=(0, None, None))(x, self.prototypes, self.scale)

    def inputs(self):
        return {"x": torch.randn(BATCH, 6)}


class Lookups(nn.Module):
    """Rows and elements that each sample picks of its own tensor, and of one that all share."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Parameter(torch.randn(9, 6)), nn.Linear(6, 6)

    def forward(self, x, rows, words):
        def one(x, rows, words):
            mine = self.fc(x)[rows, :]
            shared = self.table[words, :]
            best = mine.gather(0, mine.argmax(0, keepdim=True))[0]
            return (mine * shared).sum(0) + best + F.embedding(words, self.table).mean(0)

        return torch.vmap(one)(x, rows, words)

    def inputs(self):
        return {"x": torch.randn(BATCH, 4, 6), "rows": torch.randint(4, (BATCH, 3)), "words": torch.randint(9, (BATCH, 3))}


class Ensemble(nn.Module):
    """Models of one kind, whose weights are stacked, as torch.func has it."""

    def __init__(self):
        super().__init__()
        models = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(4)]
        stacked, _ = stack_module_state(models)
        self.names = list(stacked)
        self.stacked = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(p.detach()) for name, p in stacked.items()})
        object.__setattr__(self, "skeleton", models[0])  # which gives no weights of its own

    def forward(self, x):
        def one(weights, x):
            return functional_call(self.skeleton, weights, (x,))

        weights = {name: self.stacked[name.replace(".", "_")] for name in self.names}
        return torch.vmap(one, in_dims=(0, None))(weights, x).mean(0)

    def inputs(self):
        return {"x": torch.randn(BATCH, 6)}


# A mesh, and what is split over it beside the batch.
SPLITS = {
    PerSample: ["up.weight=[tensor,-]", "up.bias=[tensor]", "down.weight=[-,tensor]"],
    Masked: ["queries.weight=[tensor,-]", "keys.weight=[tensor,-]", "values.weight=[tensor,-]"],
    Pairs: ["prototypes=[-,tensor]"],
    Lookups: ["table=[-,tensor]", "fc.weight=[tensor,-]"],
    Ensemble: ["stacked.*_weight=[tensor,-,-]"],
}
EACH = [(kind, mesh) for kind in SPLITS for mesh in ("data=2", "tensor=2", "data=2,tensor=2")]


def made(kind):
    torch.manual_seed(3)
    model = kind()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, model.inputs()


def save(model, inputs, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, (), inputs), path)


@pytest.mark.parametrize("kind, mesh", EACH, ids=[f"{kind.__name__}-{mesh.replace('=', '').replace(',', '-')}" for kind, mesh in EACH])
def test_a_model_with_regions_trains_as_pytorch(tmp_path, kind, mesh):
    model, inputs = made(kind)
    save(model, inputs, tmp_path / "model.pt2")
    target = torch.randn(model(**inputs).shape)
    shard = [word for each in SPLITS[kind] if "tensor" in mesh for word in ("--shard", each)]
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mesh", mesh, *shard, "--loss", "mse(output,target)",
               "--optimizer", f"sgd(lr={SGD})", "--threads", 1)
    tools.saveData(tmp_path / "data.npz", inputs | {"target": target})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", STEPS, tmp_path / "run")
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=SGD), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(model(**inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)
    if mesh == "data=2":  # gradients are all that is exchanged
        assert {each["kind"] for each in tools.inspect(tmp_path / "plan")["communication"]} == {"AllReduce"}
    for name, parameter in model.named_parameters():
        assert torch.allclose(run.tensors[name], parameter, rtol=1e-4, atol=1e-6), name


def test_no_gradient_passes_where_a_region_says_so(tmp_path):
    class Stopped(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            def one(row):
                h = self.a(row)
                with torch.no_grad():
                    scale = self.b(h).abs() + h
                return (h * scale + self.b(h.detach())).sum()

            return torch.vmap(one)(x).mean()

    model, x = Stopped(), torch.randn(BATCH, 6)
    save(model, {"x": x}, tmp_path / "model.pt2")
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "output(output)", "--optimizer", f"sgd(lr={SGD})")
    tools.saveData(tmp_path / "data.npz", {"x": x})
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    model(x).backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.detach() - run.tensors[name], SGD * parameter.grad, rtol=1e-4, atol=1e-6), name


def test_a_batch_that_is_open_is_that_of_the_region(tmp_path):
    class Open(nn.Module):
        def forward(self, x):
            return torch.vmap(lambda row: row.reshape(-1).cumsum(0) * row.shape[0])(x)

    x = torch.randn(BATCH, 2, 3)
    torch.export.save(torch.export.export(Open(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)), tmp_path / "model.pt2")
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mode", "forward", "--input", f"x=float32[{BATCH},2,3]")
    tools.saveData(tmp_path / "in.npz", {"x": x})
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert np.allclose(np.load(tmp_path / "out.npz")["output"], Open()(x).numpy(), atol=1e-6)


def refusal(f, x, folder, *options):
    class Model(nn.Module):
        def forward(self, x):
            return f(x)

    save(Model(), {"x": x}, folder / "model.pt2")
    said = tools.tool("compile", folder / "model.pt2", "-o", folder / "plan", "--mode", "forward", *options, code=1)[1]
    return " ".join(said.split())


WAY_OUT = "export the model by tools/export.py --decompose, or save program.run_decompositions()"
REFUSED = {
    "an operator without a rule": (lambda x: torch.vmap(lambda r: r.histc(4, -1, 1))(x),
                                   "aten::histc is not supported inside of torch.vmap"),
    "a weight of each sample": (lambda x: torch.vmap(lambda r: F.conv1d(r[None], r[:3].reshape(1, 1, 3)))(x),
                                "aten::conv1d in torch.vmap: a weight that differs from sample to sample"),
    "random numbers": (lambda x: torch.vmap(lambda r: F.dropout(r, 0.5), randomness="different")(x),
                       "aten::dropout in torch.vmap: random numbers"),
    "random numbers of a function": (lambda x: torch.vmap(lambda r: r + torch.rand(4), randomness="same")(x),
                                     "aten::rand in torch.vmap: random numbers"),
    "a derivative": (lambda x: jvp(torch.sin, (x,), (x,))[1],
                     "torch._functorch.predispatch._jvp_increment_nesting of a function that is transformed (torch.func) is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_region_may_not_have_is_refused_with_the_way_out(name, tmp_path):
    f, reason = REFUSED[name]
    said = refusal(f, torch.randn(3, 4), tmp_path)
    assert reason in said
    assert ("model.eval()" if "random" in name else WAY_OUT) in said


def test_a_dropout_that_is_off_stays_off(tmp_path):
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)

        def forward(self, x):
            return torch.vmap(lambda row: self.dropout(self.fc(row)))(x).mean()

    save(Dropped().eval(), {"x": torch.randn(BATCH, 4)}, tmp_path / "model.pt2")
    compile = ["compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--loss", "output(output)"]
    tools.tool(*compile)
    for option in (["--dropout", 0.5], ["--train"]):
        assert "aten::dropout in torch.vmap: random numbers" in " ".join(tools.tool(*compile, *option, code=1)[1].split())


def test_the_way_out_is_one(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            return jvp(torch.sin, (x,), (x,))[1] + torch.vmap(lambda r: F.conv1d(r[None], r[:3].reshape(1, 1, 3)).sum())(x)[:, None]

    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(Model(), (x,)).run_decompositions(), tmp_path / "model.pt2")
    tools.tool("compile", tmp_path / "model.pt2", "-o", tmp_path / "plan", "--mode", "forward")
    tools.saveData(tmp_path / "in.npz", {"x": x})
    tools.tool("run", tmp_path / "plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert np.allclose(np.load(tmp_path / "out.npz")["output"], Model()(x).numpy(), atol=1e-5)
