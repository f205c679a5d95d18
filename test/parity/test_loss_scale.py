"""Loss scales change no bit, and a gradient that is not finite on one rank skips the step on all of them."""

import json
import tempfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tools

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
BATCH, STEPS, BAD = 8, 6, 3  # the step with the bad sample, counted from 1
EARLY, LATE = 5, 10  # the features whose gains are zero
HUGE = 3e38  # times a zero gain it is zero, and the gain's gradient is beyond f32 once the loss is scaled
WHOLE_STEP = {"step", "skipped_steps", "loss_scale", "updates_in_a_row", "not_finite"}  # what a skipped step may change


class Gains(torch.nn.Module):
    """Two vectors of gains, on the inputs and on the logits: a huge input makes one element of one gradient infinite."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.gain = torch.nn.Parameter(torch.linspace(-1, 1, 6))
        self.first, self.norm, self.second = torch.nn.Linear(6, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 5)
        self.late = torch.nn.Parameter(torch.linspace(-0.5, 0.5, 5))
        with torch.no_grad():
            self.gain[EARLY] = 0
            self.late[LATE - 6] = 0

    def forward(self, x):
        h = self.norm(self.first(x[:, :6] * self.gain)).tanh()
        return self.head(self.second(h).tanh()) + x[:, 6:] * self.late


@pytest.fixture
def tmp_path():
    """A folder in memory: each step is saved, and a disk that is busy would make the run skip some (docs/checkpoints.md)."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    path = tmp_path_factory.mktemp("gains") / "model.onnx"
    torch.onnx.export(Gains().train(), (torch.zeros(BATCH, 11),), path, input_names=["x"], output_names=["y"],
                      dynamo=True, optimize=False, verbose=False)
    return path


def samples(bad=(), count=STEPS * BATCH):
    """x and labels; `bad` are (sample, feature) pairs."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, 11, generator=generator)
    x[:, EARLY] = x[:, LATE] = 0
    for sample, feature in bad:
        x[sample, feature] = HUGE
    return {"x": x, "labels": torch.randint(5, (count,), generator=generator)}


def compiled(onnx, plan, *options, optimizer=ADAMW):
    tools.tool("compile", onnx, "-o", plan, "--loss", "cross_entropy(y,labels)", "--optimizer", optimizer, "--batch-norm",
               "batch", "--zero-threshold", 1, *options)
    return plan


def trained(plan, tensors, folder, *more, steps=STEPS, code=0):
    """The log's steps, and what the run said."""
    folder.mkdir(exist_ok=True)
    tools.saveData(folder / "data.npz", tensors)
    _, said = tools.tool("run", plan, "--data", folder / "data.npz", "--order", "sequential", "--steps", steps,
                         "--log", folder / "log", "--checkpoint", folder / "saved", "--every", 1, "--keep", 99, *more, code=code)
    return tools.stepsOf(folder / "log"), said


def stored(folder, step):
    """Key -> bytes, over all files of a checkpoint."""
    tensors = {}
    for file in sorted((folder / "saved" / f"step-{step:09}").glob("*.safetensors")):
        for key, value in load_file(file).items():
            tensors[file.name, key] = value.numpy().tobytes()
    assert tensors
    return tensors


def changed(folder, before, after):
    """The keys of what differs between two checkpoints, without what belongs to the step as a whole."""
    first, second = stored(folder, before), stored(folder, after)
    assert first.keys() == second.keys()
    return {key for _, key in first if first[_, key] != second[_, key]} - {f"state.{name}" for name in WHOLE_STEP}


