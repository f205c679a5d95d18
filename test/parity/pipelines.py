"""The table of pipelines: every two values of any two options meet in a row."""

import itertools
import random

from cases import GPT2_SEQUENCE, GPT2_TENSOR, LLAMA_SEQUENCE, LLAMA_TENSOR, RESNET50_TENSOR
from tools import Case

TENSOR = {"gpt2-deep": GPT2_TENSOR, "llama-deep": LLAMA_TENSOR, "resnet50": RESNET50_TENSOR,
          "translator": ("*.up.weight=[tensor,-]",)}
SEQUENCE = {"gpt2-deep": GPT2_SEQUENCE, "llama-deep": LLAMA_SEQUENCE}
CHUNKS = {"interleaved": 2, "zero-bubble-v": 2}
OPTIONS = {
    "model": ["gpt2-deep", "llama-deep", "resnet50", "translator"],
    "mesh": ["pipe=2", "pipe=4", "data=2,pipe=2", "tensor=2,pipe=2", "data=2,tensor=2,pipe=2", "data=2,pipe=4", "pipe=8"],
    "schedule": ["gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v"],
    "zero": [0, 1, 2, 3],
    "recompute": ["", "selective", "full"],
    "microbatches": [1, 2, 3, 8],
    "sequence": [False, True],
    "clip": [0, 0.5],
}


def isPossible(row):
    """Of whole rows, and of parts."""
    has = row.get
    # ResNet-50's fp32 gradients jump with any other data (models.py).
    if has("model") == "resnet50" and has("microbatches", 1) != 1:
        return False
    # One microbatch at a time on the ranks of a small machine.
    if has("mesh") in ("pipe=8", "data=2,pipe=4", "data=2,tensor=2,pipe=2") and has("model") == "resnet50":
        return False
    if has("sequence") and not ("tensor" in has("mesh", "tensor") and has("model", "gpt2-deep") in SEQUENCE):
        return False
    return True


def drawRows():
    """Greedily: of some random rows always the one with the most pairs that no row has yet."""
    names, draws = list(OPTIONS), random.Random(5)
    pairs = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in OPTIONS[a] for y in OPTIONS[b]
             if isPossible({a: x, b: y})}
    rows = []
    while pairs:
        candidates = []
        for _ in range(60):
            (a, x), (b, y) = draws.choice(sorted(pairs, key=str))
            row = {name: draws.choice(values) for name, values in OPTIONS.items()} | {a: x, b: y}
            if isPossible(row):
                candidates.append((len(pairs & set(itertools.combinations(row.items(), 2))), len(candidates), row))
        if not candidates:
            continue
        rows.append(max(candidates)[2])
        pairs -= set(itertools.combinations(rows[-1].items(), 2))
    return rows


def toCase(row):
    model = row["model"]
    shard = () if "tensor" not in row["mesh"] else SEQUENCE[model] if row["sequence"] else TENSOR[model]
    if "data" not in row["mesh"]:
        shard = tuple(pattern.replace("[data,", "[-,") for pattern in shard)
    return Case(model, row["mesh"], shard, microbatches=row["microbatches"], zero=row["zero"], schedule=row["schedule"],
                chunks=CHUNKS.get(row["schedule"], 1), recompute=row["recompute"], clip=row["clip"])


PIPELINES = [toCase(row) for row in drawRows()]
assert len(PIPELINES) >= 40 and len(set(map(str, PIPELINES))) == len(PIPELINES)


def valuesOf(case):
    """In a sample each value of each option is once, and each model with each schedule."""
    return {(case.model, case.schedule), ("mesh", case.mesh), ("zero", case.zero), ("clip", case.clip),
            ("recompute", case.recompute), ("microbatches", case.microbatches), ("sequence", "-sequence" in str(case))}
