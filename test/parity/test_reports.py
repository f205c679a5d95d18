"""Every report in JSON has exactly the fields that docs/reports.md lists."""

import datetime
import json
import os
import platform
import pty
import re
import shlex
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
import torch

import tools

LOSS = ("--loss", "cross_entropy(logits,labels)")
PAGE = Path(__file__).resolve().parents[2] / "docs/reports.md"
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool,
         "list": list, "object": dict, "null": type(None)}


def documented(report):
    """Field -> (its types, whether it may be missing), of one section of the page."""
    section = PAGE.read_text().split(f"\n## {report}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \| (.*)\|$", section, re.M)
    return {field: (types.strip().split(" or "), "*optional*" in note) for field, types, note in rows}


def fields(value, fits, prefix=""):
    """Each field below `value` with each of its values, named as the page names it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            field = f"{prefix}.{name}" if prefix else name
            if field not in fits and not any(known.startswith(f"{field}.") for known in fits):
                generic = f"{prefix}.*" if prefix else "*"
                field = generic if generic in fits else field
            yield from fields(inner, fits, field)
        if prefix in fits:
            yield prefix, value
    elif isinstance(value, list) and prefix not in fits:
        for inner in value:
            yield from fields(inner, fits, prefix + "[]")
    else:
        yield prefix, value


def check(kind, report, empty=()):
    """`empty` are the lists and objects that have nothing in this report."""
    known = documented(kind)
    if kind == "compile":  # it contains a whole report of another kind
        if report["plan"]:
            check("plan", report["plan"])
        report = dict(report, plan=report["plan"] and {})
    seen = list(fields(report, known))
    for field, value in seen:
        assert field in known, f"{kind}: '{field}' is not documented"
        types = tuple(t for name in known[field][0] for t in [TYPES[name]])
        flat = tuple(t for group in types for t in (group if isinstance(group, tuple) else (group,)))
        isBoolean = isinstance(value, bool)
        assert (bool in flat) if isBoolean else isinstance(value, flat), f"{kind}.{field} is {value!r}"
    names = {field for field, _ in seen}
    for field, (_, optional) in known.items():
        inside = any(field.startswith((f"{part}[]", f"{part}.")) for part in empty)
        assert field in names or optional or inside, f"{kind}: '{field}' is missing"
    if "report" in known:  # a record of a log does not say so
        assert report["report"] == kind and report["version"] == (2 if kind in ("plan", "check") else 1)


def report(name, *args, code=0):
    """Standard output is one JSON value and nothing else."""
    return json.loads(tools.tool(name, *args, code=code)[0])


@pytest.fixture(scope="module")
def compiled(exported, tmp_path_factory):
    plan = tmp_path_factory.mktemp("reports") / "plan"
    return plan, report("compile", exported("mlp"), "-o", plan, "--mesh", "data=2", *LOSS, "--json", "--why")


def test_compile(compiled):
    plan, made = compiled
    check("compile", made, empty=["replicated"])
    assert made["status"] == "ok" and made["file"] == str(plan)
    assert made["plan"] == report("inspect", plan, "--json")
    assert {"check": "check-ranks", "holds": True} in made["checks"]
    assert made["objective"]["value"] == made["objective"]["bound"]
    assert made["seconds"] == pytest.approx(sum(entry["seconds"] for entry in made["passes"]))


def test_compile_that_fails(exported, tmp_path):
    made = report("compile", exported("mlp"), "-o", tmp_path / "plan", "--loss", "none(x)", "--json", code=1)
    check("compile", made, empty=["replicated", "objective", "checks"])
    assert made["status"] == "error" and made["plan"] is None
    assert "unknown loss 'none'" in made["messages"][-1]["text"]


def test_what_a_constraint_would_split_is_listed(exported, tmp_path):
    made = report("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=2,tensor=2",
                  "--shard", "fc1.weight=[tensor,-]", *LOSS, "--json")
    check("compile", made)
    assert any("fc3.weight" in entry["parameters"] for entry in made["replicated"])


def test_inspect(compiled):
    plan, _ = compiled
    whole = report("inspect", plan, "--json")
    check("plan", whole)
    shared = report("inspect", plan, "--json", "--machines", 2)
    check("plan", shared)
    assert shared.pop("machines")["communication"] and shared == whole
    some = report("inspect", plan, "--json", "--why", "fc1.weight")
    assert 0 < len(some["collectives"]) < len(whole["collectives"])
    memory = whole["memory_per_rank"]
    assert sum(kind["bytes"] for kind in memory["by_kind"]) == memory["total"]
    assert memory["peak"]["bytes"] <= memory["lower_bound"]


def test_inspect_says_how_a_gpu_runs_kernels(exported, tmp_path):
    made = report("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=2", *LOSS, "--target", "cuda",
                  "--ptxas", "none", "--json", "--why")
    check("compile", made, empty=["replicated"])
    kernels = made["plan"]["kernels"]
    assert {"map", "row", "column"} == {kernel["kind"] for kernel in kernels}
    for kernel in kernels:
        assert kernel["threads"] % 32 == 0 and kernel["blocks"] >= 1 and kernel["requested_bytes"] >= kernel["bytes"]
        (code,) = kernel["code"]
        assert (code["machine"], code["format"], code["registers"]) == ("sm_80", "ptx", 0)


def test_memory_is_told_by_module_and_phase(exported, tmp_path):
    """The peak of a training is at the turn from forward to backward, where the blocks' activations are held."""
    plan = tmp_path / "plan"
    tools.tool("compile", exported("gpt2"), "-o", plan, *LOSS, "--optimizer", "adamw(lr=1e-3)")
    memory = report("inspect", plan, "--json")["memory_per_rank"]
    peak = memory["peak"]
    assert sum(line["bytes"] for line in peak["held"]) == peak["bytes"]
    # What the commands hold at most is what the compiler says must be held, but for alignment to 64 bytes. (With
    # several ranks the compiler's bound is higher: what moves in one bucket comes and goes together.)
    assert 0.98 * memory["lower_bound"] <= peak["bytes"] <= memory["lower_bound"]
    held = {(line["written_by"], line["module"]): line["bytes"] for line in peak["held"]}
    assert held["forward", "transformer.h.[0-1].mlp.c_fc"] > 0
    assert sum(b for (phase, _), b in held.items() if phase == "forward") > peak["bytes"] / 2
    assert held["parameters", ""] == memory["parameters"] and held["optimizer state", ""] == memory["state"]
    text, _ = tools.tool("inspect", plan, "--memory")
    assert f"most is held in segment '{peak['segment']}', {peak['phase']}: " in text
    assert f"\n  at {peak['origin']}\n" in text