# Options, microbatches, and the feature and the row of the bad sample.
AXES = {
    "one rank": (("--mesh", "data=1"), 1, EARLY, 0),
    "data": (("--mesh", "data=2", "--zero", 0), 1, EARLY, 5),
    "ZeRO 1": (("--mesh", "data=2", "--zero", 1), 1, EARLY, 1),
    "ZeRO 2": (("--mesh", "data=2", "--zero", 2, "--microbatches", 2), 2, LATE, 13),
    "ZeRO 3": (("--mesh", "data=2", "--zero", 3), 1, EARLY, 6),
    "tensor": (("--mesh", "tensor=2", "--shard", "second.weight=[tensor,-]", "--shard", "gain=[tensor]"), 1, EARLY, 2),
    "pipe, first stage": (("--mesh", "pipe=2", "--microbatches", 2), 2, EARLY, 9),
    "pipe, last stage": (("--mesh", "pipe=2", "--microbatches", 2), 2, LATE, 3),
    "pipe, trained on one stage": (("--mesh", "pipe=2", "--microbatches", 2, "--train-only", "late"), 2, LATE, 3),
    "all": (("--mesh", "data=2,pipe=2", "--microbatches", 2, "--zero", 2), 2, LATE, 14),
}
CLIPS = {"": (), "clip": ("--clip-norm", 1), "clip inf": ("--clip-norm", 0.1, "--clip-norm-type", "inf")}


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("axis", AXES)
def test_one_infinite_element_on_one_rank_skips_the_step_on_all(axis, clip, onnx, tmp_path):
    options, microbatches, feature, row = AXES[axis]
    plan = compiled(onnx, tmp_path / "plan", *options, *CLIPS[clip], "--ema", 0.9, "--loss-scale", "dynamic(window=2)")
    data = samples([((BAD - 1) * BATCH * microbatches + row, feature)], STEPS * BATCH * microbatches)
    log, _ = trained(plan, data, tmp_path / "run")
    assert [line["skipped"] for line in log] == [step == BAD for step in range(1, STEPS + 1)]
    assert [line["skipped_total"] for line in log] == [step >= BAD for step in range(1, STEPS + 1)]
    assert [line["loss_scale"] for line in log] == [65536, 65536, 131072, 65536, 65536, 131072]
    assert all(line["loss"] > 0 for line in log)
    for step in range(2, STEPS + 1):
        difference = changed(tmp_path / "run", step - 1, step)
        if step == BAD:
            assert not difference
        else:
            assert {"late", "state.late.exp_avg", "state.late.ema", "norm.running_mean", "state.updates"} <= difference
            assert "--train-only" in options or {"gain", "state.gain.exp_avg_sq", "state.gain.ema"} <= difference


@pytest.mark.parametrize("axis", ["data", "ZeRO 2", "pipe, last stage"])
def test_with_a_hysteresis_of_two_the_second_one_lowers_the_scale(axis, onnx, tmp_path):
    options, microbatches, feature, row = AXES[axis]
    size = BATCH * microbatches
    plan = compiled(onnx, tmp_path / "plan", *options, "--loss-scale", "dynamic(hysteresis=2)")
    log, _ = trained(plan, samples([(step * size + row, feature) for step in (1, 3, 4)], STEPS * size), tmp_path / "run")
    assert [line["skipped"] for line in log] == [0, 1, 0, 1, 1, 0]
    assert [line["loss_scale"] for line in log] == [65536, 65536, 65536, 65536, 32768, 16384]


@pytest.mark.parametrize("axis", ["one rank", "data", "ZeRO 3", "all"])
def test_a_resumed_run_goes_on_across_a_skipped_step_with_the_same_bytes(axis, onnx, tmp_path):
    options, microbatches, feature, row = AXES[axis]
    size = BATCH * microbatches
    plan = compiled(onnx, tmp_path / "plan", *options, "--loss-scale", "dynamic(window=2,hysteresis=2)", "--ema", 0.9)
    data = samples([(step * size + row, feature) for step in (1, 3)], STEPS * size)
    straight, _ = trained(plan, data, tmp_path / "straight")
    assert sum(line["skipped"] for line in straight) == 2
    for first in (2, 3, 4):  # before, at and after the second one
        folder = tmp_path / f"broken{first}"
        trained(plan, data, folder, steps=first)
        trained(plan, data, folder, "--resume", folder / "saved")
        assert stored(folder, STEPS) == stored(tmp_path / "straight", STEPS)


@pytest.mark.parametrize("options", [AXES["one rank"][0], AXES["data"][0], (*AXES["data"][0], "--microbatches", 2),
                                     AXES["pipe, last stage"][0]], ids=str)
