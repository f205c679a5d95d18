"""Two machines train together: they meet, agree, end together, and name what went wrong.

The oracle of all: the weights of each machine are those that it saves alone, bit for bit, or all machines end in the stated time with
a documented exit code and the cause on machine 0's terminal; no process is left on any.
"""

import os
import re
import signal
import subprocess
import sys
import time

import jobs
import pytest
import tools
from jobs import DONE, INPUT, RANK, Job, Node

SLOW = "step.before:hit=0:action=delay=300"  # steps that are still going on when something happens


def checkDone(job, shared):
    codes = job.end()
    assert codes == [DONE] * len(codes), job.said()
    for node in job.nodes:
        assert node.weights.read_bytes() == jobs.alone(shared), node.name


def test_each_machine_trains_as_it_does_alone(pair, shared, tmp_path):
    checkDone(Job(pair, shared, tmp_path / "run"), shared)


@pytest.mark.parametrize("cluster", [{"four": False, "six": True}, {"hosts": "debian"}, {"hosts": "none"}, {"count": 4}],
                         ids=["ipv6-alone", "own-name-is-loopback", "no-names", "four-machines"])
def test_they_meet(cluster, make, shared, tmp_path):
    made = make(**cluster)
    named = cluster.get("hosts") == "debian"
    checkDone(Job(made, shared, tmp_path / "run", host="a" if named else None), shared)


def test_a_failed_rank_ends_all_machines_and_is_named_on_the_first(pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: f"step.before:rank=1:hit=4:action=kill;{SLOW}"})
    codes = [job[1].end()]
    since = time.monotonic()
    codes.insert(0, job[0].end())
    jobs.checkTime(since, 2)
    assert codes == [RANK, RANK], job.said()
    assert "machine 1" in job[0].said() and "rank 1" in job[0].said() and "signal 9 (Killed)" in job[0].said(), job.said()


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_launchers_see_the_first_cause(launcher, startBy, shared):
    cluster, start = startBy(launcher)
    (folder := shared / f"killed-{launcher}").mkdir()
    words = " ".join(map(str, jobs.command("--whole-plan", "--key", "job.key")))
    fail = f"case $(hostname) in b) export POLYRANK_FAIL='step.before:rank=1:hit=4:action=kill';; esac; exec {words}"
    with open(folder / "log", "wb") as log:
        (process,) = start(cluster, "sh", "-c", fail, folder=shared, stdout=log, stderr=log)
        code = process.wait(120)
    text = (folder / "log").read_text()
    assert code == RANK, text
    assert "signal 9 (Killed)" in text


def test_a_killed_machine_is_named(pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW})
    job.awaitTraining()
    since = time.monotonic()
    pair[1].clear()
    assert job[0].end() == RANK, job.said()
    jobs.checkTime(since, 6)
    assert "machine 1" in job[0].said(), job.said()


def test_a_stopped_node_is_named(pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW})
    job.awaitTraining()
    since = time.monotonic()
    os.kill(job[1].process.pid, signal.SIGSTOP)
    assert job[0].end() == RANK, job.said()
    jobs.checkTime(since, 10)
    assert "machine 1" in job[0].said(), job.said()
    os.kill(job[1].process.pid, signal.SIGCONT)
    assert job[1].end() == RANK


@pytest.mark.parametrize("cut", [{}, {"direction": "in"}, {"reject": True}, None], ids=["both", "one-way", "reset", "down"])
def test_a_cut_link_ends_both_sides(cut, pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW})
    job.awaitTraining()
    since = time.monotonic()
    pair[1].setLink(False) if cut is None else pair[1].cut(**cut)
    assert job.end() == [RANK, RANK], job.said()
    jobs.checkTime(since, 6)
    assert "machine 1" in job[0].said() and "machine 0" in job[1].said(), job.said()


def test_machine_0_that_is_lost_ends_all(pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW})
    job.awaitTraining()
    since = time.monotonic()
    pair[0].clear()
    assert job[1].end() == RANK, job.said()
    jobs.checkTime(since, 6)


def test_losses_and_slow_links_end_nothing(pair, shared, tmp_path):
    pair[1].lose(0.05), pair[1].limit("10mbit")
    checkDone(Job(pair, shared, tmp_path / "run"), shared)


STRANGER = """
import os, random, socket, sys
random.seed(1)
said = 0
for number in range(int(sys.argv[3])):
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2) as wire:
            said += 1
            what = number % 4
            if what == 0:
                continue  # a scanner
            wire.sendall([b"", random.randbytes(300), b"GET / HTTP/1.0\\r\\n\\r\\n", b"\\xff" * 70][what])
            wire.settimeout(0.02)
            wire.recv(100)
    except OSError:
        pass
print(said)
"""


