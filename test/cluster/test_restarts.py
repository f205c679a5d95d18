"""Machines that share the ranks of a plan start again after a failure, and go on without one that is lost.

The oracle of all: the weights have the bits of an undisturbed run, or all machines end in the stated time with a documented exit code and the
cause; no process is left on any machine.
"""

import os
import re
import signal
import subprocess
import time

import jobs
import pytest
from jobs import DISK, DONE, INPUT, PREEMPTED, RANK, SLOW, awaitSaved, checkSaved, saving, share
from plans import PLANS
from test_place import LAUNCHERS

ALWAYS = "step.before:hit=0:attempt=0:action=delay=100"  # steps that are slow in every start


def checkFolder(folder):
    """Nothing but whole checkpoints is left."""
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert left and all(re.fullmatch(r"step-\d+", name) for name in left), left


def kill(process):
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("machine, rank", [(0, 1), (1, 3)])
def test_a_killed_rank_starts_all_again(name, machine, rank, pair, shared, tmp_path, planOf):
    plan = planOf(name)
    job = share(pair, shared, tmp_path / "run", "--restarts", 2, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path, step=6)
    kill(job[machine].ranks()[rank % 2])
    checkSaved(job, shared, **plan)
    said = job[0].said()
    assert re.search(rf"rank {rank} \([^)]*\) on machine {machine} was killed by signal 9", said), said
    assert "all ranks start again in 1 s (1 of 2 restarts)" in said, said
    [(name, step)] = re.findall(r"going on from \S*checkpoints/step-(\d+), after step (\d+)", said)
    assert int(name) == int(step) >= 6, said
    assert "all ranks start again" in job[1].said(), job.said()
    checkFolder(tmp_path)


