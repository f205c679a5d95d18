"""Who takes turns in a row: our tools, one process a turn, and the workers of peers/.

A contender is a function `turn(steps)` that returns `seconds` and `losses` of all steps.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import workload

PEERS = Path(__file__).resolve().parent / "peers"

# Name in the table: worker, package that it needs, and what its workload has besides.
KNOWN = {
    "PyTorch bf16": ("attention", "torch", {}),
    "PyTorch eager": ("pytorch", "torch", {}),
    "torch.compile": ("pytorch", "torch", {"compiled": True}),
    "torch.compile, channels last": ("pytorch", "torch", {"compiled": True, "channelsLast": True}),
    "autocast": ("pytorch", "torch", {}),
    "autocast, torch.compile": ("pytorch", "torch", {"compiled": True}),
    "DDP over gloo": ("pytorch", "torch", {}),
    "DDP over gloo, autocast": ("pytorch", "torch", {}),
    "FSDP2 over gloo": ("pytorch", "torch", {"sharded": True}),
    "torch pipelining over gloo": ("pipelining", "torch", {}),
    "JAX": ("jax_gpt2", "jax", {}),
    "onnxruntime": ("onnx_runtime", "onnxruntime", {}),
    "torch.distributed gloo": ("gloo", "torch", {}),
}


class Failed(Exception):
    """A contender that did not do its turn; the text says which and why."""


def isInstalled(name):
    return importlib.util.find_spec(KNOWN[name][1]) is not None


def lastLine(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()


class Worker:
    """The processes of one peer; the first one's answers count. With `machines` (test/cluster/machines.py) each is on one of them."""

    def __init__(self, name, script, work, processes=1, machines=()):
        label = "".join(letter if letter.isalnum() else "-" for letter in name)
        self.name, self.processes, self.logs = name, [], []
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0" if machines else "lo", "PYTHONWARNINGS": "ignore",
                       "OMP_NUM_THREADS": str(work.threads), "MKL_NUM_THREADS": str(work.threads)}
        for rank in range(processes):
            self.logs.append(Path(work.folder) / f"{label}-{rank}.log")
            spec = json.dumps({"compiled": False, "channelsLast": False, "sharded": False, **vars(work), "rank": rank,
                               "name": label})
            command = [sys.executable, PEERS / f"{script}.py", spec]
            self.processes.append(subprocess.Popen(
                machines[rank].enter(*command) if machines else command, env=environment, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self.logs[-1].open("w")))

    def answers(self):
        answers = [process.stdout.readline() for process in self.processes]
        for answer, log in zip(answers, self.logs):
            if not answer:
                raise Failed(f"{self.name} ended: {lastLine(log.read_text())}")
        return [json.loads(answer) for answer in answers]

    def awaitReady(self):
        self.answers()

    def turn(self, steps):
        for process in self.processes:
            process.stdin.write(f"run {steps} steps\n")
            process.stdin.flush()
        return self.answers()[0]

    def close(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()


def peer(name, work, machines=()):
    """A worker of KNOWN, which may still be starting."""
    script, _, more = KNOWN[name]
    one = script in ("jax_gpt2", "onnx_runtime")  # all ranks in one process
    return Worker(name, script, type(work)(**{**vars(work), **more}), 1 if one else work.ranks, machines)


def run(command):
    tool = Path(command[0])
    if not tool.exists():
        raise Failed(f"{tool.name} is not in {tool.parent}")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{tool.name} ended with {done.returncode}: {lastLine(done.stderr)}")
    return done.stdout


def shardOptions(shards):
    return [word for shard in shards for word in ("--shard", shard)]


def lossOf(work):
    """--loss of a model."""
    if work.model in workload.ATTENTIONS:
        return "mse(output,labels)"
    return "cross_entropy(output,labels,axis=2)" if work.model in workload.LANGUAGES else "cross_entropy(logits,labels)"


def compilePlan(work, bin, plan, mesh, *options):
    """Compiles the exported model for a mesh."""
    if work.mode == "forward":
        options += ("--mode", "forward")
    else:
        options += ("--loss", lossOf(work), "--optimizer",
                    f"adamw(lr={workload.GPT2_RATE})" if work.model == "gpt2" else f"sgd(lr={workload.RESNET_RATE})")
    if work.model == "resnet":
        options += ("--batch-norm", "batch")
    run([bin / "polyrank-compile", work.onnx, "-o", plan, "--mesh", mesh, "--threads", work.threads,
         "--precision", work.precision, "--zero", work.zero, "--microbatches", max(1, work.microbatches), *shardOptions(work.shards), *options])


def logged(log):
    """What a turn returns, of the file that polyrank-run --log has written."""
    entries = [entry for entry in map(json.loads, log.read_text().splitlines()) if "step" in entry]
    return {"seconds": [e["seconds"] for e in entries], "losses": [e["loss"] for e in entries if "loss" in e]}


def polyrank(work, bin, stages=1, label="", options=()):
    """Compiles the exported model; a turn is one run of it. With microbatches, on a pipeline of so many stages. Files
    of contenders with different labels do not meet."""
    folder = Path(work.folder)
    plan, log, data = folder / f"{label}plan-{stages}", folder / f"{label}log.jsonl", folder / "data.npz"
    mesh = f"data={work.ranks}"
    if work.microbatches:
        mesh = f"pipe={stages}" if stages > 1 else "data=1"
    if stages > 1:
        options = (*options, "--schedule", work.schedule)
    compilePlan(work, bin, plan, mesh, *options)

    def turn(steps):
        log.unlink(missing_ok=True)
        run([bin / "polyrank-run", plan, "--data", data, "--steps", steps, "--order", "sequential", "--log", log])
        return logged(log)

    return turn


def polyrankLogits(work, bin):
    """What a forward plan computes from the first batch."""
    folder = Path(work.folder)
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(inputs, **{workload.INPUT[work.model]: workload.batches(work)[0][0]})
    run([bin / "polyrank-run", folder / "plan-1", "--inputs", inputs, "--outputs", outputs])
    return np.load(outputs)["logits"]


def polyrankSave(work, shards, bin, label=""):
    """Trains one step on matrices that are split as `shards` say; a turn takes the time of saving them."""
    folder = Path(work.folder)
    plan, saved = folder / f"{label}plan", folder / f"{label}ours.safetensors"
    run([bin / "polyrank-compile", work.onnx, "-o", plan, "--mesh", f"tensor={work.ranks}",
         *shardOptions(shards), "--optimizer", "sgd(lr=1e-3)",
         "--loss", "mse(y,labels)" if work.model == "matrices" else "cross_entropy(logits,labels)"])

    def turn(_):
        report = json.loads(run([bin / "polyrank-run", plan, "--data", folder / "data.npz", "--steps", 1, "--save", saved,
                                 "--json"]))
        work.savedBytes = report["saved_bytes"]
        return {"seconds": [report["save_seconds"]], "losses": []}

    return turn


def disk(work):
    """What the file system takes for as many bytes in large pieces, made durable and put in place of the last ones."""
    folder = Path(work.folder)
    piece = memoryview(np.random.default_rng(0).bytes(32 << 20))

    def turn(_):
        start = time.perf_counter()
        with open(folder / "theirs.partial", "wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, work.savedBytes)
            for begin in range(0, work.savedBytes, len(piece)):
                file.write(piece[:work.savedBytes - begin])
            os.fsync(file.fileno())
        os.replace(folder / "theirs.partial", folder / "theirs")
        return {"seconds": [time.perf_counter() - start], "losses": []}

    return turn


def communicator(mib, ranks, bin):
    """Our all-reduce; a turn is one run of so many repetitions, of which it returns the least time."""
    def turn(repeats):
        answer = json.loads(run([bin / "polyrank-bench-allreduce", "--mib", mib, "--ranks", ranks,
                                 "--repeats", repeats]))
        return {"seconds": [answer["least_ms"] / 1e3], "median": answer["median_ms"] / 1e3, "losses": []}

    return turn


def attention(work, bin):
    """Our call of attention and its gradient; a turn is one run of so many repetitions."""
    def turn(repeats):
        answer = json.loads(run([bin / "polyrank-bench-attention", "--type", work.attention, "--heads", work.heads, "--length", work.length,
                                 "--width", work.width // work.heads, "--threads", work.threads, "--repeats", repeats]))
        return {"seconds": [sum(pair) for pair in zip(answer["forward_seconds"], answer["backward_seconds"])], "losses": []}

    return turn
