#!/usr/bin/env python3
"""Optimizer state between a checkpoint of polyrank-run and torch.optim's state_dict.

  optimizer_state.py to-torch CHECKPOINT OUT.pt --names NAMES [--like FRESH.pt]
  optimizer_state.py from-torch OPTIMIZER.pt CHECKPOINT OUT --names NAMES --step K [--weights WEIGHTS]

docs/weights.md has the rule by which one becomes the other. Needs PyTorch and safetensors, and the library xxHash, which Polyrank
needs too.
"""

import argparse
import ctypes
import ctypes.util
import functools
import json
import os
import shutil
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8,
          "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}
# What torch.optim keeps of each parameter beside tensors like it: a number of steps, where it has any of these.
COUNTED = {"exp_avg", "sum", "square_avg", "row_var", "col_var", "variance"}
# What is no state of torch.optim.
AVERAGE = "ema"


class Wrong(Exception):
    """The user's input is; the message says how."""


# Checkpoints: runtime/checkpoint/Manifest.h.

class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@functools.cache  # to find it takes a process
def xxhash():
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits.argtypes = library.XXH3_128bits.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.XXH3_64bits.restype, library.XXH3_128bits.restype = ctypes.c_uint64, Hash
    return library


def digestOf(text):
    found = xxhash().XXH3_128bits(text, len(text))
    return f"{found.high:016x}{found.low:016x}"


def checksumsOf(tensor, block):
    """XXH3 of each block of a tensor's bytes."""
    tensor, library = tensor.contiguous(), xxhash()
    size = tensor.numel() * tensor.element_size()
    return [f"{library.XXH3_64bits(tensor.data_ptr() + at, min(block, size - at)):016x}" for at in range(0, size, block)]


