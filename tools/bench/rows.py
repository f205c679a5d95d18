"""The rows of the benchmark, and how one is measured.

All contenders of a row are ready before the first turn. Then each takes one turn in every round, so that
whatever else the machine does meets them all; what counts is the least time of a step over all rounds.
"""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import contenders
import numpy as np
import workload
from contenders import Failed

LOSSES = 1e-4  # relative
LOW_LOSSES = 2.0**-8  # of bf16 and fp16: an ulp of bf16
BEFORE = "ours before"  # the tools of --against
PARTS = "ours in parts"  # attention by products and kernels
WIDE = "ours in fp32"
LOGITS = dict(rtol=1e-3, atol=1e-4)


@dataclass(frozen=True)
class Row:
    title: str
    peers: tuple
    ranks: int = 1
    threads: int = 1
    model: str = "gpt2"
    mode: str = "train"
    perRank: bool = False  # whether --batch is the batch of each rank
    mib: int = 0  # of an all-reduce
    attention: str = ""  # the type of the elements of attention's call alone, forward and backward
    shards: tuple = ()  # --shard of ours
    zero: int = 1  # our stage of ZeRO
    microbatches: int = 0  # of a pipeline, of half of --batch each
    schedule: str = "1f1b"  # ours
    batch: int = 0  # instead of --batch
    length: int = 0  # of a sequence, instead of --length
    precision: str = "fp32"  # of ours, and of PyTorch's autocast

    @property
    def isStep(self):
        """Whether steps of a model are measured."""
        return not self.mib and not self.attention and self.mode != "save"


# Half of each matrix's columns on each rank: short runs that interleave in the file.
GPT2_COLUMNS = tuple(f"*.{name}.weight=[-,tensor]" for name in ("c_attn", "c_fc")) + ("*wte.weight=[-,tensor]",)
COLUMNS = ("*.weight=[-,tensor]",)
# Half of the experts on each rank.
EXPERTS = tuple(f"*.experts.{name}=[data,-,-]" for name in ("gate_up_proj", "down_proj"))