def test_the_phase_of_a_command_does_not_depend_on_names(exported, tmp_path):
    """A node may be called as a parameter is, or "step": what reads it stays in the forward."""
    held = []
    for renamed in (False, True):
        model = onnx.load(exported("mlp"))
        if renamed:
            model.graph.node[0].name = model.graph.initializer[0].name
            model.graph.node[1].name = "step"
        onnx.save(model, tmp_path / "model.onnx")
        tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", *LOSS, "--optimizer", "adamw(lr=1e-3)")
        lines = report("inspect", tmp_path / "plan", "--json")["memory_per_rank"]["peak"]["held"]
        held.append({phase: sum(line["bytes"] for line in lines if line["written_by"] == phase)
                     for phase in ("forward", "backward", "update")})
    assert held[0] == held[1]
    assert held[0]["forward"] > 0 and held[0]["backward"] > 0


def test_pictures(exported, tmp_path):
    plan, memory, layouts = tmp_path / "plan", tmp_path / "memory.svg", tmp_path / "layouts.svg"
    tools.tool("compile", exported("gpt2"), "-o", plan, "--mesh", "data=2,tensor=2", "--shard",
               "*.c_fc.weight=[-,tensor]", *LOSS, "--optimizer", "adamw(lr=1e-3)", "--microbatches", 2)
    out, _ = tools.tool("inspect", plan, "--memory-svg", memory, "--layouts-svg", layouts)
    assert out == ""  # pictures alone are asked for
    SVG = "{http://www.w3.org/2000/svg}"
    titles = {}
    for path in (memory, layouts):
        root = ElementTree.parse(path).getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        for box in root.iter(SVG + "rect"):  # all that is drawn is in the picture
            x, y = float(box.get("x", 0)), float(box.get("y", 0))
            assert x >= 0 and x + float(box.get("width")) <= width + 0.01
            assert y >= 0 and y + float(box.get("height")) <= height + 0.01
        titles[path] = [title.text for title in root.iter(SVG + "title")]
    assert any("transformer.h.0.mlp.c_fc/" in title and "(backward)" in title for title in titles[memory])
    words = [text.text for text in ElementTree.parse(layouts).getroot().iter(SVG + "text")]
    assert "transformer.h.[0-1].mlp.c_fc.weight" in words and "0,2" in words and "1,3" in words

    # A picture takes the place of a picture, and of nothing else.
    tools.tool("inspect", plan, "--memory-svg", memory)
    for option, path, what in (("--memory-svg", plan, "same file as the plan"), ("--layouts-svg", "p.png", "PNG")):
        _, err = tools.tool("inspect", plan, option, path, code=1)
        assert what in err


