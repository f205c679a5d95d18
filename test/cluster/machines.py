"""Machines for the tests, made of Linux's namespaces: each has a network interface, a host name, an /etc/hosts and a /tmp of its own.

They hang on one bridge, in a network that nobody else sees, and vanish with the process that made them. It takes root, or a kernel
that lets everybody make user namespaces. Nothing here is a container: processes, users and files are those of the host.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

NEEDED = ("unshare", "nsenter", "ip", "tc", "iptables", "mount")


def whyNot():
    """The reason why no machines can be made here; empty if they can."""
    if missing := [program for program in NEEDED if not find(program)]:
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed (tools/setup.sh --tests)"
    tried = subprocess.run([*unshared(), "ip", "link", "add", "br0", "type", "bridge"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"namespaces with a bridge cannot be made here: {tried.stderr.strip()}"


def find(program):
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def unshared():
    return ["unshare", "--net", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net", "--mount"]


def _dieWithParent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@dataclass
class Machine:
    """One machine of a Cluster."""

    number: int
    name: str
    holder: subprocess.Popen  # the process that keeps its namespaces
    four: str = ""  # its addresses
    six: str = ""
    started: list = field(default_factory=list)
    aside: set = field(default_factory=set)  # ids of those processes that are no part of what is tested
    redirects: bool = False

    def enter(self, *command, folder="/"):
        """The command line by which a command runs on this machine."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.holder.pid), *user, "--net", "--uts", "--mount", f"--wd={folder}", "--", *map(str, command)]

    def start(self, *command, folder="/", env=None, aside=False, stdin=subprocess.DEVNULL, **more):
        """Starts a command in the background; Cluster.close ends it. One that is `aside` is not among `processes`."""
        process = subprocess.Popen(self.enter(*command, folder=folder), env={**os.environ, **(env or {})}, stdin=stdin, **more)
        self.started.append(process)
        if aside:
            self.aside.add(process.pid)
        return process

    def run(self, *command, folder="/", env=None, timeout=60, check=True):
        """Runs a command. Returns what it printed."""
        done = subprocess.run(self.enter(*command, folder=folder), env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{self.name}: {command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def processes(self):
        """Ids of the processes of this machine, without the one that keeps it alive, and those that are `aside`."""
        return [pid for pid in _processesIn(_networkOf(self.holder.pid)) if pid != self.holder.pid and pid not in self.aside]

    def clear(self):
        """Ends all processes of this machine."""
        for pid in [*self.processes(), *self.aside]:
            _kill(pid)
        self.aside.clear()
        for process in self.started:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        self.started = []

    # What happens to networks.

    def cut(self, direction="both", reject=False):
        """Nothing comes in or goes out any more ("in", "out", "both"); with `reject` each packet of TCP is answered by a reset."""
        what = ["-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"] if reject else ["-j", "DROP"]
        for chain, side in {"in": [("INPUT", "-i")], "out": [("OUTPUT", "-o")], "both": [("INPUT", "-i"), ("OUTPUT", "-o")]}[direction]:
            for iptables in ("iptables", "ip6tables"):
                self.run(find(iptables), "-A", chain, side, "eth0", *what)

    def whyNoRedirect(self):
        """The reason why `redirect` cannot work here, such as a kernel without that; empty if it can."""
        tried = subprocess.run(self.enter(find("iptables"), "-t", "nat", "-L"), capture_output=True, text=True)
        return "" if tried.returncode == 0 else f"connections cannot be redirected here: {tried.stderr.strip()}"

    def redirect(self, port, mark):
        """Connections that this machine makes to others are made to a port of its own instead, but for those with the mark."""
        self.run(find("iptables"), "-t", "nat", "-A", "OUTPUT", "-o", "eth0", "-p", "tcp", "-m", "mark", "!", "--mark", mark,
                 "-j", "REDIRECT", "--to-ports", port)
        self.redirects = True

    def lose(self, share):
        """This share of the packets that come in is lost."""
        for iptables in ("iptables", "ip6tables"):
            self.run(find(iptables), "-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")

    def lost(self):
        """How many packets `cut` and `lose` have kept from coming in."""
        lines = [line.split() for iptables in ("iptables", "ip6tables") for line in self.run(find(iptables), "-nvxL", "INPUT").splitlines()]
        return sum(int(words[0]) for words in lines if words[2:3] == ["DROP"])

    def mend(self):
        """Takes back what `cut`, `redirect`, `lose`, `limit` and `setLink` did."""
        if self.redirects:
            self.run(find("iptables"), "-t", "nat", "-F")
            self.redirects = False
        for iptables in ("iptables", "ip6tables"):
            self.run(find(iptables), "-F")
        self.run(find("tc"), "qdisc", "del", "dev", "eth0", "root", check=False)
        self.setLink(True)

    def limit(self, rate, burst="64kb", latency="50ms"):
        """What this machine sends goes at this rate at most ("10mbit"), but for so many bytes at once; what would wait longer is lost."""
        self.run(find("tc"), "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", burst, "latency", latency)

    def sent(self):
        """How many bytes have left this machine by its interface, with the headers of Ethernet, IP and TCP."""
        for line in Path(f"/proc/{self.holder.pid}/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == "eth0":
                return int(counts.split()[8])
        raise RuntimeError(f"{self.name} has no interface eth0")

    def delayed(self):
        """How many packets `limit` has held back."""
        return int(re.search(r"overlimits (\d+)", self.run(find("tc"), "-s", "qdisc", "show", "dev", "eth0")).group(1))

    def setLink(self, up):
        self.run(find("ip"), "link", "set", "eth0", "up" if up else "down")


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _networkOf(pid):
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def _processesIn(network):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if _networkOf(entry.name) == network:
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile, or is another user's
                pass
    return found


class Cluster:
    """Machines `a`, `b`, .. on one bridge; to be used with `with`.

    `folder` is for files of the machines, and `shared`, in which it may lie, is seen by all of them under its own path. `hosts` says
    what each machine's /etc/hosts has: "all" the names of all machines, "debian" the same, but a machine's own name as 127.0.1.1, and
    "none" nothing but localhost.
    """

    def __init__(self, folder, shared=None, count=2, four=True, six=False, hosts="all"):
        self.folder, self.shared = Path(folder), Path(shared or folder)
        self.count, self.four, self.six, self.hosts = count, four, six, hosts
        self.machines, self.networks, self.lab = [], [], None

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, number):
        return self.machines[number]

    def __iter__(self):
        return iter(self.machines)

    def _hold(self, *command):
        """Starts a process that keeps namespaces until it is killed, and waits until it has them."""
        before = _networkOf(os.getpid() if self.lab is None else self.lab.pid)
        process = subprocess.Popen([*command, "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   preexec_fn=_dieWithParent)
        assert process.stdout.readline() == b"ready\n" and _networkOf(process.pid) != before
        self.networks.append(_networkOf(process.pid))
        return process

    def _inLab(self, script):
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        done = subprocess.run(["nsenter", "--target", str(self.lab.pid), *user, "--net", "--mount", "sh", "-ec", script], capture_output=True,
                              text=True, env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})
        assert done.returncode == 0, f"{script}\n{done.stderr}"

    def _make(self):
        self.lab = self._hold(*unshared())
        self._inLab("ip link set lo up; ip link add br0 type bridge; ip link set br0 up")
        names = [chr(ord("a") + number) for number in range(self.count)]
        fours = [f"10.77.0.{number + 1}" if self.four else "" for number in range(self.count)]
        sixes = [f"fd77::{number + 1}" if self.six else "" for number in range(self.count)]
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        for number, name in enumerate(names):
            holder = self._hold("nsenter", "--target", str(self.lab.pid), *user, "--net", "--mount",
                                "unshare", "--net", "--uts", "--mount")
            machine = Machine(number, name, holder, fours[number], sixes[number])
            self.machines.append(machine)
            self._inLab(f"ip link add to-{name} type veth peer name eth0 netns {holder.pid}; ip link set to-{name} master br0 up")
            lines = ["127.0.0.1 localhost", "::1 localhost"]
            for other, four, six in zip(names, fours, sixes):
                if self.hosts == "debian" and other == name:
                    lines.append(f"127.0.1.1 {name}")
                elif self.hosts != "none":
                    lines += [f"{address} {other}" for address in (four, six) if address]
            own = self.folder / "machines" / name
            (own / "tmp").mkdir(parents=True)
            (own / "hosts").write_text("\n".join(lines) + "\n")
            # Files of the tests that lie in /tmp are seen there, too.
            inside = f"{own}/tmp/{self.shared.relative_to('/tmp')}" if self.shared.is_relative_to("/tmp") else ""
            kept = f"mkdir -p '{inside}'; mount --bind '{self.shared}' '{inside}'" if inside else ":"
            addresses = "; ".join([f"ip addr add {four}/24 dev eth0" for four in [fours[number]] if four] +
                                  [f"ip addr add {six}/64 dev eth0 nodad" for six in [sixes[number]] if six])
            machine.run("sh", "-ec", f"""
                export PATH="$PATH:/usr/sbin:/sbin"
                hostname {name}
                ip link set lo up
                ip link set eth0 up
                {addresses}
                mount --bind '{own}/hosts' /etc/hosts
                {kept}
                mount --rbind '{own}/tmp' /tmp
            """)

    def close(self):
        """Ends all processes on these machines, and with them the machines."""
        for attempt in range(50):
            left = [pid for network in self.networks for pid in _processesIn(network) if pid != os.getpid()]
            if not left:
                break
            for pid in left:
                _kill(pid)
            for process in [self.lab, *(m.holder for m in self.machines), *(s for m in self.machines for s in m.started)]:
                if process:
                    process.poll()
            time.sleep(0.02)
        for process in [self.lab, *(m.holder for m in self.machines), *(s for m in self.machines for s in m.started)]:
            if process:
                process.wait()
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream:
                        stream.close()
        self.machines, self.networks, self.lab = [], [], None