def test_no_scale_changes_a_bit(options, onnx, tmp_path):
    def weights(*more):
        folder = tmp_path / "-".join(("run", *map(str, more))).replace("/", "")
        plan = compiled(onnx, tmp_path / "plan", *options, *more)
        tensors = samples(count=STEPS * 2 * BATCH)
        log, _ = trained(plan, tensors, folder, "--save", folder / "w.safetensors", "--threads", 1)
        return (folder / "w.safetensors").read_bytes(), [line["loss"] for line in log], [line.get("grad_norm") for line in log]

    for clip in CLIPS.values():
        plain = weights(*clip)
        for scale in (("--loss-scale", 1024), ("--loss-scale", 2**-10), ("--loss-scale", "dynamic(window=2,growth=4)"),
                      ("--skip-nonfinite",), ("--loss-scale", 4096, "--skip-nonfinite")):
            assert weights(*clip, *scale) == plain, (clip, scale)


def test_it_is_pytorchs_grad_scaler(onnx, tmp_path):
    """Scales and weights of torch.amp.GradScaler, whose optimizer knows nothing of the skipped steps."""
    steps, bad = 12, (2, 3, 8)
    data = samples([(step * BATCH + 1, EARLY) for step in bad], steps * BATCH)
    plan = compiled(onnx, tmp_path / "plan", "--mesh", "data=2", "--loss-scale", "dynamic(init=1024,window=3)")
    log, _ = trained(plan, data, tmp_path / "run", "--save", tmp_path / "w.safetensors", steps=steps)
    model = Gains().train()
    update = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=3)
    scales, losses = [], []
    for step in range(steps):
        batch = {name: value[step * BATCH:(step + 1) * BATCH] for name, value in data.items()}
        update.zero_grad()
        scales.append(scaler.get_scale())
        loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
        losses.append(loss.item())
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
    assert [line["loss_scale"] for line in log] == scales
    assert [step for step, line in enumerate(log) if line["skipped"]] == list(bad)
    assert [line["loss"] for line in log] == pytest.approx(losses, rel=1e-4)
    ours = load_file(tmp_path / "w.safetensors")
    for name, weight in model.named_parameters():
        assert (ours[name] - weight).norm() <= 1e-4 * weight.norm(), name


@pytest.mark.parametrize("axis", AXES)
def test_at_the_smallest_scale_the_run_ends_with_the_parameter_and_the_rank(axis, onnx, tmp_path):
    options, microbatches, feature, row = AXES[axis]
    plan = compiled(onnx, tmp_path / "plan", *options, "--loss-scale", "dynamic(min=65536)")
    data = samples([((BAD - 1) * BATCH * microbatches + row, feature)], STEPS * BATCH * microbatches)
    log, said = trained(plan, data, tmp_path / "run", code=6)
    # The first rank that holds the element of the parameter.
    rank = {"ZeRO 3": "rank 1 (data=1)", "tensor": "rank 1 (tensor=1)", "pipe, last stage": "rank 1 (pipe=1)",
            "pipe, trained on one stage": "rank 1 (pipe=1)", "all": "rank 1 (data=0,pipe=1)"}.get(axis, "rank 0 ")
    name = "late" if feature == LATE else "gain"
    assert f"step {BAD}: the gradient of '{name}' on {rank}" in said, said
    assert "the loss scale is as small as it may be" in said
    assert log[-1]["skipped"] == 2
    assert {entry.name for entry in (tmp_path / "run" / "saved").iterdir()} <= {"step-000000001", "step-000000002"}


@pytest.mark.parametrize("options", [("--mesh", "data=1"), ("--mesh", "pipe=2", "--microbatches", 2)], ids=str)
def test_of_several_parameters_the_first_is_named(options, onnx, tmp_path):
    plan = compiled(onnx, tmp_path / "plan", *options, "--loss-scale", "dynamic(min=65536)")
    _, said = trained(plan, samples([(1, LATE), (1, EARLY)], STEPS * 2 * BATCH), tmp_path / "run", code=6)
    assert "step 1: the gradient of 'gain' on rank 0" in said, said