ROWS = {
    "one-thread": Row("1 rank, 1 thread", ("PyTorch eager",)),
    "two-threads": Row("1 rank, 2 threads", ("torch.compile", "PyTorch eager"), threads=2),
    "two-ranks": Row("2 ranks x 1 thread", ("DDP over gloo",), ranks=2),
    "two-ranks-wide": Row("2 ranks x 1 thread", ("DDP over gloo",), ranks=2, perRank=True),
    "zero-three": Row("2 ranks x 1 thread, parameters in parts", ("FSDP2 over gloo", "DDP over gloo"), ranks=2, zero=3),
    "pipeline": Row("2 stages, 8 microbatches", ("torch pipelining over gloo", "ours in one process"), ranks=2, zero=0,
                    microbatches=8),
    "pipeline-zero-bubble": Row("2 stages, 8 microbatches, zero-bubble", ("torch pipelining over gloo", "ours in one process"),
                                ranks=2, zero=0, microbatches=8, schedule="zero-bubble"),
    "jax": Row("2 ranks", ("JAX",), ranks=2),
    "forward": Row("forward, 2 threads", ("onnxruntime",), threads=2, mode="forward"),
    "resnet": Row("ResNet, 2 threads", ("torch.compile", "torch.compile, channels last"), threads=2, model="resnet"),
    "lstm": Row("LSTM, 1 thread", ("PyTorch eager",), model="lstm"),
    "lstm-two": Row("LSTM, 2 ranks x 1 thread", ("DDP over gloo",), ranks=2, model="lstm"),
    "experts": Row("mixture of experts, 1 thread", ("PyTorch eager",), model="experts"),
    "experts-two": Row("mixture of experts, 2 ranks x 1 thread, experts apart", ("DDP over gloo",), ranks=2, model="experts",
                       shards=EXPERTS),
    "experts-onnx": Row("mixture of experts from ONNX, 1 thread", ("PyTorch eager",), model="experts-onnx"),
    "gpt2-long": Row("1 rank, 1 thread", ("PyTorch eager", PARTS), batch=1, length=1024),
    "attention": Row("causal attention, 1 thread", ("PyTorch eager", PARTS), model="attention-causal", batch=2, length=2048),
    "attention-all": Row("attention of all pairs, 1 thread", ("PyTorch eager", PARTS), model="attention-all", batch=2, length=2048),
    "attention-groups": Row("causal attention, 4 heads of keys, 1 thread", ("PyTorch eager", PARTS), model="attention-groups",
                            batch=2, length=2048),
    "precision": Row("bf16, 1 rank, 1 thread", ("autocast", "autocast, torch.compile", WIDE), precision="bf16"),
    "precision-wide": Row("bf16, 1 rank, 1 thread", ("autocast", "autocast, torch.compile", WIDE), precision="bf16", batch=8,
                          length=128),
    "precision-two": Row("bf16, 2 ranks x 1 thread", ("DDP over gloo, autocast", WIDE), ranks=2, precision="bf16"),
    "precision-fp16": Row("fp16, 1 rank, 1 thread", (WIDE,), precision="fp16"),
    "attention-bf16": Row("causal attention of bf16, the call alone, 1 thread", ("PyTorch bf16",), attention="bf16", batch=1,
                          length=4096),
    "save": Row("saving, 2 ranks by columns", ("the disk alone",), ranks=2, mode="save", shards=GPT2_COLUMNS),
    "save-four": Row("saving, 4 ranks by columns", ("the disk alone",), ranks=4, mode="save", shards=GPT2_COLUMNS),
    "save-transposed": Row("saving, 2 ranks by columns", ("the disk alone",), ranks=2, mode="save", model="matrices",
                           shards=COLUMNS),
    "save-transposed-four": Row("saving, 4 ranks by columns", ("the disk alone",), ranks=4, mode="save",
                                model="matrices", shards=COLUMNS),
    "all-reduce-4": Row("all-reduce", ("torch.distributed gloo",), ranks=2, mib=4),
    "all-reduce-64": Row("all-reduce", ("torch.distributed gloo",), ranks=2, mib=64),
}


def workOf(row, args, folder):
    """The row's workload (workload.py)."""
    batch = row.batch or args.batch * (row.ranks if row.perRank else 1)
    kind = row.model.split("-")[0]
    if row.model != "gpt2" and hasattr(args, f"{kind}_batch"):
        batch = getattr(args, f"{kind}_batch")
    if row.microbatches:
        batch = row.microbatches * max(1, args.batch // 2)
    sizes = ("layers", "heads", "width", "vocab", "context", "length", "depths", "image", "classes")
    work = SimpleNamespace(
        model=row.model, mode=row.mode, shards=row.shards, ranks=row.ranks, threads=row.threads, batch=batch, steps=args.steps,
        mib=row.mib, attention=row.attention, zero=row.zero, microbatches=row.microbatches, schedule=row.schedule,
        precision=row.precision,
        folder=str(folder), **{name: getattr(args, name) for name in sizes})
    if row.length and not args.small:
        work.length = row.length
        work.context = max(work.context, row.length)
    if row.model == "resnet":
        work.width = args.resnet_width
    elif row.model in workload.LANGUAGES:
        work.width = getattr(args, f"{kind}_width")
    elif row.model == "matrices":
        work.width = 4 * args.width
    return work


def writeFiles(work):
    """What all contenders of a row read: the model, its weights and the batches. Returns its parameters."""
    folder = Path(work.folder)
    model = workload.build(work)
    work.onnx = str(folder / f"{work.model}.{'pt2' if work.model in ('lstm', 'experts', *workload.ATTENTIONS) else 'onnx'}")
    workload.export(work, model, work.onnx)
    np.savez(folder / "data.npz", **workload.draw(work))
    # Of tied weights one name, for who does not build the model with PyTorch.
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    np.savez(folder / "weights.npz", **weights)
    return sum(weight.size for weight in weights.values())


def disagreement(name, ours, theirs, precision):
    """What differs between two runs' losses, in words, or nothing."""
    limit = LOSSES if precision == "fp32" else LOW_LOSSES
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True), 1):
        if not abs(a - b) <= limit * abs(b):
            return f"the losses of step {step} differ: ours {a:.9g}, {name} {b:.9g}"
    return None


