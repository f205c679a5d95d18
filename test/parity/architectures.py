"""Architectures of transformers and timm from .pt2 files against PyTorch: the first loss and the first gradients in fp64.

    test/parity/architectures.py                        # all of architecture_list.py that the folder has no result of yet
    test/parity/architectures.py --again refused wrong  # those with such a result once more
    test/parity/architectures.py --only llama CLIPModel
    test/parity/architectures.py --table                # writes docs/architectures.md

Each runs in a process of its own, which is ended after --seconds or beyond --gigabytes. What PyTorch says of it (the
file, the data, the gradients) is kept in --folder, so that it is computed once; results are the lines of results.jsonl
there, of which the last one of a name counts. timm is used without torchvision: pip install --no-deps timm.
"""

import argparse
import json
import logging
import os
import re
import resource
import signal
import subprocess
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import architecture_table
from architecture_models import BATCH, NAMES, build, importTimm, isOfTimm
from reference import GRADIENT_RATE

ROUNDING = 1e-4  # a relative difference below this is none
SPREAD = 3  # and so is one below this times what PyTorch differs from itself


# ===-- PyTorch's side ----------------------------------------------------------===#


class Doubles(TorchFunctionMode):
    """Where a model asks for float32, it gets float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def wide(value):
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            return args[0].double()
        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


def lossOf(scores, loss, labels):
    if loss == "output":
        return scores
    if loss == "mse":
        return functional.mse_loss(scores, labels.to(scores.dtype))
    return functional.cross_entropy(scores.flatten(0, -2), labels.flatten())


def firstGradients(name, loss, labels, dtype=torch.float32, turned=False, nudge=None):
    """The loss and its gradients by name; of the batch turned round, or with each weight changed by one rounding up or down,
    as the seed `nudge` has it."""
    model, inputs = build(name)
    model, inputs = model.to(dtype), {key: t.to(dtype) if t.is_floating_point() else t for key, t in inputs.items()}
    if dtype == torch.float64 and hasattr(getattr(model, "model", None), "set_experts_implementation"):
        model.model.set_experts_implementation("eager")  # grouped products are of narrower floats alone
    if turned:
        inputs = {key: value.flip(0) for key, value in inputs.items()}
        labels = labels if loss == "contrast" else labels.flip(0)
    if nudge is not None:
        random = torch.Generator().manual_seed(nudge)
        with torch.no_grad():
            for parameter in model.parameters():
                sign = torch.randint(0, 2, parameter.shape, generator=random) * 2.0 - 1
                parameter.copy_(parameter.nextafter(sign * float("inf")))
    torch.set_default_dtype(dtype)
    try:
        if dtype == torch.float64:
            with Doubles():
                found = lossOf(model(**inputs), loss, labels)
        else:
            found = lossOf(model(**inputs), loss, labels)
        found.backward()
    finally:
        torch.set_default_dtype(torch.float32)
    return found.item(), {
        key: (torch.zeros_like(p) if p.grad is None else p.grad).double() for key, p in model.named_parameters()}  # fmt: skip


def differences(ours, theirs):
    """Relative to each gradient, or to a small part of the largest where that is more. A gradient that is nothing but
    rounding in fp64, as that of a key's bias is, which moves all scores of a row alike, is compared with the largest."""
    norms = {key: gradient.norm() for key, gradient in theirs.items()}
    largest = max(norms.values())

    def size(key):
        return largest if norms[key] < 1e-12 * largest else max(norms[key], 1e-4 * largest)

    return {key: ((ours[key] - gradient).norm() / size(key)).item() for key, gradient in theirs.items()}


class NotExported(Exception):
    pass


def export(name, path):
    """Writes the .pt2 file; where PyTorch has no export of the usual attention, of the one that is written out."""
    for attention in (None, "eager"):
        model, inputs = build(name)
        if attention:
            model.model.set_attn_implementation(attention)
        try:
            torch.export.save(torch.export.export(model, (), inputs), path)
            return
        except Exception as error:
            if attention or isOfTimm(name):
                raise NotExported(f"{type(error).__name__}: {error}") from error


