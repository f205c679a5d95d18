"""Kills ranks and nodes of a job of several machines at random, and cuts their links; the final weights must be bit for bit those of a run to which
nothing has happened.

    soak.py [--times N] [--seed S] [--plan data|tensor|pipe] [--machines M] [--wire tcp|ucx]

The machines share the ranks of a plan out and have --restarts. A rank that is killed is started again by its machine; the command of a node that has
ended is started again on its machine, as a cluster does, and with --resume auto on all of them where machine 0 was the one. Takes a machine that
can make namespaces (machines.py), and the tools of POLYRANK_BIN. Prints a line for every tenth fault and ends with 1 at the first run that is wrong.
"""

import argparse
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "parity")]

import jobs  # noqa: E402
import machines  # noqa: E402
import plans  # noqa: E402
import tools  # noqa: E402

STEPS, EVERY = 60, 4
SLOWER = "step.before:hit=0:attempt=0:action=delay=30"
FAULTS = ("rank", "rank", "node", "node", "cut", "node 0")
PATIENCE = 180


class Soak:
    def __init__(self, cluster, shared, plan, times, chance, wire):
        self.cluster, self.shared, self.plan, self.times, self.chance, self.wire = cluster, shared, plan, times, chance, wire
        self.faults, self.runs, self.starts = Counter(), 0, 0
        self.weights = jobs.alone(shared, plan["plan"], data=plan["data"], steps=STEPS)

    def total(self):
        return sum(self.faults.values())

    def start(self, folder):
        self.starts += 1
        return jobs.share(self.cluster, self.shared, folder / f"start{self.starts}", "--restarts", 1000, "--rejoin", 60, "--checkpoint",
                          folder / "checkpoints", "--every", EVERY, "--resume", "auto", "--keep", 3, "--wire", self.wire,
                          env={"UCX_TLS": "tcp"}, fail={machine.number: SLOWER for machine in self.cluster}, steps=STEPS, **self.plan)

    def strike(self, job):
        """Does one thing to the job."""
        what = self.chance.choice(FAULTS)
        node = self.chance.choice(job.nodes if what == "rank" else job.nodes[1:])
        if what == "node 0":
            node = job.nodes[0]
        if node.process.poll() is not None:
            return
        try:
            if what == "cut":
                node.machine.cut()
                time.sleep(self.chance.uniform(0, 8))
                node.machine.mend()
            elif what == "rank":
                if not (ranks := node.ranks()):
                    return
                os.kill(self.chance.choice(ranks), signal.SIGKILL)
            else:
                os.kill(node.process.pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):  # it has just ended
            return
        self.faults[what] += 1
        if self.total() % 10 == 0:
            print(f"{self.total()} faults in {self.runs} runs", flush=True)

    def tend(self, job, limit):
        """Starts nodes again that have ended. False once that of machine 0 has."""
        for number, node in enumerate(job.nodes):
            code = node.process.poll()
            if code in (None, jobs.DONE):
                continue
            if number == 0:
                return False
            if code not in (jobs.RANK, -signal.SIGKILL):
                sys.exit(f"exit code {code}\n{job.said()[-8000:]}")
            if job[0].process.poll() is None:
                job.startAgain(number)
                job.nodes[number].name = self.cluster[number].name
        if time.monotonic() > limit:
            sys.exit(f"it does not end\n{job.said()[-8000:]}")
        return True

    def leave(self, node):
        """Waits for the end of a node after machine 0 has ended. One that had not joined yet goes on waiting for a machine 0."""
        try:
            node.process.wait(20)
        except subprocess.TimeoutExpired:
            if re.search(r"machine \d+ of \d+: ranks", node.said()):
                sys.exit(f"it goes on without machine 0\n{node.said()[-8000:]}")
            node.process.terminate()
            node.process.wait(10)

    def once(self, folder):
        """Runs the job until it is done."""
        job = self.start(folder)
        limit = time.monotonic() + PATIENCE
        next_ = time.monotonic() + self.chance.uniform(0.5, 6)
        while job[0].process.poll() != jobs.DONE:
            if not self.tend(job, limit):
                for node in job.nodes[1:]:
                    self.leave(node)
                if job[0].process.returncode not in (jobs.RANK, -signal.SIGKILL):
                    sys.exit(f"exit code {job[0].process.returncode}\n{job.said()[-8000:]}")
                job = self.start(folder)
            if self.total() < self.times and time.monotonic() > next_:
                self.strike(job)
                next_ = time.monotonic() + self.chance.uniform(0.5, 9)
                limit = time.monotonic() + PATIENCE
            time.sleep(0.02)
        for node in job.nodes[1:]:
            node.process.wait(30)
        return job

    def go(self, folder):
        while self.total() < self.times:
            self.runs += 1
            place = folder / f"run{self.runs}"
            place.mkdir()
            job = self.once(place)
            saved, wanted = (hashlib.sha256(each).hexdigest() for each in (job[0].weights.read_bytes(), self.weights))
            if saved != wanted:
                sys.exit(f"run {self.runs}: weights {saved} instead of {wanted} after {self.total()} faults\n{job.said()[-8000:]}")
            left = [path.name for path in (place / "checkpoints").iterdir() if not path.name.startswith("step-")]
            if left or any(machine.processes() for machine in self.cluster):
                sys.exit(f"run {self.runs}: left are {left} {[machine.processes() for machine in self.cluster]}")
        said = ", ".join(f"{count} {what}" for what, count in sorted(self.faults.items()))
        print(f"{said}, in {self.runs} runs with {self.starts} starts by hand: the weights are always {hashlib.sha256(self.weights).hexdigest()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", choices=sorted(plans.PLANS), default="data")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--wire", choices=["tcp", "ucx"], default="tcp")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        shared = Path(name)
        (place := shared / "machines").mkdir()
        tools.tool("run", "--new-key", shared / "job.key")
        plan = plans.makePlan(shared, chosen.plan)
        with machines.Cluster(place, shared, count=chosen.machines) as cluster:
            if chosen.wire == "ucx":
                for machine in cluster:
                    machine.run("mount", "-t", "sysfs", "sysfs", "/sys")  # in which UCX looks for interfaces
            Soak(cluster, shared, plan, chosen.times, random.Random(chosen.seed), chosen.wire).go(shared)


if __name__ == "__main__":
    main()
