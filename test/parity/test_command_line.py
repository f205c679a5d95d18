"""Wrong input ends with exit code 1 and a message that names it, before any work."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

import tools
from tools import Case

LOSS = ("--loss", "cross_entropy(logits,labels)")
TENSOR = ("--mesh", "tensor=2")
DATA = ("--mesh", "data=2")


def refuse(name, *args):
    """The one message of a call that must be refused: no trace, no signal, no exception."""
    output, error = tools.tool(name, *args, code=1)
    assert output == ""
    for trace in ("Stack dump", "terminate called", "LLVM ERROR", "what()", "see current operation"):
        assert trace not in error
    return error


@pytest.mark.parametrize("args, message", [
    (("--mesh", "data=2,foo=2", *LOSS), "mesh axis foo=2 is used by nothing"),
    (("--mesh", "date=2", *LOSS), "the axis that splits the batch is called 'data'"),
    (("--mesh", "data=2,data=2", *LOSS), "axis 'data' is given twice"),
    (("--mesh", "data=0", *LOSS), "axis 'data' has size 0"),
    (("--mesh", "data", *LOSS), "'data' is not AXIS=SIZE"),
    (("--mesh", "data=16", *LOSS), "batch of 8"),
    ((*TENSOR, *LOSS, "--shard", "fc1.weight=[tensr,-]"), "no axis 'tensr'; it has tensor; nearest: 'tensor'"),
    ((*TENSOR, *LOSS, "--shard", "fc1.weight=[tensor,tensor]"), "'tensor' is used twice"),
    ((*TENSOR, *LOSS, "--shard", "fc1.weight=[tensor]"), "has 1 dim, but 'fc1.weight' has 2"),
    ((*TENSOR, *LOSS, "--shard", "fc9.weight=[tensor,-]"), "matches no parameter or input; nearest: 'fc1.weight'"),
    ((*TENSOR, *LOSS, "--shard", "fc1.weight"), "expected PATTERN=[DIM,..]"),
    ((*TENSOR, *LOSS, "--shard-file", "no-such-file"), "no-such-file"),
    (("--mode", "trian", *LOSS), "--mode: 'trian' is none of train, forward; nearest: 'train'"),
    (("--mode", "forward", "--optimizer", "sgd(lr=1)"), "--optimizer"),
    (("--mode", "forward", "--microbatches", "4"), "one microbatch, not 4"),
    ((), "training needs a loss"),
    (("--loss", "cross_entropy(logit,labels)"), "no output 'logit'; its outputs are: logits; nearest: 'logits'"),
    (("--loss", "cross_entropy(logits"), "closing parenthesis"),
    (("--loss", "crossentropy(logits,labels)"), "binary_cross_entropy_with_logits; nearest: 'cross_entropy'"),
    (("--loss", "cross_entropy(logits,labels,axis=7)"), "dim 7"),
    (("--loss", "output(logits)"), "not one number"),
    ((*LOSS, "--input", "ids=float32[8,16]"), "no input `ids`; its inputs are `x`"),
    ((*LOSS, "--input", "xs=float32[8,16]"), "its inputs are `x`; nearest: 'x'"),
    ((*LOSS, "--input", "x=float32[4,16]"), "dim 0 of 8 in the file"),
    ((*LOSS, "--input", "x=[8,16]"), "is not NAME=DTYPE[D0,D1,...]"),
    ((*LOSS, "--optimizer", "adamww(lr=1)"), "adafactor, lamb, lion, muon; nearest: 'adamw', 'adam'"),
    ((*LOSS, "--optimizer", "adamw(weigth_decay=1)"), "nearest: 'weight_decay'"),
    ((*LOSS, "--optimizer", "adamw(lr=x)"), "expected a number"),
    ((*LOSS, "--optimizer", "adamw(lr=1,decay=zz*)"), "decay=zz* matches no trainable parameter; nearest: "),
    ((*LOSS, "--optimizer", "adamw(decay=*.wight)"), "matches no trainable parameter; nearest: 'fc1.weight'"),
    ((*LOSS, "--cpu", "z80"), "no CPU named 'z80'"),
    ((*LOSS, "--cpu", "skylak"), "nearest: 'skylake'"),
    ((*LOSS, "--target", "cpu:z80"), "--target: LLVM knows no CPU named 'z80'"),
    ((*LOSS, "--target", "abacus"), "--target: there is no target 'abacus'; there are: cpu"),
    ((*LOSS, "--target", "cpuu:native"), "there are: cpu, cuda; nearest: 'cpu'"),
    ((*LOSS, "--target", "cpu:x86-64-v4", "--cpu", "x86-64-v3"), "--target cpu:x86-64-v4 and --cpu x86-64-v3 name two targets: "
     "--cpu x86-64-v3 is short for --target cpu:x86-64-v3; give one"),
    ((*LOSS, "--target", "cpu:x86-64-v3", "--cpu", "native"), "and --cpu native name two targets"),
    ((*LOSS, "--denormals", "drop"), "--denormals"),
    ((*LOSS, "--threads", "0"), "--threads"),
    ((*LOSS, *DATA, "--link", "data=fast"), "--link"),
    ((*LOSS, *DATA, "--link", "data=1:1e-30"), "from 1e-6 to 1e6 GB/s are possible"),
    ((*LOSS, *DATA, "--link", "data=nan:1"), "from 0 to 1e6 microseconds"),
    ((*LOSS, *DATA, "--link", "dta=1:1"), "no axis 'dta'; it has data; nearest: 'data'"),
    ((*LOSS, "--batch-norm", "bacth"), "nearest: 'batch'"),
    ((*LOSS, "--dropout", "of"), "nearest: 'off'"),
    ((*LOSS, "--dump-passes", "/proc/nowhere"), "/proc/nowhere"),
    ((*LOSS, "--surprise"), "no option '--surprise' (see --help)"),
    ((*LOSS, "--microbatch=2"), "no option '--microbatch'; nearest: '--microbatches'"),
    ((*LOSS, "--batch-size", "8"), "no option '--batch-size'; the batch is a size of the model's inputs: --dim or --input"),
    ((*LOSS, "--bf16"), "no option '--bf16'; that is --precision of polyrank-compile, bf16 or fp16"),
    ((*LOSS, "--precision", "bf61"), "--precision: 'bf61'"),
    ((*LOSS, "--fp32", "fc2"), "--fp32"),
    ((*LOSS, "--precision", "bf16", "--fp32", "fc4"), "--fp32 fc4: no module of this name computes anything; nearest: 'fc1'"),
    ((*LOSS, "--precision", "bf16", "--fp32", "fc["), "--fp32 fc[: 'fc[' is no pattern"),
    ((*LOSS, "--freeze", "fc1"), "--freeze 'fc1' matches no parameter; nearest: 'fc1.bias', 'fc1.weight'"),
    ((*LOSS, "--clip-norm", "-1"), "--clip-norm: '-1' is no number above 0 (see"),
])
def test_compile_refuses_wrong_options(args, message, exported, tmp_path):
    plan = tmp_path / "plan"
    error = refuse("compile", exported("mlp"), "-o", plan, *args)
    assert message in error
    assert os.listdir(tmp_path) == []


def test_compile_refuses_files_that_are_no_models(exported, tmp_path):
    whole = exported("mlp").read_bytes()
    for name, data, message in [
            ("text.onnx", b"import torch\n" * 100, "not an ONNX model"),
            ("short.onnx", whole[:len(whole) // 2], "cut short"),
            ("empty.onnx", b"", "empty"),
            ("model.bin", whole, "is no ONNX file (.onnx)")]:
        (tmp_path / name).write_bytes(data)
        assert message in refuse("compile", tmp_path / name, "-o", tmp_path / "plan", *LOSS)
    assert "none.onnx" in refuse("compile", tmp_path / "none.onnx", "-o", tmp_path / "plan", *LOSS)
    assert not (tmp_path / "plan").exists()


def test_compile_asks_first_whether_the_plan_can_be_written(exported, tmp_path):
    assert "nowhere" in refuse("compile", exported("mlp"), "-o", tmp_path / "nowhere/plan", *LOSS)
    assert "directory" in refuse("compile", exported("mlp"), "-o", tmp_path, *LOSS)


@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_report_that_cannot_be_written_is_a_failure(output, exported, tmp_path):
    plan = Case("mlp", "data=2").compile(exported("mlp"), tmp_path / "plan", "sgd(lr=1)")
    where = ">/dev/full" if output == "full" else ">&-"
    for name, *args in [("compile", exported("mlp"), "--describe"), ("inspect", plan), ("inspect", plan, "--json"),
                        ("compile", exported("mlp"), *LOSS, "-o", plan, "--json")]:
        command = " ".join(["exec", f"'{tools.bin()}/polyrank-{name}'", *(f"'{arg}'" for arg in args), where])
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=tools.SECONDS)
        assert done.returncode == 2 and "cannot write" in done.stderr, (command, done)


@pytest.mark.parametrize("errors", ["2>/dev/full", "2>&-"])
def test_a_plan_is_written_though_nobody_can_read_the_notes(errors, exported, tmp_path):
    plan = tmp_path / "plan"
    command = f"exec '{tools.bin()}/polyrank-compile' '{exported('mlp')}' --mesh data=2 --loss '{LOSS[1]}' -o '{plan}' {errors}"
    assert subprocess.run(["sh", "-c", command], timeout=tools.SECONDS).returncode == 0
    assert tools.inspect(plan)["ranks"] == 2  # no note has got into it


@pytest.mark.parametrize("stage, has", [
    ("import", "graph.parameter"), ("training", "func.func @step"), ("propagate", "#sharding.layout"),
    ("partition", "sharding.all_reduce"), ("rank", "rank.")])
def test_stop_after_prints_mlir_on_standard_output(stage, has, exported):
    output, _ = tools.tool("compile", exported("mlp"), *DATA, *LOSS, "--stop-after", stage)
    assert output.startswith(("module", "#")) and has in output


def test_decay_knows_a_tied_parameter_by_all_its_names(exported):
    def step(pattern):
        return tools.tool("compile", exported("gpt2"), *LOSS, "--stop-after", "training",
                          "--optimizer", f"sgd(lr=1,weight_decay=0.5,decay={pattern})")[0]

    assert step("*wte.weight") == step("lm_head.weight") != step("*wpe.weight")


def test_passes_are_dumped_and_collectives_explained(exported, tmp_path):
    output, _ = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", *DATA, *LOSS, "--why",
                           "--dump-passes", tmp_path / "passes")
    assert "all_reduce over data" in output and "fc1.weight" in output
    assert len(list((tmp_path / "passes").rglob("*.mlir"))) > 10


@pytest.fixture(scope="module")
def mlp(exported, tmp_path_factory):
    """A plan that trains the MLP on two ranks, beside its own copy of the model."""
    folder = tmp_path_factory.mktemp("mlp")
    shutil.copy(exported("mlp"), folder / "model.onnx")
    tools.tool("compile", folder / "model.onnx", "-o", folder / "plan", *DATA, *LOSS)
    return folder / "plan"


@pytest.mark.parametrize("change, message", [
    (dict(labels=None), "has no array 'labels'"),
    (dict(labels=None, label=lambda y: y), "nearest: 'label'"),
    (dict(x=None), "has no array 'x'"),
    (dict(x=lambda x: x[:, :9]), "has shape [56,9]"),
    (dict(x=lambda x: x[:20]), "'x' has 20"),
    (dict(labels=lambda y: y + 5), "takes i64 in [0, 10)"),
    (dict(labels=lambda y: -y - 1), "takes i64 in [0, 10)"),
    (dict(labels=lambda y: y.astype(np.float32)), "holds float32, but input 'labels' takes i64"),
    (dict(x=lambda x: x[:4], labels=lambda y: y[:4]), "fewer than one global batch of 8"),
    (dict(x=lambda x: x.astype(object)), "'x'"),
])
def test_run_refuses_wrong_data(change, message, mlp, tmp_path):
    arrays = {name: t.numpy() for name, t in Case("mlp", "data=2").spec.data(1).items()}
    labels = arrays["labels"]
    for name, how in change.items():
        if how is None:
            del arrays[name]
        else:  # an array of another name is made of the labels
            arrays[name] = how(arrays.get(name, labels))
    np.savez(tmp_path / "data.npz", **arrays)
    error = refuse("run", mlp, "--data", tmp_path / "data.npz", "--steps", 5, "--quiet",
                   "--save", tmp_path / "out.safetensors")
    assert message in error and "data.npz" in error
    assert os.listdir(tmp_path) == ["data.npz"]


def test_run_names_arrays_that_no_input_takes(mlp, tmp_path):
    arrays = {name: t.numpy() for name, t in Case("mlp", "data=2").spec.data(1).items()}
    np.savez(tmp_path / "data.npz", surplus=arrays["x"], **arrays)
    _, error = tools.tool("run", mlp, "--data", tmp_path / "data.npz", "--steps", 1)
    assert "no input takes: surplus" in error


def test_run_refuses_a_plan_that_is_not_whole(mlp, dataset, tmp_path):
    whole, plan = mlp.read_bytes(), tmp_path / "plan"
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for data, message in [(whole[:-7], "damaged"), (whole[:40], "less than a header"),
                          (bytes(flipped), "its hash should be"), (b"x" * 999, "is not a plan"),
                          (whole[:8] + b"\x63" + whole[9:], "has version 99")]:
        plan.write_bytes(data)
        assert message in refuse("run", plan, "--data", dataset("mlp", 1), "--steps", 1)
        assert message in refuse("inspect", plan)


def test_run_says_before_the_first_step_what_it_cannot_write(mlp, dataset, tmp_path):
    run = ("run", mlp, "--data", dataset("mlp", 1), "--steps", 1)
    for path in (tmp_path / "nowhere/w", tmp_path, "/dev/full", "/proc/w"):
        assert str(path) in refuse(*run, "--save", path, "--quiet")
    assert "nowhere" in refuse(*run, "--log", tmp_path / "nowhere/log", "--quiet")
    assert "No space left" in tools.tool(*run, "--log", "/dev/full", "--quiet", code=5)[1]  # and goes on without it


def test_weights_are_found_from_any_folder_and_known_again(exported, dataset, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    shutil.copy(exported("mlp"), first / "model.onnx")
    compiler = tools.bin().resolve() / "polyrank-compile"
    subprocess.run([compiler, "model.onnx", "-o", "plan", *DATA, *LOSS], cwd=first, check=True)
    run = ("--data", dataset("mlp", 1), "--steps", 1, "--quiet")
    tools.tool("run", first / "plan", *run)
    # Moved together, they still find each other.
    first.rename(second)
    tools.tool("run", second / "plan", *run)
    model = bytearray((second / "model.onnx").read_bytes())
    weight = Case("mlp", "data=2").spec.fresh().state_dict()["fc2.weight"].numpy().tobytes()
    model[model.index(weight)] ^= 1
    (second / "model.onnx").write_bytes(model)
    error = refuse("run", second / "plan", *run)
    assert "fc2.weight" in error and "not those that the plan was compiled with" in error
    (second / "model.onnx").unlink()
    error = refuse("run", second / "plan", *run)
    assert "model.onnx" in error and "--init" in error


def test_run_names_options_that_change_nothing(mlp, dataset, tmp_path):
    run = ("run", mlp, "--data", dataset("mlp", 1), "--order", "sequential", "--checkpoint", tmp_path / "c", "--seed", 3)
    _, said = tools.tool(*run, "--steps", 2, "--every", 2, "--save-shard-size", "1GB")
    for text in ("--every changes nothing: the run ends after step 2, where", "--save-shard-size changes nothing: no weights",
                 "--seed changes nothing: nothing is drawn"):
        assert f"polyrank-run: {text}" in said
    _, said = tools.tool(*run, "--steps", 2, "--resume", tmp_path / "c")
    assert "--resume changes nothing: the checkpoint is of step 2, and the run has 2 steps, those before it included" in said
    assert "changes nothing" not in tools.tool(*run, "--steps", 2, "--resume", tmp_path / "c", "-q")[1]
    _, said = tools.tool(*run[:4], "--checkpoint", tmp_path / "c", "--seed", 3, "--steps", 4, "--reset-data", "--resume",
                         tmp_path / "c", "--every", 3)
    assert "changes nothing" not in said


def test_an_empty_value_reaches_the_ranks_as_such(mlp, dataset, tmp_path):
    """Each rank reads the options again, as a command line in which a value that is empty must not take what follows."""
    log = tmp_path / "log.jsonl"
    tools.tool("run", mlp, "--data", dataset("mlp", 1), "--steps", 1, "--lr-schedule", "", "--log", log)
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 1


def test_check_says_which_of_plan_and_options_is_wrong(mlp, dataset):
    run = ("run", mlp, "--data", dataset("mlp", 1), "--check")
    said, _ = tools.tool(*run, code=1)
    assert [line.split()[:2] for line in said.splitlines()] == [["plan", "ok"], ["options", "WRONG"], ["device", "ok"], ["cores", "ok"]]
    assert "WRONG give the number of steps: --steps N" in said
    said, _ = tools.tool(*run, "--steps", 1, "--order", "sequential", "--seed", 1)
    assert "options ok    they fit the plan; --seed changes nothing" in said


def test_a_file_of_another_kind_gets_no_other_name(mlp, tmp_path):
    (tmp_path / "corpus.parquet").write_bytes(b"PAR1" + bytes(99))
    error = refuse("run", mlp, "--data", tmp_path / "corpus.parquet", "--steps", 1)
    assert "corpus.parquet: is a Parquet file; text in it becomes tokens by: polyrank tokenize" in error


def test_log_and_report_have_what_scripts_rely_on(mlp, dataset, tmp_path):
    run = tools.train(mlp, dataset("mlp", 1), 3, tmp_path / "run")
    for number, line in enumerate(run.log, 1):
        assert line["step"] == number
        for field in ("loss", "seconds", "samples_per_second"):
            assert line[field] >= 0
        assert "tokens_per_second" not in line  # of what is no sequence
    report = json.loads(tools.tool("inspect", mlp, "--json")[0])
    memory, _ = tools.tool("inspect", mlp, "--memory")
    total = report["memory_per_rank"]["total"]
    assert f"({total} bytes)" in memory and "lower bound" in memory and "gap" in memory
    assert "AllReduce" in tools.tool("inspect", mlp, "--comm")[0]
    assert "data splits the batch" in tools.tool("inspect", mlp, "--why", "data")[0]
    assert "among them  gradient 'fc1.weight'" in tools.tool("inspect", mlp, "--why", "fc1.weight")[0]
    assert "nothing" in refuse("inspect", mlp, "--why", "nothing")
    assert "nearest: 'fc1.weight'" in refuse("inspect", mlp, "--why", "fc1.wieght")


def test_what_a_plan_holds_fits_a_terminal(exported, tmp_path):
    """Alike layers are one line, and so is each kind of state."""
    tools.tool("compile", exported("gpt2"), "-o", tmp_path / "plan", *DATA, *LOSS, "-q")
    output, _ = tools.tool("inspect", tmp_path / "plan")
    assert max(map(len, output.split("kernels:")[0].splitlines())) <= 80
    assert "2 x [32, 128]" in output and "transformer.h.[0-1].mlp.c_fc.weight" in output
    assert "of state exp_avg of 28 parameters, laid out as they are" in output


@pytest.mark.parametrize("name", ["compile", "run", "inspect", "opt"])
def test_help_fits_a_terminal(name):
    output, _ = tools.tool(name, "--help")
    assert name == "opt" or max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("name, former, now", [
    ("run", "--bind", "--bind-to"), ("inspect", "--schedule", "--timeline-svg"), ("inspect", "--overlap", "--timeline"),
    ("inspect", "--log", "--plot"), ("inspect", "--check", "--verify")])
def test_a_former_name_works_and_is_not_shown(name, former, now, mlp, tmp_path):
    """A word has one meaning over all tools; what a tool called an option before, it still takes."""
    shown = tools.tool(name, "--help")[0] + tools.tool(name, "--man")[0].replace("\\-", "-")
    for shell in ("bash", "zsh", "fish"):
        shown += tools.tool(name, "--completions", shell)[0]
    assert f"{now} " in shown and not re.search(rf"{former}(?![a-z-])", re.sub(r"polyrank-run\s+--\w+", "", shown))
    plan, log = (tmp_path / "plan", tmp_path / "log") if name == "run" else (mlp, tmp_path / "log")
    log.touch()
    values = {"run": ["none"], "--schedule": [tmp_path / "a.svg"], "--log": [log, "-o", tmp_path / "b.svg"]}
    value = values.get(former, values.get(name, []))
    given = [*value] if former == "--log" else [*value, plan]
    text = {"--check": "--verify is for checkpoints", "--log": "has no record of a step"}.get(former)
    for word in (former, now):
        if name == "run":
            assert tools.tool(name, word, *given, "--write-config")[0].count("bind-to = ") == 1
        elif text:
            assert text in refuse(name, word, *given)
        else:
            tools.tool(name, word, *given)
    if name == "run":
        (tmp_path / "run.toml").write_text('plan = "p"\nbind = "numa"\n')
        assert 'bind-to = "numa"' in tools.tool(name, "--config", tmp_path / "run.toml", "--write-config")[0]


def test_a_mesh_that_this_machine_cannot_be_meant_for_needs_a_word(exported, tmp_path):
    cores = len(os.sched_getaffinity(0))
    wide = ("--mesh", f"data={16 * cores}", "--input", f"x=float32[{16 * cores},16]", *LOSS)
    far = ("--mesh", f"data={1000 * cores}", "--input", f"x=float32[{1000 * cores},16]", *LOSS)
    model, plan = exported("mlp-mse"), tmp_path / "plan"
    loss = ("--loss", "mse(logits,target)")
    wide, far = (*wide[:-2], *loss), (*far[:-2], *loss)
    _, error = tools.tool("compile", model, "-o", plan, *wide, "-q")
    assert f"{16 * cores} ranks x 1 thread will take turns on the {cores} cores of this machine" in error
    assert "warning" not in tools.tool("compile", model, "-o", plan, *wide, "-q", "--cpu", "x86-64-v3")[1]
    assert "warning" in tools.tool("compile", model, "-o", plan, *wide, "-q", "--target", "cpu")[1]
    error = refuse("compile", model, "-o", plan, *far)
    assert f"{1000 * cores} ranks x 1 thread cannot be meant for the {cores} cores of this machine" in error
    assert "--cpu x86-64-v3" in error
    tools.tool("compile", model, "-o", plan, *far, "-q", "--link", "data=10:10")
    assert f"cannot run on the {cores} cores" in refuse("run", plan, "--data", tmp_path / "none.npz", "--steps", 1)


def test_a_target_is_named_in_full_or_by_its_short_form(exported, tmp_path):
    """Both are one plan; --describe keeps the form that was given."""
    images = []
    for named in (("--target", "cpu:x86-64-v3"), ("--cpu", "x86-64-v3"), ("--target", "cpu:x86-64-v3", "--cpu", "x86-64-v3")):
        tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", *LOSS, *named)
        images.append(json.loads(tools.tool("inspect", tmp_path / "plan", "--json")[0])["images"])
    assert images[0] == images[1] == images[2]
    assert [(image["target"], image["format"], image["machine"]) for image in images[0]] == [("cpu", "elf", "x86-64-v3")]
    assert "avx2" in images[0][0]["features"] and "avx512f" not in images[0][0]["features"]
    said = json.loads(tools.tool("compile", exported("mlp"), "--describe", "--json", "--target", "cpu:x86-64-v3")[0])
    assert "--target cpu:x86-64-v3" in " ".join(said["command"])


def test_denormals_are_a_property_of_the_plan(exported, dataset, tmp_path):
    """The least normal float32 divided by 2^10 is kept, or zero."""
    class Scale(torch.nn.Module):
        def forward(self, x):
            return x * 2.0 ** -10

    torch.onnx.export(Scale(), (torch.ones(2, 4),), tmp_path / "scale.onnx", input_names=["x"], output_names=["y"], dynamo=True)
    tools.saveData(tmp_path / "x.npz", {"x": torch.full((2, 4), 2.0 ** -126)})
    for mode, expected in (("flush", 0), ("keep", 2.0 ** -136)):
        plan = tmp_path / f"{mode}.plan"
        tools.tool("compile", tmp_path / "scale.onnx", "-o", plan, "--mode", "forward", "--denormals", mode)
        assert f"denormals     {'flushed to zero' if mode == 'flush' else 'kept'}" in tools.tool("inspect", plan)[0]
        assert json.loads(tools.tool("inspect", plan, "--json")[0])["denormals"] == mode
        for given in ((), ("--denormals", mode)):
            tools.tool("run", plan, "--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz", *given)
            assert np.load(tmp_path / "y.npz")["y"].tolist() == [[expected] * 4] * 2
        other = "keep" if mode == "flush" else "flush"
        error = refuse("run", plan, "--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz", "--denormals", other)
        assert f"--denormals {other}: the plan was compiled with --denormals {mode}; compile it again with --denormals {other}" in error
    tools.tool("compile", tmp_path / "scale.onnx", "-o", tmp_path / "usual.plan", "--mode", "forward")
    assert json.loads(tools.tool("inspect", tmp_path / "usual.plan", "--json")[0])["denormals"] == "flush"


@pytest.mark.parametrize("name, args, option", [
    *(("run", ("some.plan",), option) for option in ("--save", "--save-trained", "--save-ema", "--checkpoint", "--init", "--log", "--tensorboard",
                                                      "--profile", "--trace", "--data", "--inputs")),
    ("run", (), ""), ("compile", ("some.onnx", *LOSS), "--params"), ("compile", (), ""),
    ("inspect", (), "")])
def test_an_empty_path_is_refused(name, args, option):
    """As a variable of the shell that is not set gives it: nothing would be read or saved."""
    assert "the path is empty" in refuse(name, *args, *([option] if option else []), "")