def logitsDisagreement(ours, theirs):
    if ours.shape != theirs.shape:
        return f"the logits' shapes differ: ours {ours.shape}, onnxruntime {theirs.shape}"
    if np.allclose(ours, theirs, **LOGITS):
        return None
    at = np.unravel_index(np.abs(ours - theirs).argmax(), ours.shape)
    return f"the logits differ, most at {list(map(int, at))}: ours {ours[at]:.7g}, onnxruntime {theirs[at]:.7g}"


def floorOf(work, parameters, turns, rate):
    """The parts of the floor in seconds, from all turns of the floor's worker and our all-reduce's rate."""
    least = np.min([turn["products"] for turn in turns], axis=0)
    bandwidth = max(turn["bytes_per_second"] for turn in turns)
    flops = seconds = position = 0
    for m, k, n, times, passes in workload.products(work):
        flops += 2 * m * k * n * times * passes
        seconds += times * float(sum(least[position:position + passes]))
        position += passes
    parts = {"flops": flops, "flops_per_second": flops / seconds, "bytes_per_second": bandwidth, "products": seconds}
    if work.mode == "train":
        # AdamW reads the weight, its gradient and two moments and writes three of them; SGD reads two, writes one.
        parts["optimizer"] = (28 if work.model == "gpt2" else 12) * parameters / bandwidth
        if work.ranks > 1 and rate:
            parts["all_reduce_bytes_per_second"] = rate
            parts["collectives"] = 4 * parameters / rate
    parts["seconds"] = sum(parts.get(part, 0) for part in ("products", "optimizer", "collectives"))
    return parts


def start(stack, worker):
    """Waits until the worker is ready; it ends with the row."""
    stack.callback(worker.close)
    worker.awaitReady()
    return worker.turn


def oursOf(row, work, bin, label=""):
    if row.mib:
        return contenders.communicator(row.mib, row.ranks, bin)
    if row.attention:
        return contenders.attention(work, bin)
    if row.mode == "save":
        return contenders.polyrankSave(work, row.shards, bin, label)
    return contenders.polyrank(work, bin, row.ranks if row.microbatches else 1, label)


def contendersOf(row, work, args, stack, errors):
    """name -> turn, ours first; and what went wrong with the others."""
    turns = {"ours": oursOf(row, work, args.bin)}
    for name in row.peers:
        try:
            if name == BEFORE:
                turns[name] = oursOf(row, work, args.against, "before-")
                continue
            if name == "the disk alone":
                turns[name] = contenders.disk(work)
                continue
            if name == PARTS:
                turns[name] = contenders.polyrank(work, args.bin, label="parts-", options=("--attention", "parts"))
                continue
            if name == WIDE:
                turns[name] = contenders.polyrank(SimpleNamespace(**{**vars(work), "precision": "fp32"}), args.bin, label="wide-")
                continue
            if name == "ours in one process":
                # On as many cores.
                turns[name] = contenders.polyrank(SimpleNamespace(**{**vars(work), "threads": work.ranks * work.threads}),
                                                  args.bin)
                continue
            if not contenders.isInstalled(name):
                raise Failed("not installed")
            turns[name] = start(stack, contenders.peer(name, work))
        except Failed as error:
            errors[name] = str(error)
    if row.isStep:
        try:
            if row.ranks > 1 and not row.microbatches:
                turns["all-reduce"] = contenders.communicator(64, row.ranks, args.bin)
            turns["floor"] = start(stack, contenders.Worker("the floor", "floor", work, row.ranks))
        except Failed as error:
            errors["floor"] = str(error)
    return turns


