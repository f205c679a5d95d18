"""Complex numbers in the state dict, as rotary embeddings hold them: they compute, are saved, loaded and gone on from, and do
not train."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tools
import torchscript

LENGTH, WIDTH, BATCH, STEPS = 6, 8, 8, 3
ADAMW = "adamw(lr=1e-2)"


def angles(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7


class Rotary(nn.Module):
    """Pairs of features are turned; `frequencies` are of any complex type and in any order in memory."""

    def __init__(self, frequencies=None, **more):
        super().__init__()
        torch.manual_seed(0)
        self.enter, self.leave = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        if frequencies is None:
            frequencies = torch.polar(torch.ones(LENGTH, WIDTH // 2), angles(LENGTH, WIDTH // 2))
        self.register_buffer("frequencies", frequencies)
        for name, value in more.items():
            self.register_buffer(name, value)

    def forward(self, x):
        turned = torch.view_as_complex(self.enter(x).unflatten(-1, (WIDTH // 2, 2))) * self.frequencies
        return self.leave(torch.view_as_real(turned).flatten(-2).tanh()).square().mean()


class Changing(Rotary):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        if self.how == "in place":
            self.frequencies.mul_(0.5)
        elif self.how == "copied":
            self.frequencies.copy_(self.frequencies * 0.5)
        elif self.how == "assigned":
            self.frequencies = self.frequencies * 0.5
        elif self.how == "real part":
            self.frequencies.real.mul_(0.5)
        else:
            torch.view_as_real(self.frequencies[:2]).mul_(0.5)
        return super().forward(x)


class Assigning(nn.Module):
    """As a script: a trace leaves the assignment out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.polar(torch.ones(3), angles(3)))

    def forward(self, x):
        self.frequencies = self.frequencies * 0.5
        return x.square().mean() + torch.view_as_real(self.frequencies).mean()


