"""The machines that the other tests run on are as apart as they have to be, and nothing of them is left."""

import os
import subprocess
import sys
import time
from pathlib import Path

import machines

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 5000), timeout=1).recv(1)"
LISTEN = """
import socket
listener = socket.create_server(("", 5000), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
while True:
    listener.accept()[0].send(b"x")
"""


def listening(machine):
    process = machine.start(sys.executable, "-S", "-c", LISTEN, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"listening\n"


def reaches(machine, name):
    done = subprocess.run(machine.enter(sys.executable, "-S", "-c", CONNECT, name), capture_output=True)
    return done.returncode == 0


def isAlive(pid):
    """Also one that has ended lies in /proc until its parent has looked."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_machines_have_names_and_addresses_and_a_tmp_of_their_own(make, shared):
    a, b = make(six=True)
    assert (a.run("hostname"), b.run("hostname")) == ("a\n", "b\n")
    assert os.uname().nodename not in "ab"
    b.run("touch", "/tmp/of-b")
    assert "of-b" in b.run("ls", "/tmp") and "of-b" not in a.run("ls", "/tmp") and not Path("/tmp/of-b").exists()
    assert "job.key" in a.run("ls", ".", folder=shared)
    listening(b)
    assert all(reaches(a, name) for name in ("b", b.four, b.six)) and not reaches(a, "a")


def test_links_are_cut_and_mended(pair):
    a, b = pair
    listening(b)
    assert reaches(a, "b")
    for cut in (lambda: b.cut(), lambda: b.cut("in"), lambda: a.cut("in"), lambda: b.cut(reject=True), lambda: a.setLink(False)):
        cut()
        assert not reaches(a, "b")
        a.mend(), b.mend()
        assert reaches(a, "b")
    b.lose(0.1), b.limit("10mbit")
    # Of ten packets one is lost, so an attempt may take too long.
    assert any(reaches(a, "b") for _ in range(5))


def test_names_may_lead_to_loopback_or_nowhere(make):
    debian = make(hosts="debian")
    assert debian[0].run("getent", "hosts", "a").split()[0] == "127.0.1.1"
    assert debian[1].run("getent", "hosts", "a").split()[0] == debian[0].four
    none = make(hosts="none", four=False, six=True)
    assert not none[0].run("getent", "hosts", "b", check=False)


def test_nothing_is_left(tmp_path):
    with machines.Cluster(tmp_path) as cluster:
        a = cluster[0]
        # A process that nobody waits for, in a session of its own.
        a.run("sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 &")
        (sleeper,) = a.processes()
        networks = list(cluster.networks)
    assert not isAlive(sleeper)
    assert not any(machines._processesIn(network) for network in networks)


def test_machines_vanish_with_whoever_made_them(tmp_path):
    script = ("import sys, os, signal; sys.path.insert(0, sys.argv[1]); import machines; c = machines.Cluster(sys.argv[2]).__enter__();"
              "print(*(m.holder.pid for m in c), c.lab.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-S", "-c", script, Path(__file__).parent, tmp_path], capture_output=True, text=True)
    pids = done.stdout.split()
    assert len(pids) == 3, done.stderr
    limit = time.monotonic() + 10
    while any(isAlive(pid) for pid in pids):
        assert time.monotonic() < limit
        time.sleep(0.02)
