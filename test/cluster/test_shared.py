"""Machines that share the ranks of one plan out.

The oracle of all: the weights have the bits of those that one machine saves, or all machines end in the stated time with a documented exit
code and the cause, with rank and machine, on machine 0's terminal; no process is left on any.
"""

import json
import os
import re
import signal
import subprocess
import time

import jobs
import pytest
import tools
from jobs import DIVERGED, DONE, INPUT, PREEMPTED, RANK, SLOW, checkSaved, share
from models import MODELS
from plans import PLANS
from test_place import LAUNCHERS


@pytest.mark.parametrize("name", PLANS)
def test_two_machines_save_the_bits_of_one(name, pair, shared, tmp_path, planOf):
    plan = planOf(name)
    log = tmp_path / "log.jsonl"
    checkSaved(share(pair, shared, tmp_path / "run", "--log", log, **plan), shared, **plan)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [record for record in records if "step" in record and "loss" in record]
    assert [record["step"] for record in steps] == list(range(1, jobs.STEPS + 1))


def test_without_checksums_the_bits_are_the_same(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    checkSaved(share(pair, shared, tmp_path / "run", "--wire-check", "off", **plan), shared, **plan)


def test_machines_that_disagree_on_checksums_are_refused(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", each=lambda name: ("--wire-check", "off") if name == pair[1].name else (), **planOf("data"))
    assert job.end() == [INPUT] * 2, job.said()
    assert re.search("wire-check=off", job[0].said()) and re.search("wire-check=on", job[0].said()), job.said()


def test_four_machines_have_a_rank_each(make, shared, tmp_path, planOf):
    plan = planOf("data")
    checkSaved(share(make(count=4), shared, tmp_path / "run", **plan), shared, **plan)


def test_a_killed_rank_ends_all_and_the_table_has_the_ranks_of_all(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", fail={0: SLOW, 1: f"step.before:rank=3:hit=4:action=kill;{SLOW}"}, **planOf("data"))
    codes = [job[1].end()]
    since = time.monotonic()
    codes.insert(0, job[0].end())
    jobs.checkTime(since, 2)
    assert codes == [RANK, RANK], job.said()
    said = job[0].said()
    assert re.search(r"rank 3 \(data=3\) on machine 1 was killed by signal 9", said), said
    table = said[said.index("where the ranks are:"):]
    assert all(re.search(rf"[> ] rank {rank} \(data={rank}\) on machine {rank // 2} ", table) for rank in range(4)), said
    assert re.search(r"> rank 3 \(data=3\) on machine 1 +is dead", table), said


def test_a_stopped_rank_on_another_machine_is_blamed(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", "--timeout", 3, fail={0: SLOW, 1: SLOW}, **planOf("data"))
    jobs.eventually(lambda: "\nstep 1/" in job[0].said())
    os.kill(job[1].ranks()[0], signal.SIGSTOP)
    assert job.end() == [jobs.HANG] * 2, job.said()
    assert re.search(r"no rank made progress for \d+ s: rank [23] \(data=[23]\) on machine 1 is stopped", job[0].said()), job.said()


def test_a_signal_ends_all_after_the_same_step_and_they_go_on(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    checkpoints = tmp_path / "checkpoints"
    job = share(pair, shared, tmp_path / "run", "--checkpoint", checkpoints, fail={0: SLOW, 1: SLOW}, **plan)
    jobs.eventually(lambda: "\nstep 1/" in job[0].said())
    os.kill(job[1].process.pid, signal.SIGTERM)
    assert job.end() == [PREEMPTED] * 2, job.said()
    assert [path.name[:5] for path in checkpoints.iterdir()] == ["step-"]
    # On one machine, or on both.
    checkSaved(share(pair, shared, tmp_path / "on", "--checkpoint", checkpoints, "--resume", "auto", **plan), shared, **plan)


def test_checkpoints_are_written_in_turn(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    checkpoints = tmp_path / "checkpoints"
    checkSaved(share(pair, shared, tmp_path / "run", "--checkpoint", checkpoints, "--every", 3, **plan), shared, **plan)
    found = sorted(int(path.name[5:]) for path in checkpoints.iterdir())
    assert found[-1] == jobs.STEPS and set(found) <= set(range(3, jobs.STEPS + 1, 3))
    # One machine goes on with what two have written.
    saved = tmp_path / "one.safetensors"
    subprocess.run([str(word) for word in jobs.command("--resume", checkpoints / f"step-{found[0]:09}", "--save", saved, **plan)], cwd=shared,
                   check=True, capture_output=True, timeout=60)
    assert saved.read_bytes() == jobs.alone(shared, plan["plan"], data=plan["data"])


def test_a_trace_has_the_ranks_of_all_machines_on_one_clock(pair, shared, tmp_path, planOf):
    plan, trace = planOf("data"), tmp_path / "trace.json"
    checkSaved(share(pair, shared, tmp_path / "run", "--trace", trace, **plan), shared, **plan)
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in events} == {0, 1, 2, 3}
    # In a step of a run in which all ranks wait for each other, no rank begins after another has ended.
    spans = {rank: [event for event in events if event["pid"] == rank and event["args"].get("step") == 5] for rank in range(4)}
    begins = [min(event["ts"] for event in of) for of in spans.values()]
    ends = [max(event["ts"] + event["dur"] for event in of) for of in spans.values()]
    assert max(begins) < min(ends)


def test_a_folder_that_a_machine_does_not_see_is_refused(pair, shared, tmp_path, planOf):
    folder = "/tmp/checkpoints"  # each machine has a /tmp of its own
    for machine in pair:
        machine.run("mkdir", "-p", folder)
    job = share(pair, shared, tmp_path / "run", "--checkpoint", folder, **planOf("data"))
    assert job.end() == [INPUT] * 2, job.said()
    assert re.search(rf"--checkpoint {folder}: machine 1 \([^)]*\) does not see", job[0].said()), job.said()


def test_a_nan_of_a_forward_plan_is_the_exit_code_of_all_machines(pair, shared, tmp_path):
    model = MODELS["mlp"]
    tools.tool("compile", shared / "model.onnx", "-o", tmp_path / "plan", "--mode", "forward", "--mesh", "data=2", *model.inputOptions, "--loss",
               model.lossOption)
    data = model.data(2)
    tools.saveData(tmp_path / "nan.npz", {**data, "x": data["x"] * float("nan")})
    for name, code in (("data.npz", DONE), (tmp_path / "nan.npz", DIVERGED)):
        words = jobs.command("--key", "job.key", "--machines", 2, "--rendezvous", pair[0].four, plan=tmp_path / "plan", data=name, steps=2)
        started = [machine.start(*words, "--machine", machine.number, folder=shared, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                   for machine in pair]
        said = [process.communicate(timeout=jobs.PATIENCE)[1].decode() for process in started]
        assert [process.returncode for process in started] == [code] * 2, said
        assert ("the loss of the run is NaN" in said[1]) == (code == DIVERGED), said


def test_options_that_differ_are_named_with_both_values(pair, shared, tmp_path, planOf):
    seeds = {"a": 3, "b": 4}
    job = share(pair, shared, tmp_path / "run", each=lambda name: ("--seed", seeds[name]), **planOf("data"))
    assert job.end() == [INPUT] * 2, job.said()
    assert "seed=3" in job[0].said() and "seed=4" in job[0].said(), job.said()


def test_data_that_differ_are_named(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    model = MODELS["mlp"]
    other = {name: tensor.flip(0) for name, tensor in model.data(2).items()}
    tools.saveData(tmp_path / "other.npz", other)
    files = {"a": shared / plan["data"], "b": tmp_path / "other.npz"}
    job = share(pair, shared, tmp_path / "run", each=lambda name: ("--data", files[name]), plan=plan["plan"], data=None)
    assert job.end() == [INPUT] * 2, job.said()
    assert "the fingerprint of the data" in job[0].said(), job.said()


@pytest.mark.parametrize("options, excluded", [
    (("--checkpoint", "c", "--every", "10m"), "--every"),
    (("--data", "command:cat"), "feed")], ids=["every-minutes", "feed"])
def test_what_does_not_work_over_machines_is_refused(options, excluded, shared, planOf):
    words = jobs.command("--machines", 2, "--machine", 0, "--rendezvous", "localhost", *options, plan=planOf("data")["plan"],
                         data=None if "--data" in options else planOf("data")["data"])
    done = subprocess.run([str(word) for word in words], cwd=shared, capture_output=True, text=True, timeout=60)
    assert done.returncode == INPUT and "shared out over 2 machines, which excludes" in done.stderr and excluded in done.stderr, done.stderr


def test_ranks_that_do_not_divide_are_refused_with_both_numbers(shared, planOf):
    words = jobs.command("--machines", 3, "--machine", 0, "--rendezvous", "localhost", **planOf("data"))
    done = subprocess.run([str(word) for word in words], cwd=shared, capture_output=True, text=True, timeout=60)
    assert done.returncode == INPUT and "4 ranks cannot be shared out evenly over 3 machines" in done.stderr, done.stderr


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("tasks", [1, 2])
def test_launchers_share_the_ranks_out(launcher, tasks, startBy, shared, planOf):
    cluster, start = startBy(launcher)
    plan = planOf("data")
    saved = shared / f"shared-{launcher}-{tasks}.safetensors"
    words = " ".join(map(str, jobs.command("--key", "job.key", "--save", saved, **plan)))
    with open(shared / f"shared-{launcher}-{tasks}.log", "wb") as log:
        started = start(cluster, "sh", "-c", f"exec {words}", tasks=tasks, folder=shared, stdout=log, stderr=log)
        codes = [process.wait(120) for process in started]
    assert codes == [DONE] * len(codes), (shared / f"shared-{launcher}-{tasks}.log").read_text()
    assert saved.read_bytes() == jobs.alone(shared, plan["plan"], data=plan["data"])
