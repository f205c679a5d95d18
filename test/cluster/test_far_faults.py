"""Faults on another machine, where machines share the ranks of a plan: rows of the matrix of test/faults, by their numbers, as far as other tests
here do not have them.

The oracle of all: the weights have the bits of those that one machine saves, or all machines end in the stated time with a documented exit
code and name what has failed; no process is left on any.
"""

import os
import re
import signal
import subprocess
import sys
import time

import jobs
import pytest
from between import MARK, Between
from jobs import DONE, INPUT, RANK, SLOW, SLOWLY, checkSaved, saving, share

# 1: a rank is killed.

@pytest.mark.parametrize("point", ["load.before", "collective.after_start:hit=9", "checkpoint.before_copy:hit=2", "end.before"])
def test_1_a_killed_rank_ends_all_in_every_phase(point, pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", *saving(tmp_path), fail={1: f"{point}:rank=3:action=kill"}, **planOf("data"))
    codes = [job[1].end()]
    since = time.monotonic()
    codes.insert(0, job[0].end())
    jobs.checkTime(since, 2)
    assert codes == [RANK, RANK], job.said()
    assert re.search(r"rank 3 \(data=3\) on machine 1 was killed by signal 9", job[0].said()), job.said()


# 2: a node is killed, and with it its ranks; the other machine's end, too.

@pytest.mark.parametrize("number", [0, 1])
def test_2_a_killed_node_ends_all(number, pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", fail=SLOWLY, **planOf("data"))
    job.awaitTraining()
    since = time.monotonic()
    os.kill(job[number].process.pid, signal.SIGKILL)
    other = job[1 - number]
    assert other.end() == RANK, job.said()
    jobs.checkTime(since, 6)
    assert f"machine {number} " in other.said() and "is lost" in other.said(), job.said()
    assert job[number].end() == -signal.SIGKILL


# 3: a node or a rank is stopped.

@pytest.mark.parametrize("number", [0, 1])
def test_3_a_stopped_node_ends_all(number, pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", fail=SLOWLY, steps=60, **planOf("data"))
    job.awaitTraining()
    since = time.monotonic()
    os.kill(job[number].process.pid, signal.SIGSTOP)
    other = job[1 - number]
    assert other.end() == RANK, job.said()
    jobs.checkTime(since, 10)
    assert f"machine {number} " in other.said() and "it was silent for 5 s" in other.said(), job.said()
    os.kill(job[number].process.pid, signal.SIGCONT)
    assert job[number].end() == RANK, job.said()
    assert not any(node.weights.exists() for node in job.nodes)


def test_3_a_rank_that_goes_on_changes_nothing(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", fail={0: SLOW}, steps=12, **plan)
    job.awaitTraining()
    (rank, *_) = job[1].ranks()
    os.kill(rank, signal.SIGSTOP)
    time.sleep(1)
    os.kill(rank, signal.SIGCONT)
    checkSaved(job, shared, steps=12, **plan)


# 5: a rank is slow.

def test_5_a_slow_rank_is_warned_of_and_left_alone(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = share(pair, shared, tmp_path / "run", "--timeout", 8, fail={1: "step.before:rank=3:hit=0:action=delay=1200"}, steps=11, **plan)
    checkSaved(job, shared, steps=11, **plan)
    assert re.findall(r"rank (\d) \(data=\d\).* holds the others up", job[0].said()) == ["3"], job.said()


# 6: a rank ends early, as if all were well.

def test_6_a_rank_that_ends_early_has_failed(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", fail={1: "step.before:rank=3:hit=5:action=exit"}, **planOf("data"))
    assert job.end() == [RANK, RANK], job.said()
    assert re.search(r"rank 3 \(data=3\) on machine 1 ended with status 0 before it was done", job[0].said()), job.said()


# 8: machines have different plans.

def test_8_machines_with_different_plans_do_not_start(pair, shared, tmp_path, planOf):
    plans = {"a": planOf("data"), "b": planOf("tensor")}
    (folder := tmp_path / "run").mkdir()
    nodes = [jobs.Node(machine, shared, folder, "--machines", 2, "--machine", machine.number, "--rendezvous", pair[0].four, "--key", "job.key",
                       **plans[machine.name]) for machine in pair]
    assert [node.end() for node in nodes] == [INPUT, INPUT], nodes[0].said() + nodes[1].said()
    assert "the hash of the plan is" in nodes[0].said() and not nodes[0].weights.exists(), nodes[0].said()


# 9: strangers.

STRANGERS = """
import collections, glob, os, random, socket, sys
random.seed(1)
host, mark, count, folder, *ports = sys.argv[1:]
recorded = [open(path, "rb").read() for path in sorted(glob.glob(folder + "/*"))]
# Nothing, garbage, another protocol, what was said before, that with another proof (which follows the 60 or 76 bytes of a hello), a part of it.
says = [lambda: b"", lambda: random.randbytes(300), lambda: b"GET / HTTP/1.0\\r\\n\\r\\n", lambda: random.choice(recorded),
        lambda: random.choice(recorded)[:random.choice([60, 76])] + random.randbytes(32), lambda: random.choice(recorded)[:random.randrange(150)]]
there, made = collections.deque(), 0
for number in range(int(count)):
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, int(mark))
    wire.settimeout(10)
    try:
        wire.connect((host, int(ports[number % len(ports)])))
        made += 1
        wire.sendall(says[number // len(ports) % len(says)]())
    except OSError:
        pass
    there.append(wire)
    if len(there) > 40:
        there.popleft().close()
print(made)
"""


def test_9_a_thousand_strangers_change_nothing(pair, shared, tmp_path, planOf):
    """While machines meet, and while they train; with what was said in an earlier job, and in this one."""
    plan = planOf("data")
    (kept := tmp_path / "kept").mkdir()

    def visit(machine, host, count, *ports):
        made = machine.run(sys.executable, "-S", "-c", STRANGERS, host, MARK, count, kept, *ports, timeout=jobs.PATIENCE)
        assert int(made) == count

    for machine in pair:
        Between(machine, keep=kept)
    checkSaved(share(pair, shared, tmp_path / "earlier", steps=2, **plan), shared, steps=2, **plan)
    assert {path.name.split("-")[0] for path in kept.iterdir()} == {"nodes", "ranks"}
    (folder := tmp_path / "run").mkdir()
    rest = ("--machines", 2, "--rendezvous", pair[0].four, "--key", "job.key")
    first = jobs.Node(pair[0], shared, folder, *rest, "--machine", 0, fail=SLOW, **plan)
    jobs.eventually(lambda: "waits for 1 machine" in first.said())
    visit(pair[1], pair[0].four, 1000, jobs.PORT)
    second = jobs.Node(pair[1], shared, folder, *rest, "--machine", 1, fail=SLOW, **plan)
    jobs.eventually(lambda: "\nstep 1/" in first.said())
    visit(pair[1], pair[0].four, 500, jobs.PORT)
    sockets = [line.split() for line in pair[1].run("cat", "/proc/net/tcp").splitlines()[1:]]
    ports = [int(words[1].split(":")[1], 16) for words in sockets if words[3] == "0A" and words[1].startswith("02004D0A")]
    assert len(ports) == 2  # of each rank
    visit(pair[0], pair[1].four, 500, *ports)
    assert (first.end(), second.end()) == (DONE, DONE), first.said() + second.said()
    assert first.weights.read_bytes() == jobs.alone(shared, plan["plan"], data=plan["data"])
    assert 1 <= first.said().count("refused a connection from") <= 3, first.said()  # a line a minute


# 12: the network is cut.

@pytest.mark.parametrize("cut", [{"direction": "out"}, {"direction": "in", "reject": True}], ids=["one-way", "reset"])
def test_12_a_cut_link_ends_both_sides(cut, pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", fail=SLOWLY, steps=60, **planOf("tensor"))
    job.awaitTraining()
    since = time.monotonic()
    pair[1].cut(**cut)
    assert job.end() == [RANK, RANK], job.said()
    jobs.checkTime(since, 6)
    assert "machine 1" in job[0].said() and "machine 0" in job[1].said(), job.said()


def test_12_a_cut_in_a_commit_leaves_whole_checkpoints(pair, shared, tmp_path, planOf):
    """The run that follows goes on from what was committed."""
    plan, checkpoints = planOf("tensor"), tmp_path / "checkpoints"
    job = share(pair, shared, tmp_path / "run", *saving(tmp_path),
                fail={0: "checkpoint.before_rename:rank=launcher:hit=2:action=delay=7000"}, **plan)
    jobs.eventually(lambda: any(checkpoints.glob(".tmp-step-000000006.*/manifest*")))
    since = time.monotonic()
    pair[1].cut()
    assert job[1].end() == RANK, job.said()
    jobs.checkTime(since, 6)
    assert job[0].end() == RANK and "machine 1" in job[0].said(), job.said()  # after the commit, which is slow
    pair[1].mend()
    before = sorted(path.name for path in checkpoints.glob("step-*"))
    on = share(pair, shared, tmp_path / "on", *saving(tmp_path), "--resume", "auto", **plan)
    checkSaved(on, shared, **plan)
    assert f"going on from {checkpoints / before[-1]}" in on[0].said(), on.said()
    left = sorted(path.name for path in checkpoints.iterdir())
    assert all(re.fullmatch(r"step-\d+", name) for name in left) and set(before) <= set(left), left


# 20: a checkpoint goes on on other machines and another mesh.

def test_20_what_one_machine_has_saved_goes_on_on_two_with_another_mesh(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    resume = ("--resume", tmp_path / "checkpoints" / "step-000000003")
    for words in (jobs.command(*saving(tmp_path), steps=6), jobs.command(*resume, "--save", tmp_path / "one.safetensors", **plan)):
        subprocess.run([str(word) for word in words], cwd=shared, check=True, capture_output=True, timeout=jobs.PATIENCE)
    job = share(pair, shared, tmp_path / "run", *resume, **plan)
    assert job.end() == [DONE] * 2, job.said()
    assert job[0].weights.read_bytes() == (tmp_path / "one.safetensors").read_bytes()