def test_strangers_change_nothing(pair, shared, tmp_path):
    """While machines meet, and while they train."""
    (folder := tmp_path / "run").mkdir()
    rest = ("--whole-plan", "--machines", 2, "--rendezvous", pair[0].four, "--key", "job.key")
    first = Node(pair[0], shared, folder, *rest, "--machine", 0, fail=SLOW)
    call = (sys.executable, "-S", "-c", STRANGER, pair[0].four, jobs.PORT)
    jobs.eventually(lambda: "0" != pair[1].run(*call, 1, check=False).strip() != "")
    assert int(pair[1].run(*call, 100)) > 0
    tools.tool("run", "--new-key", folder / "other.key")
    stranger = Node(pair[1], shared, folder, *rest[:-1], folder / "other.key", "--machine", 1, "--join-timeout", 2, name="stranger")
    assert stranger.process.wait(60) != DONE
    second = Node(pair[1], shared, folder, *rest, "--machine", 1)
    jobs.eventually(lambda: len(first.ranks()) == 2)
    pair[1].run(*call, 100)
    assert (first.end(), second.end()) == (DONE, DONE), first.said() + second.said()
    assert first.weights.read_bytes() == second.weights.read_bytes() == jobs.alone(shared)


def test_a_port_in_use_is_named_at_once(pair, shared, tmp_path):
    holder = pair[0].start(sys.executable, "-S", "-c", "import socket, sys; s = socket.create_server(('', int(sys.argv[1])));"
                           "print('ready', flush=True); s.accept()", jobs.PORT, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"ready\n"
    (folder := tmp_path / "run").mkdir()
    since = time.monotonic()
    node = Node(pair[0], shared, folder, "--whole-plan", "--machines", 2, "--machine", 0, "--rendezvous", pair[0].four, "--key", "job.key")
    assert node.process.wait(jobs.PATIENCE) == RANK, node.said()
    jobs.checkTime(since, 1)
    assert str(jobs.PORT) in node.said() and "--rendezvous" in node.said(), node.said()


def test_a_missing_machine_is_named(pair, shared, tmp_path):
    (folder := tmp_path / "run").mkdir()
    node = Node(pair[0], shared, folder, "--whole-plan", "--machines", 3, "--machine", 0, "--rendezvous", pair[0].four, "--key", "job.key",
                "--join-timeout", 2)
    assert node.end() != DONE
    assert "1, 2" in node.said() or "1 and 2" in node.said(), node.said()


def test_a_name_that_leads_nowhere_is_named(pair, shared, tmp_path):
    (folder := tmp_path / "run").mkdir()
    node = Node(pair[1], shared, folder, "--whole-plan", "--machines", 2, "--machine", 1, "--rendezvous", "nowhere", "--key", "job.key",
                "--join-timeout", 2)
    assert node.end() != DONE
    assert "nowhere" in node.said(), node.said()


def test_a_machine_0_that_is_not_there_is_named(pair, shared, tmp_path):
    (folder := tmp_path / "run").mkdir()
    node = Node(pair[1], shared, folder, "--whole-plan", "--machines", 2, "--machine", 1, "--rendezvous", pair[0].four, "--key", "job.key",
                "--join-timeout", 2)
    assert node.end() == RANK, node.said()
    assert re.search(rf"{re.escape(pair[0].four)}:{jobs.PORT}.*Connection refused", node.said()), node.said()


def test_machines_that_disagree_do_not_start(pair, shared, tmp_path):
    (folder := tmp_path / "run").mkdir()
    rest = ("--whole-plan", "--machines", 2, "--rendezvous", pair[0].four, "--key", "job.key")
    nodes = [Node(machine, shared, folder, *rest, "--machine", machine.number, plan=plan) for machine, plan in zip(pair, ("2.plan", "1.plan"))]
    assert [node.end() for node in nodes] == [INPUT, INPUT], nodes[0].said() + nodes[1].said()
    assert "plan" in nodes[0].said()
    assert not any(node.weights.exists() for node in nodes)


def test_a_signal_ends_all_after_the_same_step(pair, shared, tmp_path):
    job = Job(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW}, each=lambda name: ("--checkpoint", tmp_path / f"checkpoints-{name}"))
    job.awaitTraining()
    os.kill(job[1].process.pid, signal.SIGTERM)
    assert job.end() == [jobs.PREEMPTED] * 2, job.said()
    saved = [sorted(path.name for path in (tmp_path / f"checkpoints-{name}").iterdir()) for name in "ab"]
    assert saved[0] == saved[1] and saved[0]


def test_two_on_one_machine_need_no_key(shared, tmp_path):
    """As docs/machines.md has it, to try it."""
    words = jobs.command("--whole-plan", "--machines", 2, "--rendezvous", "localhost:25399", steps=2)
    processes = [subprocess.Popen([str(word) for word in [*words, "--machine", number]], cwd=shared, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) for number in (0, 1)]
    texts = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [DONE, DONE], texts