def test_without_checkpoints_all_begin_from_the_start(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--restarts", 1, fail={1: "step.before:rank=2:hit=8:action=kill"}, **plan)
    checkSaved(job, shared, **plan)
    assert "(1 of 1 restarts)" in job[0].said(), job.said()


def test_a_rank_that_dies_while_it_loads_starts_all_again(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--restarts", 1, fail={1: "load.before:rank=2:action=kill"}, **plan)
    checkSaved(job, shared, **plan)


def test_restarts_that_are_used_up_end_all_machines(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", "--restarts", 1, fail={1: "step.before:rank=3:hit=5:attempt=0:action=kill"}, **planOf("data"))
    assert job.end() == [RANK] * 2, job.said()
    for node in job.nodes:
        assert "it was started again 1 time (--restarts), and fails still" in node.said(), job.said()


def test_a_rank_that_fails_by_itself_twice_in_a_step_is_not_started_again(pair, shared, tmp_path, planOf):
    first = share(pair, shared, tmp_path / "first", *saving(tmp_path), steps=3, **planOf("data"))
    assert first.end() == [DONE] * 2, first.said()
    job = share(pair, shared, tmp_path / "run", "--restarts", 5, *saving(tmp_path), "--resume", "auto",
                fail={1: "step.before:rank=3:hit=2:attempt=0:action=segv"}, **planOf("data"))
    assert job.end() == [RANK] * 2, job.said()
    assert "it failed in the same place before, after step 4" in job[0].said(), job.said()


def test_a_stopped_rank_starts_all_again(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--timeout", 3, "--restarts", 1, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path)
    os.kill(job[1].ranks()[0], signal.SIGSTOP)
    checkSaved(job, shared, **plan)
    assert "is stopped" in job[0].said() and "(1 of 1 restarts)" in job[0].said(), job.said()


def test_a_signal_in_the_pause_ends_all_machines(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    for number in (0, 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        job = share(pair, shared, folder / "run", "--restarts", 9, *saving(folder),
                    fail={0: SLOW, 1: f"step.before:rank=3:hit=8:attempt=1:action=kill;load.before:rank=3:hit=0:attempt=2:action=kill;{SLOW}"},
                    **plan)
        jobs.eventually(lambda: "start again in 2 s" in job[0].said())
        since = time.monotonic()
        os.kill(job[number].process.pid, signal.SIGTERM)
        assert job.end() == [PREEMPTED] * 2, job.said()
        jobs.checkTime(since, 4)


def test_a_checkpoint_that_is_damaged_is_set_aside_and_an_older_one_taken(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    checkpoints = tmp_path / "checkpoints"
    first = share(pair, shared, tmp_path / "first", *saving(tmp_path), steps=6, **plan)
    assert first.end() == [DONE] * 2, first.said()
    shard = next((checkpoints / "step-000000006").glob("shard-*"))
    content = bytearray(shard.read_bytes())
    content[-5] ^= 4
    shard.write_bytes(content)
    job = share(pair, shared, tmp_path / "run", *saving(tmp_path), "--resume", "auto", **plan)
    checkSaved(job, shared, **plan)
    assert "passed over, for an older checkpoint" in job[0].said(), job.said()
    assert (checkpoints / "step-000000006.damaged").exists()


@pytest.mark.parametrize("resumes", [False, True])
def test_a_machine_that_is_killed_comes_again(resumes, pair, shared, tmp_path, planOf):
    """Its command is the same, or has --resume auto as it would have after a failure of all."""
    plan = planOf("tensor")
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    jobs.eventually(lambda: "is waited for, 300 s at most (--rejoin)" in job[0].said())
    assert re.search(r"machine 1 \(10.77.0.2\) is lost", job[0].said()), job.said()
    job.startAgain(1, *(("--resume", "auto") if resumes else ()))
    checkSaved(job, shared, **plan)
    checkFolder(tmp_path)


def test_a_machine_may_come_again_before_its_loss_is_noticed(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: ALWAYS, 1: ALWAYS}, steps=60, **plan)
    awaitSaved(tmp_path)
    old = job[1].process
    os.kill(old.pid, signal.SIGSTOP)  # nothing is heard of it, and no connection breaks
    job.startAgain(1)
    jobs.eventually(lambda: "all ranks start again" in job[0].said())
    os.kill(old.pid, signal.SIGCONT)
    assert old.wait(jobs.PATIENCE) == RANK
    checkSaved(job, shared, steps=60, **plan)


def test_a_machine_that_is_cut_off_comes_again(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path)
    pair[1].cut()
    assert job[1].process.wait(jobs.PATIENCE) == RANK, job.said()
    pair[1].mend()
    job.startAgain(1)
    checkSaved(job, shared, **plan)
    checkFolder(tmp_path)


def test_a_spare_takes_the_place_of_a_machine(make, shared, tmp_path, planOf):
    plan = planOf("data")
    cluster = make(count=3)
    job = share(cluster, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, spares=1, **plan)
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    assert [node.end() for node in (job[0], job[2])] == [DONE] * 2, job.said()
    assert job[0].weights.read_bytes() == jobs.alone(shared, plan["plan"], data=plan["data"])
    assert re.search(r"the spare at 10.77.0.3 takes the place of machine 1 \(10.77.0.2\)", job[0].said()), job.said()
    assert "machine 1 of 2: ranks 2 to 3 of 4" in job[2].said(), job.said()
    checkFolder(tmp_path)


def test_a_spare_that_nobody_needs_ends_with_the_others(make, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(make(count=3), shared, tmp_path / "run", "--restarts", 1, *saving(tmp_path), spares=1, **plan)
    checkSaved(job, shared, **plan)
    assert "this spare was not needed" in job[2].said(), job.said()


def test_nobody_comes(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, "--rejoin", 2, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **planOf("data"))
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    assert job[0].end() == RANK, job.said()
    assert "1 of 2 machines have not come again within 2 s: machine 1; --rejoin gives them more time" in job[0].said(), job.said()
    assert "go on from step" in job[0].said(), job.said()


def test_a_signal_ends_the_wait_for_a_machine(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **planOf("data"))
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    jobs.eventually(lambda: "is waited for" in job[0].said())
    os.kill(job[0].process.pid, signal.SIGTERM)
    assert job[0].end() == PREEMPTED, job.said()


def test_another_plan_in_the_place_of_a_machine_is_refused_alone(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--restarts", 3, *saving(tmp_path), fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    job.startAgain(1, "--seed", 4)
    assert job[1].end() == INPUT and "seed=4" in job[1].said(), job.said()
    job.startAgain(1)
    checkSaved(job, shared, **plan)


def test_after_the_loss_of_machine_0_all_go_on_by_resume_auto(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    options = (*saving(tmp_path), "--restarts", 3)
    job = share(pair, shared, tmp_path / "run", *options, fail={0: SLOW, 1: SLOW}, **plan)
    awaitSaved(tmp_path)
    since = time.monotonic()
    pair[0].clear()
    assert job[1].end() == RANK, job.said()
    jobs.checkTime(since, 6)
    on = share(pair, shared, tmp_path / "on", *options, "--resume", "auto", **plan)
    checkSaved(on, shared, **plan)
    assert "going on from" in on[0].said(), on.said()
    checkFolder(tmp_path)


def resumedWith(plan, folder, said, shared, data):
    """The weights of one machine that goes on from the checkpoint that was named last."""
    checkpoint = re.findall(r"going on from (\S*), after step", said)[-1]
    saved = folder / "on-one.safetensors"
    subprocess.run([str(word) for word in jobs.command("--resume", checkpoint, "--save", saved, plan=plan, data=data)], cwd=shared, check=True,
                   capture_output=True, timeout=jobs.PATIENCE)
    return saved.read_bytes()


@pytest.mark.parametrize("count, left", [(2, 1), (4, 2)])
def test_fewer_machines_go_on_with_their_plan(count, left, make, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(make(count=count), shared, tmp_path / "run", "--restarts", 3, "--rejoin", 2, *saving(tmp_path), "--plan-if", f"{left}=2.plan",
                fail={machine: SLOW for machine in range(count)}, **plan)
    awaitSaved(tmp_path)
    kill(job[1].process.pid)
    assert [node.end() for node in job.nodes if node is not job[1]] == [DONE] * (count - 1), job.said()
    said = job[0].said()
    assert f"{count - 1} of {count} machines are there after 2 s (--rejoin), and there is a plan for {left} (--plan-if)" in said, said
    assert f"goes on as machine 0 of {left} with 2.plan" in said, said
    assert job[0].weights.read_bytes() == resumedWith("2.plan", tmp_path, said, shared, plan["data"])
    checkFolder(tmp_path)
    if count == 4:
        assert "goes on as machine 1 of 2 with 2.plan" in job[2].said(), job.said()
        assert "the others go on without this machine" in job[3].said(), job.said()


@pytest.mark.parametrize("given, says", [
    ("1", "say a number of machines and a plan"), ("=2.plan", "say a number"), ("2=2.plan", "the number is from 1 to 1"), ("1=", "say a number"),
    ("1=missing.plan", "--plan-if 1=missing.plan: cannot open the plan")])
def test_plans_for_fewer_machines_that_cannot_be_are_refused(given, says, shared, planOf):
    words = jobs.command("--machines", 2, "--machine", 0, "--rendezvous", "localhost", "--restarts", 1, "--plan-if", given, **planOf("data"))
    done = subprocess.run([str(word) for word in words], cwd=shared, capture_output=True, text=True, timeout=60)
    assert done.returncode == INPUT and says in done.stderr, done.stderr


def test_a_run_that_was_replaced_commits_nothing(pair, shared, tmp_path, planOf):
    """As a run does on a file system whose locks end when a machine is cut off."""
    job = share(pair, shared, tmp_path / "run", *saving(tmp_path), fail={0: SLOW, 1: SLOW}, steps=12, **planOf("data"))
    awaitSaved(tmp_path)
    (tmp_path / "checkpoints" / ".owner").write_text("incarnation 0000000000000007 (process 1 on c)")
    assert job.end() == [DISK, DONE], job.said()
    assert re.search(r"belongs to incarnation 0000000000000007 \(process 1 on c\), and this run is incarnation [0-9a-f]{16} \(process \d+ on a\)",
                     job[0].said()), job.said()
    assert not (tmp_path / "checkpoints" / "step-000000012").exists()


def test_with_the_whole_plan_restarts_are_refused(shared, planOf):
    plan = planOf("data")
    words = jobs.command("--machines", 2, "--machine", 0, "--rendezvous", "localhost", "--whole-plan", "--restarts", 1, **plan)
    done = subprocess.run([str(word) for word in words], cwd=shared, capture_output=True, text=True, timeout=60)
    assert done.returncode == INPUT and "with --whole-plan each machine has checkpoints of its own" in done.stderr, done.stderr


NAMES = {"torchrun": "--max-restarts", "srun": "--requeue", "srun-pmix": "--requeue", "mpirun": "Leave it out"}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_with_a_task_for_each_rank_restarts_are_the_launchers(launcher, startBy, shared, planOf):
    cluster, start = startBy(launcher)
    words = " ".join(map(str, jobs.command("--key", "job.key", "--restarts", 1, **planOf("data"))))
    log = shared / f"refused-{launcher}.log"
    with open(log, "wb") as file:
        started = start(cluster, "sh", "-c", f"exec {words}", tasks=2, folder=shared, stdout=file, stderr=file)
        codes = [process.wait(120) for process in started]
    text = log.read_text()
    assert all(codes) and "nobody else can start them again" in text and NAMES[launcher] in text, text


@pytest.mark.parametrize("option", [("--rejoin", 5), ("--spares", 1)])
def test_what_needs_restarts_says_so(option, shared, planOf):
    words = jobs.command("--machines", 2, "--machine", 0, "--rendezvous", "localhost", *option, **planOf("data"))
    done = subprocess.run([str(word) for word in words], cwd=shared, capture_output=True, text=True, timeout=60)
    assert done.returncode == INPUT and "--restarts" in done.stderr, done.stderr
