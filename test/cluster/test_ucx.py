"""Machines whose ranks send each other their data over UCX (--wire ucx), here by TCP: the same bits, and the same ends."""

import re
import subprocess
import sys
import time

import jobs
import pytest
from jobs import INPUT, RANK, SLOW, checkSaved, share
from machines import Cluster
from plans import PLANS

OVER = {"UCX_TLS": "tcp"}


def whyNot():
    """The reason why UCX cannot be used here; empty if it can."""
    done = subprocess.run([str(word) for word in jobs.command("--machines", 2, "--machine", 0, "--rendezvous", "localhost", "--wire", "ucx",
                                                              plan="no.plan")], capture_output=True, text=True, timeout=60)
    return next((line for line in done.stderr.splitlines() if "--wire ucx" in line), "")


@pytest.fixture(scope="session")
def network(shared):
    """Two machines. Each has a /sys of its own, in which UCX looks for interfaces."""
    if reason := whyNot():
        pytest.skip(reason)
    (folder := shared / "ucx").mkdir()
    with Cluster(folder, shared) as cluster:
        for machine in cluster:
            machine.run("mount", "-t", "sysfs", "sysfs", "/sys")
        yield cluster


@pytest.fixture
def pair(network):
    yield network
    for machine in network:
        machine.mend()
        machine.clear()


def over(pair, shared, folder, *options, **more):
    return share(pair, shared, folder, "--wire", "ucx", *options, env=OVER, **more)


@pytest.mark.parametrize("name", PLANS)
def test_two_machines_save_the_bits_of_one(name, pair, shared, tmp_path, planOf):
    job = over(pair, shared, tmp_path / "run", **planOf(name))
    checkSaved(job, shared, **planOf(name))
    assert not re.search("ucx", job.said(), re.I), job.said()  # which prints nothing


def test_without_checksums_the_bits_are_the_same(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    checkSaved(over(pair, shared, tmp_path / "run", "--wire-check", "off", **plan), shared, **plan)


def test_losses_change_nothing(pair, shared, tmp_path, planOf):
    pair[1].lose(0.05)
    plan = planOf("data")
    checkSaved(over(pair, shared, tmp_path / "run", **plan), shared, **plan)
    assert pair[1].lost() > 0


def test_a_killed_rank_ends_all(pair, shared, tmp_path, planOf):
    job = over(pair, shared, tmp_path / "run", fail={0: SLOW, 1: f"step.before:rank=3:hit=4:action=kill;{SLOW}"}, **planOf("data"))
    codes = [job[1].end()]
    since = time.monotonic()
    codes.insert(0, job[0].end())
    jobs.checkTime(since, 2)
    assert codes == [RANK, RANK], job.said()
    assert re.search(r"rank 3 \(data=3\) on machine 1 was killed by signal 9", job[0].said()), job.said()


def test_a_killed_rank_is_started_again(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    job = over(pair, shared, tmp_path / "run", "--checkpoint", tmp_path / "checkpoints", "--every", 3, "--restarts", 2,
               fail={1: "step.before:rank=2:hit=5:action=kill"}, **plan)
    checkSaved(job, shared, **plan)
    assert "restart" in job[0].said(), job.said()


@pytest.mark.parametrize("direction", ["both", "in"])
def test_a_machine_that_is_cut_off_is_named(direction, pair, shared, tmp_path, planOf):
    job = over(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW}, **planOf("data"))
    jobs.eventually(lambda: "\nstep 1/" in job[0].said())
    pair[1].cut(direction)
    since = time.monotonic()
    codes = job.end()
    jobs.checkTime(since, 6)
    assert codes == [RANK, RANK], job.said()
    assert re.search("machine 1", job[0].said()), job.said()


GARBAGE = """
import os, socket, sys, time
end, count = time.monotonic() + 1, 0
while time.monotonic() < end:
    for port in sys.argv[2:]:
        with socket.create_connection((sys.argv[1], port), 5) as caller:
            caller.send(os.urandom(400) if count % 3 else b"GET / HTTP/1.0\\r\\n\\r\\n")
            count += 1
print(count)
"""


def test_garbage_at_every_port_changes_nothing(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    job = over(pair, shared, tmp_path / "run", fail={0: SLOW, 1: SLOW}, **plan)
    jobs.eventually(lambda: "\nstep 1/" in job[0].said())
    sockets = [line.split() for line in pair[1].run("cat", "/proc/net/tcp").splitlines()[1:]]
    heard = [words[1].split(":") for words in sockets if words[3] == "0A"]  # where somebody listens
    ports = [int(port, 16) for address, port in heard if address != "0100007F"]  # and not on the loopback
    assert len(ports) == 4  # of each rank one of ours, and one of UCX's
    assert int(pair[0].run(sys.executable, "-c", GARBAGE, pair[1].four, *ports)) > len(ports)
    checkSaved(job, shared, **plan)


def test_wires_that_differ_are_named(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", each=lambda name: ("--wire", "ucx") if name == pair[1].name else (), env=OVER,
                **planOf("data"))
    assert job.end() == [INPUT] * 2, job.said()
    assert "wire=tcp" in job[0].said() and "wire=ucx" in job[0].said(), job.said()


def test_a_network_that_ucx_does_not_find_is_named(pair, shared, tmp_path, planOf):
    job = share(pair, shared, tmp_path / "run", "--wire", "ucx", env={**OVER, "UCX_NET_DEVICES": "none0"}, **planOf("data"))
    assert job.end() == [RANK] * 2, job.said()
    assert re.search("UCX failed to .*: No such device.*UCX_NET_DEVICES.*--wire tcp", job[0].said()), job.said()
