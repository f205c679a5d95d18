"""Runs a job on the machines of a cluster, and looks at what is left of it."""

import os
import subprocess
import time
from pathlib import Path

import tools

STEPS = 24
PORT = 23138
DONE, INPUT, RANK, HANG, PREEMPTED, DISK, DIVERGED = range(7)
# What a busy machine may add to any time.
PATIENCE = 60
SLOW = "step.before:hit=0:action=delay=300"  # steps that are still going on when something happens


SLOWLY = {0: SLOW, 1: SLOW}  # on both of two machines


def eventually(condition, seconds=PATIENCE):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.01)


def command(*options, plan="2.plan", data="data.npz", steps=STEPS):
    """`data` may be None, where the options have it."""
    read = ("--data", data) if data else ()
    seed = () if "--seed" in options else ("--seed", 3)
    return [tools.bin().resolve() / "polyrank-run", plan, *read, *seed, "--bind-to", "none", "--steps", steps, *options]


class Node:
    """The polyrank-run of one machine."""

    def __init__(self, machine, shared, folder, *options, fail="", name="", env=None, **more):
        self.machine = machine
        self.name = name or machine.name
        self.weights, self.errors = folder / f"{self.name}.safetensors", folder / f"{self.name}.txt"
        with open(self.errors, "wb") as errors:
            self.process = machine.start(*command("--save", self.weights, *options, **more), folder=shared, stdout=errors, stderr=errors,
                                         env={"POLYRANK_FAIL": fail, **(env or {})})

    def said(self):
        return self.errors.read_text(errors="replace")

    def ranks(self):
        """Ids of its ranks' processes."""
        number = self.process.pid
        return sorted(map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split()))

    def end(self, seconds=PATIENCE):
        """Waits for its end; no process of it is left. Returns its exit code."""
        code = self.process.wait(seconds)
        eventually(lambda: not self.machine.processes(), 5)
        return code


class Job:
    """A job of all machines of a cluster, by options."""

    def __init__(self, cluster, shared, folder, *options, fail=None, host=None, key="job.key", env=None, each=lambda name: (),
                 shares=False, spares=0, **more):
        """`fail` are the failpoints of machines, by number; `each` gives options of a machine by its name. With `shares` the machines share the
        ranks of the plan out, else each runs all; the last `spares` of them wait until another one is lost."""
        folder.mkdir(exist_ok=True)
        where = host or cluster[0].four or cluster[0].six
        keys = ("--key", key) if key else ()
        whole = () if shares else ("--whole-plan",)
        spare = ("--spares", spares) if spares else ()
        self.begin = lambda machine, fail="", name="", also=(): Node(
            machine, shared, folder, *whole, "--machines", cluster.count - spares, "--machine", machine.number, "--rendezvous", where, *keys,
            *spare, *options, *each(machine.name), *also, fail=fail, name=name, env=env, **more)
        self.shares = shares
        self.nodes = [self.begin(machine, (fail or {}).get(machine.number, "")) for machine in cluster]

    def __getitem__(self, number):
        return self.nodes[number]

    def said(self):
        return "\n".join(f"== {node.name}\n{node.said()}" for node in self.nodes)

    def startAgain(self, number, *also):
        """Starts the command of a machine again, as a scheduler does; the files of its first process stay."""
        self.nodes[number] = self.begin(self.nodes[number].machine, name=f"{self.nodes[number].name}-again", also=also)

    def end(self, seconds=PATIENCE):
        return [node.end(seconds) for node in self.nodes]

    def awaitTraining(self):
        """Waits until all machines have done a step, which machine 0 alone tells of a shared plan."""
        eventually(lambda: all("\nstep 1/" in node.said() for node in self.nodes[:1 if self.shares else None]))


def alone(shared, plan="2.plan", *options, **more):
    """The weights that one machine saves; made once."""
    path = shared / f"alone-{plan}{'-'.join(map(str, options))}-{more.get('steps', STEPS)}.safetensors"
    if not path.exists():
        subprocess.run([str(word) for word in command("--save", path, *options, plan=plan, **more)], cwd=shared, check=True, capture_output=True,
                       timeout=PATIENCE)
    return path.read_bytes()


def share(cluster, shared, folder, *options, **more):
    """A job whose machines share the ranks; machine 0 alone saves."""
    return Job(cluster, shared, folder, *options, shares=True, **more)


def saving(folder):
    """Options of a job that saves into the folder after each third step."""
    return "--checkpoint", folder / "checkpoints", "--every", 3


def awaitSaved(folder, step=3):
    eventually(lambda: (folder / "checkpoints" / f"step-{step:09}").exists())


def checkSaved(job, shared, *options, **plan):
    codes = job.end()
    assert codes == [DONE] * len(codes), job.said()
    assert job[0].weights.read_bytes() == alone(shared, plan.pop("plan"), *options, **plan)
    assert not any(node.weights.exists() for node in job.nodes[1:])


def checkTime(since, most):
    """It has taken at most so many seconds, and what a busy machine adds."""
    assert time.monotonic() - since < most + 5
