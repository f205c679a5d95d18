"""Plans whose ranks several machines share out."""

import tools
from models import MODELS

GPT2 = ("--shard", "*.c_attn.weight=[-,tensor]", "--shard", "*.c_fc.weight=[-,tensor]", "--shard", "*wte.weight=[tensor,-]")
# Name: model, mesh, options of polyrank-compile.
PLANS = {
    "data": ("mlp", "data=4", ("--zero", 3)),
    "tensor": ("gpt2", "data=2,tensor=2", (*GPT2, "--zero", 1, "--clip-norm", 1.0)),
    "pipe": ("gpt2", "data=2,pipe=2", ("--schedule", "1f1b")),
}
# Stages that are on different machines.
ACROSS = {"across": ("gpt2", "pipe=2,data=2", ("--schedule", "1f1b"))}


def makePlan(folder, name):
    """Makes the plan and its data in the folder, once. Returns the names of both files."""
    model, mesh, options = {**PLANS, **ACROSS}[name]
    plan, data = folder / f"{name}.plan", folder / f"{model}.npz"
    if not plan.exists():
        MODELS[model].export(folder / f"{model}.onnx")
        tools.saveData(data, MODELS[model].data(2))
        tools.tool("compile", folder / f"{model}.onnx", "-o", plan, "--mesh", mesh, *MODELS[model].inputOptions, "--loss",
                   MODELS[model].lossOption, "--optimizer", "adamw(lr=0.01)", "--microbatches", 2, "--threads", 1, *options)
    return {"plan": plan.name, "data": data.name}