def prepare(name, folder):
    """Writes what PyTorch says of an architecture into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    model, inputs = build(name)
    scores = model(**inputs)
    random = torch.Generator().manual_seed(2)
    if scores.dim() == 0:
        loss, labels = "output", torch.zeros(BATCH)
    elif scores.shape == (BATCH, BATCH):
        loss, labels = "contrast", torch.arange(BATCH)
    elif scores.dim() < 4 and getattr(model, "output", "logits") in ("logits", "prediction_logits"):
        loss, labels = "cross_entropy", torch.randint(scores.shape[-1], scores.shape[:-1], generator=random)
    else:
        loss, labels = "mse", torch.randn(scores.shape, generator=random)
    exact, gradients = firstGradients(name, loss, labels, torch.float64)
    assert np.isfinite(exact), f"the loss is {exact}"
    assert any(gradient.any() for gradient in gradients.values()), "all gradients are zero; see SEEDS"
    export(name, folder / "model.pt2")
    given = {key: value.numpy() for key, value in inputs.items()}
    np.savez(folder / "data.npz", **given, **({} if loss == "output" else {"labels": labels.numpy()}))
    weights = {key: p.detach() for key, p in model.named_parameters()}
    frozen = not model.training and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    torch.save(dict(loss=loss, labels=labels, frozen=frozen, axis=scores.dim() - 1, exact=exact, gradients=gradients,
                    weights=weights), folder / "reference.pt")  # fmt: skip


def spreads(name, known, path):
    """How far PyTorch in fp32 is from fp64 at most, in a gradient and in the loss."""
    if not path.exists():
        gradient = loss = 0.0
        for how in (dict(), dict(turned=True), *(dict(nudge=seed) for seed in range(4))):
            found, gradients = firstGradients(name, known["loss"], known["labels"], **how)
            gradient = max(gradient, *differences(gradients, known["gradients"]).values())
            loss = max(loss, abs(found - known["exact"]) / abs(known["exact"]))
        path.write_text(json.dumps([gradient, loss]))
    return json.loads(path.read_text())


# ===-- Polyrank's side ---------------------------------------------------------===#


class Refused(Exception):
    pass


def tool(name, *arguments):
    command = [str(Path(os.environ["POLYRANK_BIN"]) / f"polyrank-{name}"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        first = next((at for at, line in enumerate(lines) if "error" in line), 0)
        text = " / ".join(lines[first : first + 6]).replace("error: ", "")
        text = re.sub(r"'?\S*/model\.pt2'?: |the model cannot be imported / ", "", text)
        raise Refused(f"polyrank-{name} ended with {done.returncode}: {text}" if done.returncode != 1 else text)


def compare(name, folder, mesh):
    """What is the matter with one step on this mesh, or None; and the largest difference, with the bound that held."""
    known = torch.load(folder / "reference.pt")
    terms = {"output": "output(output)", "mse": "mse(output,labels)"}
    loss = terms.get(known["loss"], f"cross_entropy(output,labels,axis={known['axis']})")
    plan = folder / "plan"
    tool("compile", folder / "model.pt2", "-o", plan, "--loss", loss, "--optimizer", f"sgd(lr={GRADIENT_RATE:.0f})",
         "--threads", 1, "--zero-threshold", 1, *(("--batch-norm", "frozen") if known["frozen"] else ()),
         *(("--mesh", mesh) if mesh else ()))  # fmt: skip
    tool("run", plan, "--data", folder / "data.npz", "--steps", 1, "--order", "sequential", "--log", folder / "log.jsonl",
         "--save", folder / "after.safetensors")  # fmt: skip
    after = load_file(folder / "after.safetensors")
    missing = [key for key in known["weights"] if key not in after]
    if missing:
        return f"{len(missing)} tensors are not saved: {missing[0]}", 0.0, ROUNDING
    found = {key: (weight.double() - after[key].double()) / GRADIENT_RATE for key, weight in known["weights"].items()}
    apart = differences(found, known["gradients"])
    worst, difference = max(apart.items(), key=lambda item: item[1] if item[1] == item[1] else float("inf"))
    log = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    said = next(entry["loss"] for entry in log if "loss" in entry)
    lossDifference = abs(said - known["exact"]) / abs(known["exact"])
    bound = lossBound = ROUNDING
    if not (difference <= bound and lossDifference <= bound):
        own = spreads(name, known, folder / "spreads.json")
        bound, lossBound = (max(ROUNDING, SPREAD * spread) for spread in own)
    if not lossDifference <= lossBound:
        return f"the loss is {said:.7g} instead of {known['exact']:.7g}", difference, bound
    if difference <= bound:
        return None, difference, bound
    others = sum(not value <= bound for value in apart.values()) - 1
    return f"the gradient of {worst} is {difference:.2g} off and {others} others by more than {bound:.1g}", difference, bound


def measure(name, folder, meshes):
    """The result of one architecture."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if not (folder / "reference.pt").exists():
        try:
            prepare(name, folder)
        except NotExported as error:
            traceback.print_exc()
            return dict(result="not exported", reason=" ".join(str(error).split())[:300])
    largest = dict(difference=0.0)
    for mesh in meshes:
        on = f"{mesh}: " if mesh else ""
        try:
            wrong, difference, bound = compare(name, folder, mesh)
        except Refused as error:
            return dict(result="refused", reason=f"{on}{error}"[:600])
        if wrong:
            return dict(result="wrong", reason=on + wrong, difference=difference, bound=bound)
        if difference >= largest["difference"]:
            largest = dict(difference=difference, bound=bound)
    return dict(result="equal", reason="", **largest)


