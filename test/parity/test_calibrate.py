"""polyrank-run --calibrate measures this machine, and what it writes plans a step."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import tools

MLP = Path(__file__).parents[1] / "models/mlp.onnx"
CORES = len(os.sched_getaffinity(0))
COMPILE = (MLP, "--loss", "cross_entropy(logits,labels)", "--cpu", "x86-64-v3", "--abstract-weights")


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A machine file of a short calibration, and what it printed and told. In two seconds each thing has some samples that nothing
    else on the machine has slowed down."""
    path = tmp_path_factory.mktemp("calibrate") / "machine.toml"
    out, told = tools.tool("run", "--calibrate", "-o", path, "--calibrate-seconds", 2)
    return path, out, told


def cpu():
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return names[0] if names else "a CPU without a name"


def test_every_number_is_measured_and_the_machine_has_its_cpus_name(calibrated):
    path, out, told = calibrated
    machine = tomllib.loads(path.read_text())
    assert machine["name"] == f"{cpu()}, {CORES} device{'s' if CORES > 1 else ''} of 1 thread"
    assert machine["node"]["devices"] == CORES
    assert {section["source"] for section in machine.values() if isinstance(section, dict)} == {"measured"}
    for key in ("f32", "bf16", "f16", "bandwidth"):
        assert 0.1 < machine["device"][key] < 1e5, key
    # What a command costs is far below a millisecond.
    assert 0 < machine["device"]["host"] <= machine["device"]["launch"] * 1.5 < 1000
    assert machine["node"]["algorithms"] in (["halving"], ["ring"])
    assert re.search(r"f32 products: \d+ times, met to \d+ % in the median", out) and f"wrote {path}" in out
    assert "collectives:" in out
    assert re.search(r"calibrating: +\d+ %  (f32|bf16|f16) products", told), told
    assert not re.search(r"\b20\d\d-", path.read_text()), "a file of the same machine does not change with the day"


@pytest.mark.skipif(CORES < 2, reason="collectives need two cores")
def test_a_plan_is_planned_for_the_machine_and_reports_name_it(calibrated, tmp_path):
    path, *_ = calibrated
    plan = tmp_path / "a.plan"
    _, notes = tools.tool("compile", *COMPILE, "-o", plan, "--mesh", "data=2", "--machine", path)
    name = tomllib.loads(path.read_text())["name"]
    assert f"machine '{name}' ({path}): f32 " in notes and "(measured), devices of a node" in notes
    out, _ = tools.tool("inspect", plan, "--overlap")
    assert f"planned for   {name} (machine.toml)" in out, out
    assert "all_reduce" in out
    # With a fiftieth of the bandwidth, and no other change, the step takes longer.
    slow = tmp_path / "slow.toml"
    text = path.read_text()
    slow.write_text(re.sub(r"(\[node\][^[]*?bandwidth = )([\d.e+-]+)", lambda at: at[1] + str(float(at[2]) / 50), text))
    assert slow.read_text() != text
    tools.tool("compile", *COMPILE, "-o", tmp_path / "b.plan", "--mesh", "data=2", "--machine", slow)
    assert tools.inspect(plan)["seconds_per_step"] < tools.inspect(tmp_path / "b.plan")["seconds_per_step"]


def test_one_device_of_all_cores_has_no_links_to_measure(tmp_path):
    path = tmp_path / "one.toml"
    out, _ = tools.tool("run", "--calibrate", "-o", path, "--threads", CORES, "--calibrate-seconds", 0.1)
    machine = tomllib.loads(path.read_text())
    assert machine["name"].endswith(f", 1 device of {CORES} thread{'s' if CORES > 1 else ''}")
    assert machine["node"]["source"] == "assumed" and machine["node"]["devices"] == {"value": 1, "source": "measured"}
    assert "collectives" not in out
    tools.tool("compile", *COMPILE, "-o", tmp_path / "a.plan", "--machine", path, "--threads", CORES)


def test_only_a_calibration_is_replaced(calibrated, tmp_path):
    path, *_ = calibrated
    mine = tmp_path / "mine.toml"
    mine.write_text(path.read_text().split("\n", 1)[1])  # without the line that says who has measured it
    before = mine.read_text()
    told = tools.tool("run", "--calibrate", "-o", mine, code=1)[1]
    assert f"-o '{mine}': exists and is not a machine file of polyrank-run --calibrate" in told
    assert mine.read_text() == before
    old = tmp_path / "old.toml"
    old.write_text(path.read_text().split("\n", 1)[0] + "\n")
    tools.tool("run", "--calibrate", "-q", "-o", old, "--calibrate-seconds", 0.1)
    assert "[device]" in old.read_text()


def test_a_killed_calibration_leaves_the_file_as_it_was(calibrated, tmp_path):
    path, *_ = calibrated
    old = tmp_path / "old.toml"
    old.write_text(path.read_text())
    run = subprocess.Popen([tools.bin() / "polyrank-run", "--calibrate", "-o", old, "--calibrate-seconds", "100"],
                           stderr=subprocess.PIPE, text=True)
    assert "calibrating" in run.stderr.readline()
    run.terminate()
    assert run.wait(timeout=60) == 2
    assert old.read_text() == path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["old.toml"]


@pytest.mark.parametrize("options, parts", [
    ((), ("--calibrate", "say which one, as in -o machine.toml")),
    (("-o", "m.toml", "--steps", 3), ("--calibrate", "--steps means nothing to it")),
    (("-o", "m.toml", "--data", "a.txt"), ("--calibrate", "--data means nothing to it")),
    (("-o", "m.toml", "--link", "data=1:1"), ("--link means nothing to it",)),
    (("-o", "m.toml", "--json"), ("--json means nothing to it",)),
    (("-o", "m.toml", "--check"), ("--check means nothing to it",)),
    (("-o", "m.toml", "a.plan"), ("leave out 'a.plan'",)),
    (("-o", "m.plan"), ("-o 'm.plan': writes a machine file", "write 'm.toml'")),
    (("-o", "no/m.toml"), ("no/m.toml",)),
    (("-o", "m.toml", "--threads", CORES + 1), (f"--threads {CORES + 1}", f"{CORES} core")),
    (("-o", "m.toml", "--calibrate-seconds", "-1"), ("--calibrate-seconds", "0 to 3600")),
], ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) and value and str(value[0]).startswith("-") else "")
def test_what_makes_no_sense_is_refused_by_name(options, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = tools.tool("run", "--calibrate", *options, code=1)[1]
    for part in parts:
        assert part in told, told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [("-o", "m.toml"), ("--calibrate-seconds", 3)], ids=str)
def test_its_options_are_for_nothing_else(options):
    told = tools.tool("run", "a.plan", *options, code=1)[1]
    assert "--calibrate" in told, told