def draw(steps=STEPS):
    return torch.randn(steps * BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


def save(model, folder, kind):
    path, x = folder / f"model.{kind}", draw(1)
    if kind == "pt":
        return torchscript.trace(model, {"x": x}, path)
    torch.export.save(torch.export.export(model, (x,)), path)
    return path


def compiled(path, plan, *options):
    shape = ("--input", f"x=float32[{BATCH},{LENGTH},{WIDTH}]") if path.suffix == ".pt" else ()
    said = tools.tool("compile", path, "-o", plan, "--loss", "output(output)", "--optimizer", ADAMW, "--zero-threshold", 1,
                      *shape, *options)[1]
    return plan, " ".join(said.split())


def trained(model, steps=STEPS):
    """Losses of PyTorch; the model is trained."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for x in draw(steps).split(BATCH):
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def refusal(path, folder):
    shape = ("--input", f"x=float32[{BATCH},{LENGTH},{WIDTH}]") if path.suffix == ".pt" else ()
    return " ".join(tools.tool("compile", path, "-o", folder / "plan", "--mode", "forward", *shape, code=1)[1].split())


def bits(tensor):
    return torch.view_as_real(tensor.resolve_conj()).contiguous().view(torch.int32)


@pytest.mark.parametrize("kind", ["pt2", "pt"])
@pytest.mark.parametrize("options", [
    ("--mesh", "data=2"), ("--mesh", "data=2", "--microbatches", "2", "--zero", "3"),
    ("--mesh", "tensor=2", "--shard", "enter.weight=[tensor,-]", "--shard", "frequencies=[-,tensor,-]"),
], ids=["data", "zero3", "tensor"])
def test_what_turns_by_a_complex_buffer_trains_as_in_pytorch(tmp_path, options, kind):
    model = Rotary()
    before = model.frequencies.clone()
    if "--microbatches" in options:
        options += ("--input", f"x=float32[{BATCH // 2},{LENGTH},{WIDTH}]")
        path = save(model, tmp_path, kind) if kind == "pt" else tmp_path / "model.pt2"
        torch.export.save(torch.export.export(model, (draw(1)[:BATCH // 2],)), tmp_path / "model.pt2")
    else:
        path = save(model, tmp_path, kind)
    plan, _ = compiled(path, tmp_path / "plan", *options)
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    ours = tools.train(plan, tmp_path / "data.npz", STEPS, tmp_path / "run")
    assert ours.losses == pytest.approx(trained(model), rel=1e-5)
    saved = Rotary()
    saved.load_state_dict(ours.tensors, strict=True)
    assert ours.tensors["frequencies"].dtype == torch.complex64
    assert torch.equal(bits(saved.frequencies), bits(before))
    for name, value in model.named_parameters():
        torch.testing.assert_close(ours.tensors[name], value, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["pt2", "pt"])
def test_buffers_of_every_form_are_saved(tmp_path, kind):
    """Of 128 bits, in another order in memory, one number, none, under two names (which a trace cannot have), used or not."""
    turned = torch.polar(torch.ones(WIDTH // 2, LENGTH), angles(WIDTH // 2, LENGTH)).t()
    wide = torch.polar(torch.ones(3, dtype=torch.float64), angles(3).double())
    more = {"wide": wide, "one": torch.tensor(1 - 2j), "none": torch.zeros(0, 3, dtype=torch.complex64)}
    names = {"again": turned} if kind == "pt2" else {}
    model = Rotary(turned, **names, **more)
    plan, said = compiled(save(model, tmp_path, kind), tmp_path / "plan", "--mesh", "data=2")
    assert "1 tensor is complex128 in the file; computed and saved in complex64" in said
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    ours = tools.train(plan, tmp_path / "data.npz", STEPS, tmp_path / "run")
    assert ours.losses == pytest.approx(trained(Rotary(turned)), rel=1e-5)
    model.load_state_dict(ours.tensors, strict=True)
    for name in ("frequencies", *names):
        assert torch.equal(bits(ours.tensors[name]), bits(turned))
    for name, value in more.items():
        assert torch.equal(bits(ours.tensors[name]), bits(value.to(torch.complex64))), name


def test_another_type_computes_as_well(tmp_path):
    wide = torch.polar(torch.ones(LENGTH, WIDTH // 2, dtype=torch.float64), angles(LENGTH, WIDTH // 2).double())

    class Wide(Rotary):
        def forward(self, x):
            turned = torch.view_as_complex(self.enter(x).unflatten(-1, (WIDTH // 2, 2))) * self.frequencies.to(torch.complex64)
            return self.leave(torch.view_as_real(turned).flatten(-2).tanh()).square().mean()

    plan, _ = compiled(save(Wide(wide), tmp_path, "pt2"), tmp_path / "plan")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    ours = tools.train(plan, tmp_path / "data.npz", STEPS, tmp_path / "run")
    assert ours.losses == pytest.approx(trained(Wide(wide)), rel=1e-5)
    assert torch.equal(bits(ours.tensors["frequencies"]), bits(wide.to(torch.complex64)))


def test_a_file_of_weights_has_other_numbers(tmp_path):
    model, other = Rotary(), Rotary(torch.polar(torch.full((LENGTH, WIDTH // 2), 1.5), -angles(LENGTH, WIDTH // 2)))
    plan, _ = compiled(save(model, tmp_path, "pt2"), tmp_path / "plan", "--mesh", "data=2")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    save_file({name: value.resolve_conj().contiguous() for name, value in other.state_dict().items()}, tmp_path / "init.safetensors")
    ours = tools.train(plan, tmp_path / "data.npz", STEPS, tmp_path / "run", "--init", tmp_path / "init.safetensors")
    theirs = trained(other)
    assert ours.losses == pytest.approx(theirs, rel=1e-5)
    assert theirs[0] != pytest.approx(trained(model)[0], rel=1e-2)
    assert torch.equal(bits(ours.tensors["frequencies"]), bits(other.frequencies))
    # What was saved is such a file too.
    again = tools.train(plan, tmp_path / "data.npz", 1, tmp_path / "again", "--init", tmp_path / "run.safetensors")
    assert torch.equal(bits(again.tensors["frequencies"]), bits(other.frequencies))


@pytest.mark.parametrize("frequencies, message", [
    (torch.zeros(LENGTH, WIDTH // 2, 2), "'frequencies' has type F32, and the model's is complex (C64)"),
    (torch.zeros(LENGTH, WIDTH // 2), "'frequencies' has type F32, and the model's is complex (C64)"),
    (torch.zeros(LENGTH, WIDTH, dtype=torch.complex64), f"'frequencies' has shape [{LENGTH},{WIDTH}], the plan has [{LENGTH},{WIDTH // 2}]"),
    (torch.full((LENGTH, WIDTH // 2), complex(0, torch.nan)), "element [0,0] is NaN"),
], ids=["pairs", "real", "shape", "nan"])
def test_a_file_with_something_else_is_refused(tmp_path, frequencies, message):
    plan, _ = compiled(save(Rotary(), tmp_path, "pt2"), tmp_path / "plan")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    save_file(Rotary().state_dict() | {"frequencies": frequencies}, tmp_path / "init.safetensors")
    said = tools.tool("run", plan, "--data", tmp_path / "data.npz", "--steps", 1, "--init", tmp_path / "init.safetensors", code=1)[1]
    assert message in " ".join(said.split())


def test_complex_numbers_for_a_real_weight_are_refused(tmp_path):
    plan, _ = compiled(save(Rotary(), tmp_path, "pt2"), tmp_path / "plan")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    save_file(Rotary().state_dict() | {"enter.bias": torch.zeros(WIDTH, dtype=torch.complex64)}, tmp_path / "init.safetensors")
    said = tools.tool("run", plan, "--data", tmp_path / "data.npz", "--steps", 1, "--init", tmp_path / "init.safetensors", code=1)[1]
    assert "'enter.bias' has type C64, and the model's is not complex" in " ".join(said.split())


def test_a_checkpoint_goes_on_on_another_mesh(tmp_path):
    """From other numbers than those of the model's file, so that they come from the checkpoint."""
    more = {"wide": torch.polar(torch.ones(3, dtype=torch.float64), angles(3).double())}
    other = Rotary(torch.polar(torch.full((LENGTH, WIDTH // 2), 1.5), angles(LENGTH, WIDTH // 2)), **more)
    path = save(Rotary(**more), tmp_path, "pt2")
    first, _ = compiled(path, tmp_path / "first", "--mesh", "data=2")
    second, _ = compiled(path, tmp_path / "second", "--mesh", "tensor=2", "--shard", "frequencies=[tensor,-,-]")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    state = {name: value.to(torch.complex64) if value.is_complex() else value for name, value in other.state_dict().items()}
    save_file(state, tmp_path / "init.safetensors")
    tools.train(first, tmp_path / "data.npz", 1, tmp_path / "a", "--init", tmp_path / "init.safetensors", "--checkpoint", tmp_path / "steps")
    ours = tools.train(second, tmp_path / "data.npz", STEPS, tmp_path / "b", "--resume", tmp_path / "steps")
    theirs = trained(other)
    assert ours.losses == pytest.approx(theirs[1:], rel=1e-5)
    for name in ("frequencies", "wide"):
        assert torch.equal(bits(ours.tensors[name]), bits(state[name]))


@pytest.mark.parametrize("kind", ["pt2", "pt"])
def test_the_description_has_the_models_shape_and_type(tmp_path, kind):
    path = save(Rotary(), tmp_path, kind)
    shape = ("--input", f"x=float32[{BATCH},{LENGTH},{WIDTH}]") if kind == "pt" else ()
    report = json.loads(tools.tool("compile", path, "--describe", "--json", *shape)[0])
    found = next(each for each in report["parameters"]["groups"] if each["names"] == "frequencies")
    assert (found["dtype"], found["shape"], found["elements"]) == ("complex64", [LENGTH, WIDTH // 2], LENGTH * WIDTH // 2)
    assert found["bytes"] == 8 * found["elements"] and not found["trainable"]


@pytest.mark.parametrize("option", ["--freeze", "--train-only"])
def test_a_pattern_that_names_it_alone_names_nothing_that_trains(tmp_path, option):
    said = tools.tool("compile", save(Rotary(), tmp_path, "pt2"), "-o", tmp_path / "plan", "--loss", "output(output)", option,
                      "frequencies", code=1)[1]
    assert "frequencies" in said


@pytest.mark.parametrize("kind", ["pt2", "pt"])
@pytest.mark.parametrize("how", ["in place", "copied", "assigned", "real part", "view"])
def test_a_buffer_that_changes_is_refused(tmp_path, how, kind):
    isScript = (how, kind) == ("assigned", "pt")
    path = torchscript.script(Assigning(), tmp_path / "model.pt") if isScript else save(Changing(how), tmp_path, kind)
    said = refusal(path, tmp_path)
    parts = "it changes complex numbers of the state dict, which is not supported; register torch.view_as_real of them"
    whole = "it writes into complex numbers, which is not supported; compute new ones"
    becomes = "`frequencies` is complex and becomes another value, which is not supported; register torch.view_as_real of it"
    assert (parts if how in ("real part", "view") else becomes if isScript else whole) in said


@pytest.mark.parametrize("kind", ["pt2", "pt"])
def test_what_has_no_place_is_refused(tmp_path, kind):
    class Trained(Rotary):
        def __init__(self, trains):
            super().__init__()
            frequencies = self.frequencies
            del self.frequencies
            self.frequencies = nn.Parameter(frequencies, requires_grad=trains)

    half = Rotary(unused=torch.zeros(3, dtype=torch.complex32))
    assert "`unused` is complex32, which is not supported; convert it to complex64" in refusal(save(half, tmp_path, kind), tmp_path)
    said = refusal(save(Trained(True), tmp_path, kind), tmp_path)
    assert "`frequencies` is complex64, which is not supported; train torch.view_as_real of it" in said
    compiled(save(Trained(False), tmp_path, kind), tmp_path / "plan")


def test_a_folder_is_saved_and_read(tmp_path):
    model = Rotary(long=torch.polar(torch.ones(100), angles(100)))
    plan, _ = compiled(save(model, tmp_path, "pt2"), tmp_path / "plan", "--mesh", "data=2")
    tools.saveData(tmp_path / "data.npz", {"x": draw()})
    run = ("run", plan, "--data", tmp_path / "data.npz", "--steps", 1)
    tools.tool(*run, "--save", f"{tmp_path}/saved/", "--save-shard-size", "1KB")
    files = sorted((tmp_path / "saved").glob("*.safetensors"))
    assert len(files) > 1
    state = {name: value for file in files for name, value in load_file(file).items()}
    for name in ("frequencies", "long"):
        assert torch.equal(bits(state[name]), bits(model.state_dict()[name]))
    model.load_state_dict(state, strict=True)
    tools.tool(*run, "--init", tmp_path / "saved")