# ===-- all of them -------------------------------------------------------------===#


def inProcess(name, folder, meshes, options):
    """measure() in a child, which has so much time and memory."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(receive)
        limit = int(options.gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        log = os.open(folder.parent / f"{name}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            found = measure(name, folder, meshes)
        except BaseException as error:
            traceback.print_exc()
            found = dict(result="failed", reason=f"{type(error).__name__}: {error}"[:300])
        os.write(send, json.dumps(found).encode())
        os._exit(0)
    os.close(send)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(options.seconds)
    try:
        with os.fdopen(receive) as pipe:
            text = pipe.read()
    finally:
        os.waitpid(child, 0)
        signal.alarm(0)
    if text:
        return json.loads(text)
    return dict(result="failed", reason=f"more than {options.seconds} s or {options.gigabytes} GB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/polyrank-architectures"))
    parser.add_argument("--only", nargs="*", help="names of architecture_list.py")
    parser.add_argument("--again", nargs="*", default=[], metavar="RESULT", help="measure again what has such a result")
    parser.add_argument("--fresh", action="store_true", help="let PyTorch export again")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--gigabytes", type=float, default=6)
    parser.add_argument("--table", action="store_true", help="measure nothing: write docs/architectures.md")
    options = parser.parse_args()
    os.environ.setdefault("POLYRANK_BIN", str(Path(__file__).resolve().parents[2] / "build/dev/bin"))
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / "results.jsonl"
    known = {}
    if results.exists():
        known = {line["name"]: line for line in map(json.loads, results.read_text().splitlines())}
    if options.table:
        architecture_table.write([known[name] for name in NAMES if name in known])
        return
    torch.set_num_threads(1)
    import transformers

    transformers.logging.set_verbosity_error()
    for at, name in enumerate(NAMES):
        if options.only is not None and name not in options.only:
            continue
        if options.only is None and name in known and known[name]["result"] not in options.again:
            continue
        if isOfTimm(name):
            importTimm()
        folder = options.folder / name
        if options.fresh:
            (folder / "reference.pt").unlink(missing_ok=True)
        start = time.time()
        found = inProcess(name, folder, ("", "data=2") if at % 5 == 0 else ("",), options)
        line = dict(name=name, seconds=round(time.time() - start, 1), **found)
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(name, line["result"], f"{line.get('difference', 0):.1e}", f"{line['seconds']} s", line["reason"], flush=True)


if __name__ == "__main__":
    main()