class Checkpoint:
    """The tensors of a checkpoint, each whole: (role, name) -> tensor, role being model or state."""

    def __init__(self, folder):
        self.folder = Path(folder)
        try:
            text = (self.folder / "manifest.json").read_bytes()
        except OSError as error:
            raise Wrong(f"{folder}: is no checkpoint: {error.strerror}: manifest.json") from None
        begin = text.find(b'"manifest":') + len(b'"manifest":')
        body = text[begin:].rstrip(b"\n")[:-1]
        if json.loads(text)["digest"] != digestOf(body):
            raise Wrong(f"{folder}/manifest.json: is damaged, or not of a checkpoint: its digest differs")
        self.manifest = json.loads(body)
        if self.manifest["version"] != 1:
            raise Wrong(f"{folder}: is a checkpoint of version {self.manifest['version']}, and this script knows version 1")
        self.entries, self.tensors = {}, {}
        files = [safe_open(self.folder / file["name"], "pt") for file in self.manifest["files"]]
        for entry in self.manifest["tensors"]:
            key = ("state" if entry["role"] == "state" else "model", entry["name"])
            self.entries[key], self.tensors[key] = entry, self.read(entry, files)

    def read(self, entry, files):
        whole = torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]])
        for chunk in entry["chunks"]:
            part = files[chunk["file"]].get_tensor(chunk["key"])
            if checksumsOf(part, self.manifest["checksum_block"]) != chunk["xxh3"]:
                raise Wrong(f"{self.folder}: tensor '{entry['name']}' is damaged: a checksum differs")
            place = tuple(slice(begin, begin + size) for begin, size in zip(chunk["offsets"], chunk["sizes"]))
            whole[place] = part.reshape(chunk["sizes"])
        return whole

    def parameters(self):
        """Names of what is trained."""
        return {name for (_, name), entry in self.entries.items() if entry["role"] == "parameter"}

    def stateOf(self, parameter):
        """Suffix -> name of the state's tensor."""
        return {entry["suffix"]: name for (kind, name), entry in self.entries.items()
                if kind == "state" and entry["parameter"] == parameter}

    def counters(self):
        """The names of the number of updates, if steps may be skipped, and of that of steps."""
        return [name for suffix in ("updates", "step") for (kind, name), entry in self.entries.items()
                if kind == "state" and not entry["parameter"] and entry["suffix"] == suffix]

    def write(self, out, step):
        """A new checkpoint with these tensors in one file: beside `out`, which it becomes at once."""
        out = Path(out)
        if out.exists():
            raise Wrong(f"{out}: exists; give another name, or remove it first")
        block, name = self.manifest["checksum_block"], "shard-00001-of-00001.safetensors"
        temporary = out.with_name(f".tmp-{out.name}.{os.getpid()}")
        out.parent.mkdir(exist_ok=True)
        temporary.mkdir()
        try:
            stored = {}
            for (kind, tensor), entry in self.entries.items():
                value = self.tensors[kind, tensor].contiguous().clone()
                entry["chunks"] = []
                if value.numel():
                    key = tensor if kind == "model" else f"state {tensor}"
                    stored[key] = value
                    entry["chunks"] = [{"file": 0, "key": key, "offsets": [0] * value.dim(), "sizes": list(value.shape),
                                        "xxh3": checksumsOf(value, block)}]
            save_file(stored, temporary / name)
            self.manifest.update(step=step, program="optimizer_state.py", metrics={},
                                 files=[{"name": name, "bytes": (temporary / name).stat().st_size}])
            body = json.dumps(self.manifest, indent=1).encode()
            (temporary / "manifest.json").write_bytes(
                b'{"digest":"' + digestOf(body).encode() + b'","manifest":' + body + b"}\n")
            for path in (*temporary.iterdir(), temporary):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            temporary.rename(out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


# Names.

def namesFrom(path, checkpoint, aliases):
    """The checkpoint's names of the optimizer's parameters, in its order."""
    known = checkpoint.parameters()
    if path.endswith((".pt", ".pth")):
        names, seen = [], {}
        for name, tensor in torch.load(path, weights_only=True).items():
            # A tied tensor has several names, and one place.
            place = seen.setdefault((tensor.data_ptr(), tensor.shape) if tensor.numel() else name, [])
            if not place:
                names.append(place)
            place.append(name)
        return [next(name for name in tied if name in known) for tied in names if any(name in known for name in tied)]
    names = [aliases.get(name, name) for name in Path(path).read_text().split()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Wrong(f"{path}: names {', '.join(twice)} twice")
    return names


def checkNames(names, checkpoint, path):
    known = checkpoint.parameters()
    unknown = [name for name in names if name not in known]
    missing = sorted(known - set(names))
    if unknown or missing:
        raise Wrong(f"{path}: " + "; ".join(
            ([f"the checkpoint trains no {', '.join(unknown)}"] if unknown else []) +
            ([f"does not name {', '.join(missing)}, which the checkpoint trains"] if missing else [])) +
            "; of tied parameters give --alias NAME=THE_CHECKPOINTS_NAME, or a state_dict (.pt) as --names")


# Both ways.

def toTorch(options):
    checkpoint = Checkpoint(options.checkpoint)
    names = namesFrom(options.names, checkpoint, options.aliases)
    checkNames(names, checkpoint, options.names)
    counters = checkpoint.counters()
    steps = int(checkpoint.tensors["state", counters[0]]) if counters else checkpoint.manifest["step"]
    state, averages = {}, False
    for index, name in enumerate(names):
        kept = {suffix: checkpoint.tensors["state", tensor] for suffix, tensor in checkpoint.stateOf(name).items()}
        averages |= kept.pop(AVERAGE, None) is not None
        if kept:
            state[index] = ({"step": torch.tensor(float(steps))} if COUNTED & kept.keys() else {}) | kept
    groups = [{"params": list(range(len(names)))}]
    if options.like:
        like = torch.load(options.like, weights_only=True)
        groups = like["param_groups"]
        order = [index for group in groups for index in group["params"]]
        if sorted(order) != list(range(len(names))):
            raise Wrong(f"{options.like}: is of an optimizer with {len(order)} parameters, and {options.names} names {len(names)}")
    torch.save({"state": state, "param_groups": groups}, options.out)
    print(f"wrote {options.out}: {len(names)} parameters after {steps} steps, with "
          f"{', '.join(sorted({key for kept in state.values() for key in kept})) or 'no state'}")
    if averages:
        print("moving means (ema) are not among them: torch.optim keeps none")
    if not options.like:
        print("its groups have no options: give --like with torch.save(optimizer.state_dict(), ..) of a new optimizer to have them")


def weightsFrom(path):
    """Name -> tensor, from a state_dict or safetensors."""
    if path.endswith((".pt", ".pth")):
        return torch.load(path, weights_only=True)
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def put(checkpoint, key, value, what):
    entry = checkpoint.entries[key]
    if list(value.shape) != entry["shape"]:
        raise Wrong(f"{what} has shape {list(value.shape)}, and the checkpoint's '{entry['name']}' {entry['shape']}")
    checkpoint.tensors[key] = value.detach().to(DTYPES[entry["dtype"]])


def fromTorch(options):
    checkpoint = Checkpoint(options.checkpoint)
    names = namesFrom(options.names, checkpoint, options.aliases)
    checkNames(names, checkpoint, options.names)
    given = torch.load(options.optimizer, weights_only=True)
    order = [index for group in given["param_groups"] for index in group["params"]]
    if sorted(order) != list(range(len(names))):
        raise Wrong(f"{options.optimizer}: has {len(order)} parameters, and {options.names} names {len(names)}")
    averages, updates = False, options.step
    counters = checkpoint.counters()
    for index, name in enumerate(names):
        kept, theirs = checkpoint.stateOf(name), dict(given["state"].get(index, {}))
        averages |= kept.pop(AVERAGE, None) is not None
        steps = theirs.pop("step", None)
        theirs = {suffix: value for suffix, value in theirs.items() if value is not None}
        if steps is not None and len(counters) == 2 and int(steps) <= options.step and (index == 0 or int(steps) == updates):
            updates = int(steps)  # steps may have been skipped
        elif steps is not None and int(steps) != options.step:
            raise Wrong(f"{options.optimizer}: '{name}' was updated {int(steps)} times, and --step is {options.step}")
        if kept.keys() != theirs.keys():
            raise Wrong(f"'{name}': the checkpoint's optimizer keeps {', '.join(sorted(kept)) or 'nothing'}, and "
                        f"{options.optimizer} has {', '.join(sorted(theirs)) or 'nothing'}: they are two optimizers, or have other options")
        for suffix, tensor in kept.items():
            put(checkpoint, ("state", tensor), theirs[suffix], f"{options.optimizer}: {suffix} of '{name}'")
    for counter, count in zip(reversed(counters), (options.step, updates)):
        checkpoint.tensors["state", counter].fill_(count)
    if options.weights:
        weights = weightsFrom(options.weights)
        given = {options.aliases.get(name, name): value for name, value in weights.items()}
        missing = sorted(name for kind, name in checkpoint.entries if kind == "model" and name not in given)
        if missing:
            raise Wrong(f"{options.weights}: has no {', '.join(missing)}")
        for kind, name in checkpoint.entries:
            if kind == "model":
                put(checkpoint, (kind, name), given[name], f"{options.weights}: '{name}'")
    checkpoint.write(options.out, options.step)
    print(f"wrote {options.out}: step {options.step}, {len(names)} parameters")
    if averages:
        print("moving means (ema) are as they were in the checkpoint: torch.optim keeps none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    to, back = ways.add_parser("to-torch"), ways.add_parser("from-torch")
    to.add_argument("checkpoint", help="a folder step-..")
    to.add_argument("out", help="what torch.load(.., weights_only=True) and optimizer.load_state_dict take")
    to.add_argument("--like", help="state_dict of a new optimizer, for the options of its groups")
    back.add_argument("optimizer", help="torch.save(optimizer.state_dict(), ..)")
    back.add_argument("checkpoint", help="one of the same model and optimizer, such as of one step")
    back.add_argument("out", help="the new checkpoint: a folder DIR/step-000000100, which must not exist")
    back.add_argument("--step", type=int, required=True, help="how many steps were done")
    back.add_argument("--weights", help="of the model: safetensors or a state_dict (.pt); else the checkpoint's")
    for each in (to, back):
        each.add_argument("--names", required=True, help="names of the optimizer's parameters in its order, one a line, or the model's "
                          "state_dict (.pt)")
        each.add_argument("--alias", action="append", default=[], help="NAME=THE_CHECKPOINTS_NAME, of a tied parameter; repeatable")
    options = parser.parse_args()
    try:
        options.aliases = dict(alias.split("=", 1) for alias in options.alias)
        (toTorch if options.way == "to-torch" else fromTorch)(options)
    except (Wrong, OSError, ValueError) as error:
        sys.exit(f"optimizer_state.py: {error}")


if __name__ == "__main__":
    main()