def takeTurns(row, turns, args, errors, say):
    """name -> the answers of all rounds. Who fails is out, and so is the row if it is us."""
    answers = {name: [] for name in turns}
    for number in range(1, args.rounds + 1):
        said = []
        for name in [name for name in turns if name not in errors]:
            repeats = not row.isStep or name == "all-reduce"
            try:
                answer = turns[name](10 * args.steps if repeats and not row.attention else args.steps)
            except Failed as error:
                if name == "ours":
                    raise
                errors["floor" if name == "all-reduce" else name] = str(error)
                continue
            # The first step of a turn does not count (page faults, caches).
            answer["least"] = min(answer["seconds"][0 if repeats else 1:], default=None)
            answers[name].append(answer)
            if name in row.peers:
                if difference := disagreement(name, answers["ours"][-1]["losses"], answer["losses"],
                                                  row.precision):
                    errors[name] = difference
            if answer["least"]:
                said.append(f"{name} {1e3 * answer['least']:.4g} ms")
        say(f"round {number}: {', '.join(said)}")
    return answers


def leastOf(answers):
    return min(answer["least"] for answer in answers)


def measure(row, args, folder, say):
    """One entry of the result per peer of the row; with --against of ours alone, as it was."""
    if args.against:
        row = replace(row, peers=(BEFORE,))
    for stale in folder.iterdir():
        stale.unlink()
    work, errors, floor = workOf(row, args, folder), {}, None
    with contextlib.ExitStack() as stack:
        try:
            parameters = 0 if row.mib or row.attention else writeFiles(work)
            turns = contendersOf(row, work, args, stack, errors)
            if row.mode == "forward":
                ours = contenders.polyrankLogits(work, args.bin)
                for name in row.peers:
                    if name not in errors and name != BEFORE and (difference := logitsDisagreement(ours, np.load(folder / "theirs.npy"))):
                        errors[name] = difference
            answers = takeTurns(row, turns, args, errors, say)
        except Failed as error:
            return [{**entryOf(row, work, name), "error": str(error)} for name in row.peers]
    if "floor" in turns and "floor" not in errors:
        rate = 2**26 / leastOf(answers["all-reduce"]) if "all-reduce" in answers else None
        floor = floorOf(work, parameters, answers["floor"], rate)
    return [resultOf(row, work, name, answers, errors, floor) for name in row.peers]


def hasTokens(row):
    return row.attention or row.model in ("gpt2", *workload.LANGUAGES, *workload.ATTENTIONS)


def entryOf(row, work, name):
    """What is measured: the same whether it works or not."""
    if row.mib:
        size = f"{row.mib} MiB"
    elif row.mode == "save":
        size = f"{workload.MATRICES} matrices stored transposed" if row.model == "matrices" else "GPT-2's weights"
    else:
        size = f"batch {work.batch} x " + (f"{work.length}" if hasTokens(row) else f"3 x {work.image} x {work.image}")
    return {"row": f"{row.title}, {size}", "peer": name}


def resultOf(row, work, name, answers, errors, floor):
    ours = leastOf(answers["ours"])
    if row.mib or row.mode == "save":
        amount, unit = (row.mib * 2**20 if row.mib else work.savedBytes) / 1e9, "GB/s"
    else:
        amount, unit = (work.batch * work.length, "tokens/s") if hasTokens(row) else (work.batch, "samples/s")
    entry = {**entryOf(row, work, name), "ours_seconds": ours, "rate": amount / ours, "unit": unit}
    if floor:
        entry.update(floor_seconds=floor["seconds"], floor=floor)
    elif "floor" in errors:
        entry["floor_error"] = errors["floor"]
    if name in errors:
        entry["error"] = errors[name]
    else:
        theirs = leastOf(answers[name])
        entry.update(peer_seconds=theirs, ratio=theirs / ours)
    entry["turns"] = {who: [{key: answer[key] for key in ("seconds", "losses")} for answer in answers[who]]
                      for who in ("ours", name) if who in answers}
    return entry
