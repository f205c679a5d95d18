"""N steps, and k steps and then N - k from a checkpoint: the same bytes on the same plan, the same training on another."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tools
from cases import GPT2_TENSOR
from tools import Case
from test_checkpoints import Adapted

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
STEPS, FIRST = 7, 3


class Dropping(Adapted):
    """Dropout, batch norm's running statistics, a tied weight, and one of which a row is read."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(0.1 * torch.arange(15.0).reshape(3, 5))

    def forward(self, x):
        x = torch.nn.functional.dropout(self.norm(self.base(x)), 0.3, True)
        return self.head(x + self.up(self.down(x).tanh())) + self.table[1:2]


@pytest.fixture(scope="module")
def dropping(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropping")
    torch.onnx.export(Dropping().train(), (torch.zeros(8, 6),), folder / "model.onnx", input_names=["x"],
                      output_names=["y"], dynamo=True, optimize=False, verbose=False)
    torch.manual_seed(1)
    for name in ("data", "other"):
        tools.saveData(folder / f"{name}.npz", {"x": torch.randn(72, 6), "labels": torch.randint(5, (72,))})
    return folder


def compileDropping(folder, plan, *more, optimizer=ADAMW, batch=8):
    tools.tool("compile", folder / "model.onnx", "-o", plan, "--loss", "cross_entropy(y,labels)", "--optimizer", optimizer,
               "--batch-norm", "batch", "--zero-threshold", 1, *more)
    return plan


def run(plan, data, steps, *more, code=0):
    return tools.tool("run", plan, "--data", data, "--steps", steps, *more, code=code)


def checkpoints(folder):
    return sorted(entry.name for entry in folder.iterdir())


def assertSameBytes(plan, data, folder, *more):
    """Straight on, and with a break after some steps; order of the samples, dropout and all else go on."""
    straight, broken = folder / "straight", folder / "broken"
    run(plan, data, STEPS, "--save", folder / "a.safetensors", "--checkpoint", straight, *more)
    run(plan, data, FIRST, "--checkpoint", broken, "--every", 2, *more)
    assert checkpoints(broken) == ["step-000000002", f"step-{FIRST:09}"]
    run(plan, data, STEPS, "--resume", broken, "--checkpoint", broken, "--save", folder / "b.safetensors", *more)
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()
    for file in sorted((straight / f"step-{STEPS:09}").glob("*.safetensors")):
        assert file.read_bytes() == (broken / f"step-{STEPS:09}" / file.name).read_bytes(), file.name


SAME_PLAN = [
    ("--mesh", "data=1"),
    ("--mesh", "data=2", "--zero", 0),
    ("--mesh", "data=2", "--ema", 0.9, "--microbatches", 2),
    ("--mesh", "data=2", "--zero", 2, "--microbatches", 3),
    ("--mesh", "data=4", "--zero", 3),
    ("--mesh", "data=2,tensor=2", "--shard", "head.weight=[tensor,-]", "--shard", "down.weight=[tensor,-]"),
]


@pytest.mark.parametrize("options", SAME_PLAN, ids=lambda options: "-".join(str(o).strip("-").replace("=", "") for o in options[1::2]))
def test_a_model_with_dropout_and_batch_norm_goes_on_with_the_same_bytes(options, dropping, tmp_path):
    assertSameBytes(compileDropping(dropping, tmp_path / "plan", *options), dropping / "data.npz", tmp_path, "--seed", 3)


@pytest.mark.parametrize("optimizer", ["sgd(lr=0.1,momentum=0.9)", "adafactor(lr=1e-2)", "muon(lr=1e-2)", "lamb(lr=1e-2)",
                                       "rmsprop(lr=1e-2,centered=True,momentum=0.9)"])
def test_every_kind_of_state_goes_on(optimizer, dropping, tmp_path):
    plan = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2", optimizer=optimizer)
    assertSameBytes(plan, dropping / "data.npz", tmp_path)


CASES = [
    Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=2),
    Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR),
    Case("gpt2-deep", "data=2,pipe=2", microbatches=4, schedule="1f1b", zero=2),
    Case("gpt2-deep", "pipe=2", microbatches=2, schedule="interleaved", chunks=3),
    Case("resnet", "data=2"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_models_go_on_with_the_same_bytes(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", ADAMW)
    assertSameBytes(plan, dataset(case.model, case.microbatches), tmp_path)


@pytest.mark.parametrize("options", [
    ("--mesh", "data=2", "--microbatches", 4, "--zero", 3), ("--mesh", "data=4", "--zero", 2), ("--mesh", "data=1", "--microbatches", 8),
    ("--mesh", "data=2,tensor=2", "--shard", "*.c_attn.weight=[-,tensor]", "--shard", "*.c_fc.weight=[-,tensor]", "--zero", 0),
    ("--mesh", "data=2,pipe=2", "--microbatches", 4, "--schedule", "1f1b")], ids=lambda options: options[1])
def test_another_mesh_takes_the_same_samples_and_trains_alike(options, tmp_path):
    """Eight samples a step, in whatever microbatches; random order. Values are equal to rounding."""
    models = Path(__file__).parents[1] / "models"
    (tmp_path / "text.txt").write_bytes(b"".join(file.read_bytes() for file in sorted(models.glob("*.py")))[:20000])

    def compiled(name, options):
        microbatches = options[options.index("--microbatches") + 1] if "--microbatches" in options else 1
        tools.tool("compile", models / "gpt2-bytes.onnx", "-o", tmp_path / name, "--input", f"input_ids=int64[{8 // microbatches},128]",
                   "--loss", "cross_entropy(logits,labels)", "--optimizer", "adamw(lr=1e-4)", *options)
        return tmp_path / name

    first, then = compiled("first", ("--mesh", "data=2", "--microbatches", 2)), compiled("then", options)
    data, losses = tmp_path / "text.txt", []
    run(first, data, STEPS, "--save", tmp_path / "a.safetensors", "--log", tmp_path / "a.jsonl", "--checkpoint", tmp_path / "c", "--every", FIRST)
    run(then, data, STEPS, "--resume", tmp_path / "c" / f"step-{FIRST:09}", "--save", tmp_path / "b.safetensors", "--log", tmp_path / "b.jsonl")
    for name in ("a", "b"):
        losses.append({entry["step"]: entry["loss"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()
                       if "loss" in (entry := json.loads(line))})
    assert sorted(losses[1]) == list(range(FIRST + 1, STEPS + 1))
    for step, loss in losses[1].items():
        assert loss == pytest.approx(losses[0][step], rel=1e-5)
    ours, theirs = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    for name, tensor in ours.items():
        # Adam divides by the root of squares that are nearly nothing: a rate's part.
        assert (theirs[name] - tensor).abs().max() < 1e-4, name
        assert (theirs[name] - tensor).abs().mean() < 2e-6, name


def test_a_checkpoint_written_by_one_mesh_is_the_one_that_another_writes(dropping, tmp_path):
    """Loaded and written again without a step between: each element of each tensor, wherever it lay."""
    plans = [compileDropping(dropping, tmp_path / f"plan{number}", *options, "--ema", 0.9) for number, options in enumerate([
        ("--mesh", "data=2"), ("--mesh", "data=1"),
        ("--mesh", "data=4", "--zero", 3),
        ("--mesh", "data=2,tensor=2", "--shard", "head.weight=[tensor,-]", "--shard", "down.weight=[-,tensor]", "--zero", 0)])]
    run(plans[0], dropping / "data.npz", 2, "--checkpoint", tmp_path / "c0")
    first = tensorsOf(tmp_path / "c0" / "step-000000002")
    assert {"table", "base.weight", "state.base.weight.exp_avg", "state.base.weight.ema", "state.step",
            "norm.running_mean"} <= first.keys()
    for number, plan in enumerate(plans[1:], 1):
        # Written anew after the last step, which was done before.
        run(plan, dropping / "data.npz", 2, "--resume", tmp_path / "c0", "--checkpoint", tmp_path / f"c{number}")
        again = tensorsOf(tmp_path / f"c{number}" / "step-000000002")
        assert again.keys() == first.keys()
        for name, tensor in first.items():
            assert np.array_equal(again[name], tensor), (number, name)


def tensorsOf(checkpoint):
    """Put together from the chunks that the manifest names."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())["manifest"]
    files = [load_file(checkpoint / file["name"]) for file in manifest["files"]]
    tensors = {}
    for entry in manifest["tensors"]:
        tensor = np.full(entry["shape"], np.nan)
        for chunk in entry["chunks"]:
            place = tuple(slice(o, o + s) for o, s in zip(chunk["offsets"], chunk["sizes"]))
            tensor[place] = files[chunk["file"]][chunk["key"]].numpy()
        assert not np.isnan(tensor).any()
        tensors[("state." if entry["role"] == "state" else "") + entry["name"]] = tensor
    return tensors


def test_the_weights_that_a_run_began_with_are_not_asked_for_again(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    state = {name: tensor.clone() + 1 for name, tensor in Dropping().state_dict().items() if "num_batches" not in name}
    save_file(state, tmp_path / "init.safetensors")
    run(plan, data, 3, "--init", tmp_path / "init.safetensors", "--save", tmp_path / "a.safetensors")
    run(plan, data, 2, "--init", tmp_path / "init.safetensors", "--checkpoint", tmp_path / "c")
    (tmp_path / "init.safetensors").unlink()
    run(plan, data, 3, "--resume", tmp_path / "c", "--save", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@pytest.fixture
def trained(dropping, tmp_path):
    plan = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2")
    run(plan, dropping / "data.npz", 4, "--checkpoint", tmp_path / "c", "--every", 2)
    return plan, dropping / "data.npz", tmp_path / "c"


def flip(file, offset=-1):
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(bytes(data))


DAMAGE = {
    "manifest": (lambda step: flip(step / "manifest.json", -20), "the digest differs: the manifest is damaged"),
    "no manifest": (lambda step: (step / "manifest.json").unlink(), "cannot be opened"),
    "short": (lambda step: (step / "shard-00002-of-00002.safetensors").write_bytes(b"x"), "it is damaged"),
    "no file": (lambda step: (step / "shard-00001-of-00002.safetensors").unlink(), "cannot be opened"),
    "a bit": (lambda step: flip(step / "shard-00002-of-00002.safetensors"), "their checksum differs"),
    "header": (lambda step: flip(step / "shard-00002-of-00002.safetensors", 20), "shard-00002-of-00002"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(damage, trained, tmp_path):
    plan, data, folder = trained
    break_, message = DAMAGE[damage]
    straight = run(plan, data, 6, "--save", tmp_path / "a.safetensors")
    assert straight
    break_(folder / "step-000000004")
    _, said = run(plan, data, 6, "--resume", folder / "step-000000004", "--log", tmp_path / "log", code=1)
    assert message in said
    _, said = run(plan, data, 6, "--resume", folder, "--checkpoint", folder, "--every", 2, "--save", tmp_path / "b.safetensors")
    assert "passed over, for an older checkpoint" in said and message in said
    assert "step-000000002, after step 2" in said
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    # The evidence stays.
    assert checkpoints(folder) == ["step-000000002", "step-000000004", "step-000000004.damaged", "step-000000006"]


def test_state_of_another_optimizer_is_an_error_with_a_way_on(trained, dropping, tmp_path):
    plan, data, folder = trained
    other = compileDropping(dropping, tmp_path / "other", "--mesh", "data=2", optimizer="sgd(lr=0.1,momentum=0.9)")
    _, said = run(other, data, 6, "--resume", folder, code=1)
    assert "the plan keeps momentum_buffer of 8 parameters that is not there" in said
    assert "there is exp_avg of 8 parameters, exp_avg_sq of 8 parameters that the plan does not keep" in said
    assert "--reset-optimizer" in said
    run(other, data, 4, "--resume", folder, "--reset-optimizer", "--save", tmp_path / "a.safetensors",
        "--checkpoint", tmp_path / "d")
    weights, before = load_file(tmp_path / "a.safetensors"), tensorsOf(folder / "step-000000004")
    for name, tensor in weights.items():
        if name != "down.weight":  # the other name of up.weight
            assert np.array_equal(tensor.numpy(), before[name]), name
    after = tensorsOf(tmp_path / "d" / "step-000000004")
    assert not after["state.base.weight.momentum_buffer"].any() and after["state.step"] == 0


def test_other_data_are_an_error_with_a_way_on(trained, dropping, tmp_path):
    plan, data, folder = trained
    for more, message in [
            (("--data", dropping / "other.npz"), "it was written with other data"),
            (("--data", data, "--seed", 1), "it was written with --seed 0, and this run has --seed 1: give --seed 0"),
            (("--data", data, "--order", "sequential"), "it was written with --order random, and this run has --order sequential"),
            (("--data", data, "--holdout", 0.5), "it was written with other data")]:
        command = (plan, *more, "--steps", 6, "--resume", folder)
        _, said = tools.tool("run", *command, code=1)
        assert message in said and "--reset-data" in said
        tools.tool("run", *command, "--reset-data")


def test_other_samples_per_step_are_an_error_that_names_both(trained, dropping, tmp_path):
    _, data, folder = trained
    more = compileDropping(dropping, tmp_path / "more", "--mesh", "data=2", "--microbatches", 2)
    _, said = run(more, data, 6, "--resume", folder, code=1)
    assert "it was written with 8 samples per step, and the plan takes 16: compile it for 8" in said
    run(more, data, 6, "--resume", folder, "--reset-data")


def test_the_order_begins_anew_where_it_is_asked_to_and_goes_on_from_there(trained, dropping, tmp_path):
    """Steps 5 and 6 read what steps 1 and 2 of the other data would; a later --resume keeps to that."""
    plan, _, folder = trained
    other = dropping / "other.npz"
    run(plan, other, 8, "--resume", folder, "--reset-data", "--save", tmp_path / "a.safetensors")
    run(plan, other, 6, "--resume", folder, "--reset-data", "--checkpoint", tmp_path / "d")
    run(plan, other, 8, "--resume", tmp_path / "d", "--save", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_another_model_is_refused_by_the_names_that_differ(trained, exported, dataset, tmp_path):
    _, _, folder = trained
    plan = Case("mlp", "data=2").compile(exported("mlp"), tmp_path / "mlp", ADAMW)
    _, said = run(plan, dataset("mlp", 1), 6, "--resume", folder, code=1)
    assert "it is a checkpoint of another model" in said and "it lacks fc" in said and "base.bias" in said


def test_what_cannot_be_resumed_says_why(trained, dropping, tmp_path):
    plan, data, folder = trained
    (tmp_path / "empty").mkdir()
    for path, message in [(tmp_path / "none", "there is no such folder"), (tmp_path / "empty", "it has no whole checkpoint"),
                          (folder / "step-000000003", "there is no such folder"), ("auto", "give that too")]:
        _, said = run(plan, data, 6, "--resume", path, code=1)
        assert message in said
    _, said = run(plan, data, 3, "--resume", folder, code=1)
    assert "--steps 3" in said and "is of step 4, which is later" in said
    _, said = run(plan, data, 6, "--resume", folder, "--init", tmp_path / "x", code=1)
    assert "--init" in said


def test_a_folder_with_later_checkpoints_is_not_written_over(trained, tmp_path):
    plan, data, folder = trained
    _, said = run(plan, data, 6, "--checkpoint", folder, code=1)
    assert "there are checkpoints in it, the newest of step 4: go on from it with --resume" in said
    _, said = run(plan, data, 6, "--checkpoint", folder, "--resume", folder / "step-000000002", code=1)
    assert "is of a later step than 2, from which this run goes on: move it away" in said
    assert checkpoints(folder) == ["step-000000002", "step-000000004"]


def test_auto_begins_where_there_is_nothing_and_goes_on_where_there_is(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    for steps in (2, 5):
        _, said = run(plan, data, steps, "--checkpoint", tmp_path / "c", "--resume", "auto")
        assert ("going on from" in said) == (steps == 5)
    assert checkpoints(tmp_path / "c") == ["step-000000002", "step-000000005"]


def test_old_ones_go_and_the_best_one_stays(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("mine")
    (tmp_path / "c" / "step-000000001").mkdir()  # no checkpoint of ours: it stays
    (tmp_path / "c" / ".tmp-step-000000099.1").mkdir()  # a dead run's: it goes
    (tmp_path / "c" / ".tmp-step-000000099.1" / "shard-00001-of-00002.safetensors").write_text("half")
    run(plan, data, 9, "--checkpoint", tmp_path / "c", "--every", 2, "--keep", 2, "--keep-best", "loss", "--log", tmp_path / "log")
    losses = {entry["step"]: entry["loss"] for line in (tmp_path / "log").read_text().splitlines() if "loss" in (entry := json.loads(line))}
    best = min((2, 4, 6, 8, 9), key=losses.get)
    kept = {8, 9, best}
    assert checkpoints(tmp_path / "c") == sorted({"notes.txt", "step-000000001"} | {f"step-{step:09}" for step in kept})
    _, said = run(plan, data, 1, "--checkpoint", tmp_path / "d", "--keep", 1, "--keep-best", "accuracy:max")
    assert "--keep-best accuracy: step 1 has no such metric" in said


def test_two_runs_do_not_write_into_one_folder(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    (tmp_path / "c").mkdir()
    holder = subprocess.Popen(["flock", "--no-fork", tmp_path / "c", "sleep", "60"])
    try:
        while subprocess.run(["flock", "-n", tmp_path / "c", "true"]).returncode == 0:
            pass
        _, said = run(plan, data, 1, "--checkpoint", tmp_path / "c", code=2)
        assert "another run is writing checkpoints there; this one waits up to 5 s" in said
    finally:
        holder.kill()
        holder.wait()


def test_options_that_make_no_sense_are_refused(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    for more, message in [
            (("--every", 2), "--checkpoint"), (("--checkpoint", tmp_path / "c", "--every", "2x"), "'2x' is neither a number of steps, such as 50, nor a time"),
            (("--checkpoint", tmp_path / "c", "--every", "s"), "'s' is neither"), (("--checkpoint", tmp_path / "c", "--every", "1.5m"), "'1.5m' is neither"),
            (("--checkpoint", tmp_path / "c", "--every", "0"), "'0' is neither"), (("--checkpoint", tmp_path / "c", "--keep-best", "loss"), "--keep"),
            (("--checkpoint", tmp_path / "c", "--keep", 1, "--keep-best", "loss:low"), "'loss:low' is no metric"),
            (("--checkpoint", data), "it is no folder"), (("--checkpoint", tmp_path / "x" / "y"), "No such file"),
            (("--reset-data",), "--resume"), (("--reset-optimizer",), "--resume")]:
        _, said = run(plan, data, 1, *more, code=1)
        assert message in said, more


def test_a_save_that_fails_costs_the_checkpoint_and_no_step(dropping, tmp_path):
    """The disk goes away in the middle: the exit code says that the last save failed, and all steps are done."""
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    run(plan, data, 3000, "--save", tmp_path / "a.safetensors")
    process = subprocess.Popen([tools.bin() / "polyrank-run", plan, "--data", data, "--steps", "3000", "--checkpoint", tmp_path / "c",
                                "--every", "10", "--save", tmp_path / "b.safetensors"], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "c" / "step-000000010").exists():
        assert process.poll() is None
    (tmp_path / "c").rename(tmp_path / "gone")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert "the checkpoint of the last step could not be written" in said and "No such file" in said
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    whole = [name for name in checkpoints(tmp_path / "gone") if name.startswith("step-")]
    run(plan, data, 3000, "--resume", tmp_path / "gone", "--save", tmp_path / "c.safetensors")
    assert whole and (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()


def test_the_copies_are_counted_before_the_start(dropping, tmp_path):
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    said, _ = run(plan, data, 1, "--checkpoint", tmp_path / "c", "--check")
    assert "for copies of what --checkpoint writes" in said
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("unit", "smh")
def test_times_between_checkpoints_are_the_same_step_on_all_ranks(unit, dropping, tmp_path):
    """None passes here: the last step alone. Ranks that agreed on different steps would hang or be refused."""
    plan, data = compileDropping(dropping, tmp_path / "plan", "--mesh", "data=2"), dropping / "data.npz"
    run(plan, data, 50, "--checkpoint", tmp_path / "c", "--every", f"999{unit}")
    assert checkpoints(tmp_path / "c") == ["step-000000050"]


def test_inspect_lists_checkpoints_and_finds_damage(trained):
    _, _, folder = trained
    said, _ = tools.tool("inspect", folder / "step-000000004", "--verify")
    for line in ("step          4", ", on data=2", "base.weight.exp_avg", "norm.running_mean", "whole, every byte as it was written"):
        assert line in said
    report = json.loads(tools.tool("inspect", folder / "step-000000004", "--json")[0])
    assert report["report"] == "checkpoint" and report["step"] == 4 and report["data"]["samples_per_step"] == 8
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert tensors["base.weight"] == {"name": "base.weight", "role": "parameter", "dtype": "f32", "shape": [8, 6], "bytes": 192,
                                      "chunks": tensors["base.weight"]["chunks"]}
    assert tensors["norm.running_mean"]["role"] == "buffer" and tensors["step"]["role"] == "state"
    assert sum(file["bytes"] for file in report["files"]) == report["bytes"]
    flip(folder / "step-000000004" / "shard-00001-of-00002.safetensors")
    said, _ = tools.tool("inspect", folder)
    assert said.count("whole by its manifest and sizes") == 2
    said, error = tools.tool("inspect", folder, "--verify", code=1)
    assert "step-000000004  DAMAGED" in said and "their checksum differs" in error
    report = json.loads(tools.tool("inspect", folder, "--verify", "--json", code=1)[0])
    assert [entry["whole"] for entry in report["checkpoints"]] == [False, True]
    tools.tool("inspect", folder / "step-000000004", "--verify", code=1)
    _, error = tools.tool("inspect", trained[0], "--verify", code=1)
    assert "--verify is for checkpoints" in error