def test_check(compiled, dataset, tmp_path):
    plan, _ = compiled
    run = ("run", plan, "--data", dataset("mlp", 1), "--steps", 2, "--check", "--json")
    found = report(*run)
    check("check", found)
    assert [entry["check"] for entry in found["checks"]] == [
        "plan", "options", "device", "cores", "weights", "files", "data", "memory", "disk"]
    wrong = report(*run, "--save", tmp_path / "none" / "w.safetensors", code=1)
    check("check", wrong)
    assert [entry["check"] for entry in wrong["checks"] if not entry["holds"]] == ["disk"]


def checkStart(record, plan, commandLine, steps, first=1):
    """The first record of a start, with exactly these keys."""
    check("the first record of a log", record)
    run = record["run"]
    assert list(record) == ["run"] and list(run) == [
        "version", "id", "time", "command_line", "directory", "plan", "plan_hash", "mode", "mesh", "ranks", "threads",
        "microbatches", "samples_per_step", "tokens_per_sample", "parameters", "seed", "first_step", "steps", "machine",
        "polyrank", "compiler"]
    assert list(run["machine"]) == ["host", "system", "cpu", "cores", "memory_bytes"]
    planned = report("inspect", plan, "--json")
    assert run["plan"] == str(plan) and run["plan_hash"] == planned["hash"]
    for field in ("mode", "mesh", "ranks", "threads", "microbatches", "samples_per_step", "tokens_per_sample", "parameters",
                  "compiler"):
        assert run[field] == planned[field]
    assert run["version"] == 1 and run["command_line"][1:] == commandLine and run["directory"] == os.getcwd()
    assert re.fullmatch("[0-9a-f]{16}", run["id"]) and run["first_step"] == first and run["steps"] == steps
    started = datetime.datetime.fromisoformat(run["time"].replace("Z", "+00:00"))
    assert abs((datetime.datetime.now(datetime.timezone.utc) - started).total_seconds()) < 300
    assert run["machine"]["host"] == platform.node() and run["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert f"polyrank-run {run['polyrank']}" in tools.tool("run", "--version")[0]


def checkStep(line, ranks):
    """A record of a step of a training, with exactly these keys."""
    check("log", line)
    assert list(line) == ["step", "loss", "count", "lr", "seconds", "samples_per_second", "communication_share",
                          "data_seconds", "slowest", "fastest", "resident_bytes"]
    busy = []
    for each in (line["slowest"], line["fastest"]):
        assert list(each) == ["rank", "seconds", "compute_seconds", "communication_seconds", "waiting_seconds", "data_seconds"]
        assert each["rank"] in range(ranks)
        assert 0 < each["compute_seconds"] and 0 <= each["waiting_seconds"] <= each["communication_seconds"]
        parts = each["compute_seconds"] + each["communication_seconds"] + each["data_seconds"]
        assert 0 < each["data_seconds"] <= line["data_seconds"] and parts <= each["seconds"] * 1.000001
        busy.append(each["seconds"] - each["waiting_seconds"])
    assert busy[0] >= busy[1] and (line["slowest"] == line["fastest"]) == (ranks == 1)
    assert line["resident_bytes"] > 2**20


def test_run_log_and_profile(compiled, dataset, tmp_path):
    plan, made = compiled
    log, profile = tmp_path / "log", tmp_path / "profile"
    run = ("run", plan, "--data", dataset("mlp", 1), "--steps", 4)
    done = report(*run, "--log", log, "--profile", profile, "--json")
    check("run", done)
    assert done["steps"] == 4 and len(done["ranks"]) == 2
    start, *lines = [json.loads(line) for line in log.read_text().splitlines()]
    checkStart(start, plan, [*map(str, run[1:]), "--log", str(log), "--profile", str(profile), "--json"], steps=4)
    for line in lines:
        checkStep(line, ranks=2)
    assert done["last"] == {"loss": lines[-1]["loss"], "count": lines[-1]["count"]}
    assert done["mean"]["loss"] == pytest.approx(sum(line["loss"] for line in lines) / 4)

    # What the profile counts is what the plan says a step runs.
    profiled = json.loads(profile.read_text())
    check("profile", profiled)
    assert profiled["steps"] == 4
    counts = {"launch": 0, "gemm": 0, "copy": 0, "collective": 0, "wait": 0, "data": 0}
    for entry in profiled["commands"]:
        counts[entry["kind"]] += entry["count"]
        assert entry["seconds"] > 0
    planned = made["plan"]["commands_per_step"]
    assert counts == {"collective": sum(c["count"] for c in made["plan"]["communication"]),
                      "wait": sum(c["started"] for c in made["plan"]["communication"]), "data": 1,
                      **{kind: planned[kind] for kind in ("launch", "gemm", "copy")}}
    assert sum(e["flops"] for e in profiled["commands"] if e["kind"] == "gemm") == planned["gemm_flops"]
    # A floor is work over a rate of this machine.
    rates = profiled["floor"]
    for entry in profiled["commands"]:
        work = {"gemm": max(entry["flops"] / rates["flops_per_second"], entry["bytes"] / rates["bytes_per_second"]),
                "launch": entry["bytes"] / rates["bytes_per_second"],
                "copy": entry["bytes"] / rates["bytes_per_second"]}
        if entry["kind"] in work:
            assert entry["floor_seconds"] == pytest.approx(work[entry["kind"]])
        # What a collective that is started moves counts where it is waited for; a wait for samples may take no time.
        assert entry["floor_seconds"] > 0 or entry["command"].startswith("start ") or entry["kind"] == "data"
    assert profiled["floor_seconds_per_step"] == pytest.approx(
        sum(entry["floor_seconds"] for entry in profiled["commands"]))
    seconds = [entry["seconds"] for entry in profiled["commands"]]
    assert seconds == sorted(seconds, reverse=True)
    assert profiled["seconds_per_step"] == pytest.approx(sum(seconds))
    # Steps take at least the time of their commands; that of waits for samples is a mean.
    assert sum(entry["seconds"] for entry in profiled["commands"] if entry["kind"] != "data") <= min(line["seconds"] for line in lines[1:])

    # The same as a table: one line for each entry, between a head, a sum and the rates.
    tools.tool(*run, "--profile", profile)
    table = profile.read_text().splitlines()
    assert len(table) == len(profiled["commands"]) + 4
    assert table[0].split()[:4] == ["ms", "floor", "share", "count"] and "over 4 steps" in table[-3]
    assert sum(float(line.split()[2].rstrip("%")) for line in table[1:-3]) == pytest.approx(100, abs=1)
    assert table[-2].startswith("floor: ") and "GFLOP/s" in table[-2] and "GB/s" in table[-2]
    # What it says of the rates is what the compiler takes.
    tools.tool("compile", made["model"], "-o", tmp_path / "again", "--mesh", "data=2", *LOSS,
               *re.search(r"polyrank-compile (--rates [0-9.:]+) ", table[-1])[1].split())


def test_a_log_goes_on_with_its_run(compiled, dataset, tmp_path):
    plan, log = compiled[0], tmp_path / "log"
    run = ("run", plan, "--data", dataset("mlp", 1), "--log", log)
    tools.tool(*run, "--steps", 5, "--checkpoint", tmp_path / "c", "--every", 2)
    whole = tools.stepsOf(log)
    for torn in ("", '{"step":6,"lo'):
        with open(log, "a") as file:
            file.write(torn)
        again = (*run, "--steps", 6, "--resume", tmp_path / "c/step-000000002")
        tools.tool(*again)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = [next(iter(record)) for record in records]
    assert [kind for kind in kinds if kind != "checkpoint"] == ["run", "step", "step", "run", "run", "step", "step", "step", "step"]
    assert [record["checkpoint"]["step"] for record in records if "checkpoint" in record] == [2]
    start = [record for record in records if "run" in record][-1]
    checkStart(start, plan, list(map(str, again[1:])), steps=6, first=3)
    steps = tools.stepsOf(log)
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert [line["loss"] for line in steps[:5]] == [line["loss"] for line in whole]
    tools.tool("inspect", "--plot", log, "-o", tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text().count(">resumed<") == 6  # of three pictures each


def test_logs_are_drawn_as_pictures(compiled, dataset, tmp_path):
    logs, picture = [tmp_path / name for name in ("a.jsonl", "b & c.jsonl")], tmp_path / "runs.svg"
    for log, steps in zip(logs, (1, 40)):
        tools.tool("run", compiled[0], "--data", dataset("mlp", 1), "--steps", steps, "--log", log)
    SVG = "{http://www.w3.org/2000/svg}"
    for chosen in ([logs[0]], [logs[1]], logs):
        out, _ = tools.tool("inspect", *(word for log in chosen for word in ("--plot", log)), "-o", picture)
        assert out == ""
        root = ElementTree.parse(picture).getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        for line in root.iter(SVG + "polyline"):
            for x, y in (map(float, point.split(",")) for point in line.get("points").split()):
                assert 0 <= x <= width and 0 <= y <= height
        words = [text.text for text in root.iter(SVG + "text")]
        assert {"loss", "learning rate", "samples per second", "step"} <= set(words)
        for log in chosen:
            assert log.name in words or f"Training: {log.name}" in words
    # A picture takes the place of a picture, and of nothing else.
    before = logs[0].read_bytes()
    for arguments, message in (
            (("--plot", logs[0], "-o", logs[0]), "is the same file as the log (--plot)"),
            (("--plot", logs[0], "-o", logs[1]), "exists and is not an SVG picture"),
            (("--plot", logs[0], "-o", tmp_path / "p.png"), "PNG"),
            (("--plot", tmp_path / "none", "-o", picture), "none"),
            (("--plot", compiled[0], "-o", picture), "line 1 is no record of a log of polyrank-run"),
            (("--plot", logs[0]), "-o"), (("-o", picture), "--plot"), ((), "PLAN"),
            ((compiled[0], "--plot", logs[0], "-o", picture), "excludes")):
        _, said = tools.tool("inspect", *arguments, code=1)
        assert message in said
    assert logs[0].read_bytes() == before


def test_a_trace_is_compared_with_its_plan(compiled, dataset, tmp_path):
    plan, _ = compiled
    trace, times, again = tmp_path / "trace.json", tmp_path / "times.json", tmp_path / "again.json"
    tools.tool("run", plan, "--data", dataset("mlp", 1), "--steps", 4, "--trace", trace)
    made = report("inspect", plan, "--compare", trace, "--times", times, "--json")
    check("comparison", made)
    assert made["steps"] == 4 and made["ranks"] == 2 and made["step"] > 1
    # All of a rank's time is in one place or another.
    parts = made["queues"][0]["busy"]["measured"] + made["stood"]["measured"] + made["for_other_ranks"] + made[
        "starting"] + made["outside"]
    assert parts == pytest.approx(made["seconds"]["measured"])
    assert made["queues"][0]["busy"]["planned"] + made["stood"]["planned"] == pytest.approx(made["seconds"]["planned"])
    for which in ("planned", "measured"):
        assert sum(op["seconds"][which] for op in made["ops"]) == pytest.approx(made["queues"][0]["busy"][which])
    text, _ = tools.tool("inspect", plan, "--compare", trace)
    assert max(map(len, text.splitlines())) <= 100
    measured = json.loads(times.read_text())
    check("times", measured)
    assert measured["source"] == "measured"

    # A plan can be run by these times, and by its own, without a file of the model or a sample.
    tools.tool("inspect", plan, "--times", again)
    assert json.loads(again.read_text())["source"] == "planned"
    log = tmp_path / "log"
    for file in (times, again):
        done = report("run", plan, "--rehearse", file, "--steps", 3, "--log", log, "--link", "data=1000:1", "--json")
        check("run", done, empty=["last", "mean"])
        assert done["last"] == {} and done["files"]["rehearse"] == str(file)
        assert done["least_seconds_per_step"] >= 0.999 * done["planned_seconds_per_step"] > 0.001
        for line in tools.stepsOf(log):
            assert line["rehearsed"] is True and "loss" not in line and line["slowest"]["rank"] in (0, 1)


def test_run_that_fails(compiled, tmp_path):
    done = report("run", compiled[0], "--data", tmp_path / "none.npz", "--steps", 1, "--json", code=1)
    check("run", done, empty=["ranks", "last", "mean"])
    assert done["status"] == "error" and "none.npz" in done["error"]


def test_forward_run_prints_nothing_but_the_report(exported, dataset, tmp_path):
    tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mode", "forward", *LOSS)
    done = report("run", tmp_path / "plan", "--data", dataset("mlp", 1), "--json")
    check("run", done)
    assert done["mode"] == "forward" and done["mean"]["loss"] > 0


@pytest.mark.parametrize("model", ["mlp", "gpt2", "bert", "resnet"])
def test_describe_proposes_a_command_that_works(model, exported, tmp_path):
    """The command runs as it is printed; the sizes that it proposes are the model's."""
    onnx = exported(model)
    found = report("compile", onnx, "--describe", "--json")
    check("describe", found, empty=["unsupported", "open_dims", "parameters.tied"])
    assert found["flops"]["step"] > 2 * found["flops"]["forward"] > 0
    state = tools.Case(model, "data=1").spec.fresh().state_dict()
    stored = {t.data_ptr(): t for t in state.values() if t.is_floating_point()}
    assert found["parameters"]["elements"] == sum(t.numel() for t in stored.values())

    text, _ = tools.tool("compile", onnx, "--describe")
    assert max(map(len, text.replace(str(onnx), "MODEL").splitlines())) <= 90
    command = text.split("compile it with")[1].split("\n", 1)[1]
    assert shlex.split(command.replace("\\\n", " ")) == found["command"]
    environment = dict(os.environ, PATH=f"{tools.bin().resolve()}:{os.environ['PATH']}")
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert [path.suffix for path in tmp_path.iterdir()] == [".plan"]


MODELS = Path(__file__).resolve().parents[1] / "models"


def test_describe_says_what_to_bind(tmp_path):
    found = report("compile", MODELS / "gpt2-bytes.onnx", "--describe", "--json")
    check("describe", found, empty=["unsupported"])
    assert found["open_dims"] == [{"name": "batch", "size": 8, "given": False}]
    assert found["parameters"]["tied"] == [{"name": "lm_head.weight", "aliases": ["transformer.wte.weight"]}]
    text, _ = tools.tool("compile", MODELS / "gpt2-bytes.onnx", "--describe")
    assert "they depend on batch, which --input and --dim bind; for batch = 8:" in text
    bound = report("compile", MODELS / "gpt2-bytes.onnx", "--describe", "--json", "--mesh", "tensor=2",
                   "--input", "input_ids=int64[16,128]", "--shard", "*.c_fc.weight=[-,tensor]")
    assert bound["open_dims"] == [{"name": "batch", "size": 16, "given": True}]
    assert bound["flops"]["forward"] == pytest.approx(2 * found["flops"]["forward"], rel=0.01)
    assert bound["command"][4:10] == ["--input", "input_ids=int64[16,128]", "--mesh", "tensor=2",
                                      "--shard", "*.c_fc.weight=[-,tensor]"]
    bound = report("compile", MODELS / "gpt2-bytes.onnx", "--describe", "--json", "--dim", "batch=4")
    assert bound["open_dims"] == [{"name": "batch", "size": 4, "given": True}]
    assert bound["problem"] is None
    assert bound["command"][4:8] == ["--dim", "batch=4", "--mesh", "data=2"]


def test_describe_collects_all_that_is_not_supported():
    model = MODELS / "unsupported.onnx"
    found = report("compile", model, "--describe", "--json")
    check("describe", found, empty=["open_dims", "parameters.tied"])
    assert [len(entry["nodes"]) for entry in found["unsupported"]] == [2]
    assert [op["op"] for op in found["ops"] if not op["supported"]] == ["Det"]
    assert found["command"] == [] and found["flops"]["forward"] is None
    text, _ = tools.tool("compile", model, "--describe")
    assert "in second" in text and "It cannot be compiled as it is." in text
    # The path is as long as it is.
    assert all(len(line) <= 80 for line in text.splitlines() if str(model) not in line)


def test_describe_names_the_choices_of_training(exported):
    def notes(*more):
        found = report("compile", exported("resnet"), "--describe", "--json", *more)
        return "\n".join(found["notes"]), found

    text, found = notes()
    assert "training needs --batch-norm batch" in text
    assert found["command"][-2:] == ["--batch-norm", "batch"]
    text, found = notes("--mode", "forward")
    assert "--batch-norm" not in text and found["flops"]["step"] is None
    assert "--mode" in found["command"]


@pytest.mark.filterwarnings("ignore")
def test_describe_counts_dropouts_and_knows_a_regression(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.25), torch.nn.Linear(4, 1)).train()
    torch.onnx.export(model, (torch.zeros(2, 4),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"],
                      dynamo=True, optimize=False, verbose=False)
    found = report("compile", tmp_path / "model.onnx", "--describe", "--json")
    assert "mse(y,target)" in found["command"]  # one class would be none
    assert found["notes"] == ["1 dropout is on in training, at a rate of 0.25; --dropout P sets another, --dropout off none"]


def progress(arguments, terminal):
    """What polyrank-run writes to standard error, a pipe or a terminal."""
    command = [str(tools.bin() / "polyrank-run"), *map(str, arguments)]
    if not terminal:
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stderr=follower, stdout=subprocess.DEVNULL)
    os.close(follower)
    text = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the last writer has gone
            break
        if not part:
            break
        text += part
    os.close(leader)
    assert process.wait() == 0
    return text.decode()


def test_progress_says_how_long_it_takes(compiled, dataset):
    run = (compiled[0], "--data", dataset("mlp", 1), "--steps", 300)
    piped = [line for line in progress(run, terminal=False).splitlines() if line.startswith("step ")]
    assert re.fullmatch(r"step 1/300  loss \S+  \S+ samples/s  communication \d+ %(  data \d+ %)?  left \d+:\d\d", piped[0])
    assert piped[-1].startswith("step 300/300") and "left" not in piped[-1]
    assert "\r" not in "".join(piped) and "\033" not in "".join(piped)
    shown = progress(run, terminal=True)
    assert "left" in shown and "\r\033[Kstep 300/300" in shown
    # One line that is written again, and ended once.
    assert len(re.findall(r"step \d+/300[^\r\n]*\r?\n", shown)) == 1