def test_a_nan_loss_is_skipped_too_and_is_no_part_of_the_mean(onnx, tmp_path):
    data = samples()
    data["x"][(BAD - 1) * BATCH, 0] = float("inf")  # times its gain it is infinite in the forward already
    plan = compiled(onnx, tmp_path / "plan", "--mesh", "data=2", "--skip-nonfinite")
    folder = tmp_path / "run"
    log, said = trained(plan, data, folder)
    assert log[BAD - 1]["loss"] is None and log[BAD - 1]["skipped"] == 1
    assert "not finite" not in said
    assert not changed(folder, BAD - 1, BAD)
    report = json.loads(tools.tool("run", plan, "--data", folder / "data.npz", "--order", "sequential", "--steps", STEPS, "--json")[0])
    others = [line["loss"] for line in log if line["loss"] is not None]
    assert report["mean"]["loss"] == pytest.approx(sum(others) / len(others), rel=1e-6)
    assert report["mean"]["skipped"] == pytest.approx(1 / STEPS)


def test_the_norm_is_the_only_collective_of_the_decision(onnx, tmp_path):
    def collectives(*options):
        plan = compiled(onnx, tmp_path / "plan", "--mesh", "data=2", *options)
        return sorted((line["kind"], line["bytes"]) for line in tools.inspect(plan)["collectives"])

    plain, clipped = collectives(), collectives("--clip-norm", 1)
    assert collectives("--clip-norm", 1, "--loss-scale", "dynamic") == clipped
    skipping = collectives("--loss-scale", "dynamic")
    for line in plain:
        skipping.remove(line)
    assert len(skipping) == 1 and skipping[0][0] == "AllReduce" and skipping[0][1] <= 8
    assert collectives("--loss-scale", 1024) == plain


def test_optimizer_state_for_pytorch_counts_updates(onnx, tmp_path):
    """PyTorch's optimizer does not know of the skipped step, and the checkpoint made of it does."""
    def convert(*arguments):
        code, _, errors = tools.script(Path(__file__).resolve().parents[2] / "tools/optimizer_state.py", *arguments)
        assert code == 0, errors

    plan = compiled(onnx, tmp_path / "plan", "--mesh", "data=1", "--loss-scale", "dynamic")
    trained(plan, samples([((BAD - 1) * BATCH, EARLY)]), tmp_path / "run")
    last = tmp_path / "run" / "saved" / f"step-{STEPS:09}"
    (tmp_path / "names").write_text("\n".join(name for name, _ in Gains().named_parameters()))
    convert("to-torch", last, tmp_path / "optimizer.pt", "--names", tmp_path / "names")
    assert {int(state["step"]) for state in torch.load(tmp_path / "optimizer.pt")["state"].values()} == {STEPS - 1}
    convert("from-torch", tmp_path / "optimizer.pt", last, tmp_path / "saved" / last.name, "--names", tmp_path / "names",
            "--step", STEPS)
    (made,) = (tmp_path / "saved" / last.name).glob("*.safetensors")
    states = load_file(made)
    assert states["state step"] == STEPS and states["state updates"] == STEPS - 1


@pytest.mark.parametrize("options, message", [
    (("--loss-scale", 0), "--loss-scale 0: must be positive and finite"),
    (("--loss-scale", "inf"), "--loss-scale inf: must be positive and finite"),
    (("--loss-scale", 1000), "--loss-scale 1000: must be a power of two, so that scaling changes no bit of a gradient; the nearest are 512 and 1024"),
    (("--loss-scale", "dynamic", "--skip-nonfinite"), "a dynamic scale skips steps that are not finite by itself"),
    (("--mode", "forward", "--loss-scale", 2), "no gradients"),
    (("--mode", "forward", "--skip-nonfinite"), "no gradients")])
def test_what_cannot_be_meant_is_refused(options, message, onnx, tmp_path):
    loss = () if "forward" in options else ("--loss", "cross_entropy(y,labels)")
    _, errors = tools.tool("compile", onnx, "-o", tmp_path / "plan", "--mesh", "data=1", "--batch-norm", "batch", *loss, *options, code=1)
    assert message in errors
