"""PyTorch's side: the same steps on the whole batch, and how results compare."""

import copy

import torch

from models import BATCH, DATA_STEPS, MODELS
from shared import remembered

ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
# One SGD step with a learning rate so large that the old weight is lost in the
# new one's last bits: (before - after) / rate is the gradient to 2^-24 of
# itself. A power of two, so the product is exact.
GRADIENT_RATE = 2.0**20


def globalBatch(data, step, microbatches):
    size = BATCH * microbatches
    start = step % DATA_STEPS * size
    return {name: tensor[start:start + size] for name, tensor in data.items()}


def nudge(model, seed):
    """Changes the last bits of the parameters, as the seed draws them; 0 changes nothing."""
    if seed:
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data *= 1 + 2**-23 * torch.randint(-1, 2, parameter.shape, generator=generator)


@remembered
def train(modelName, microbatches, optimizer, steps, dtype, threads=2, clip=0, seed=0):
    """The losses of `steps` steps and the parameters after them, by name; gradients are clipped to a norm of `clip`.
    A seed nudges the parameters first."""
    torch.set_num_threads(threads)
    spec = MODELS[modelName]
    model = spec.fresh().to(dtype)
    nudge(model, seed)
    data = spec.data(microbatches)
    if optimizer == "adamw":
        update = torch.optim.AdamW(model.parameters(), **ADAMW)
    else:
        update = torch.optim.SGD(model.parameters(), lr=spec.sgd)
    losses = []
    for step in range(steps):
        batch = {name: t.to(dtype) if t.is_floating_point() else t
                 for name, t in globalBatch(data, step, microbatches).items()}
        update.zero_grad()
        loss = spec.lossOf(model, batch)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        update.step()
        losses.append(loss.item())
    return losses, snapshot(model)


@remembered
def spread(modelName, microbatches, optimizer, steps, clip=0):
    """How far PyTorch is from itself, in fp64, on 1 and 2 threads and with other last bits to begin with: the largest
    relative difference of the losses up to each step, of updates and of values. Adam makes a step of the sign of a
    gradient near zero, which such bits decide."""
    before = snapshot(MODELS[modelName].fresh())
    exact, others = None, []
    for dtype, threads, seed in ((torch.float64, 2, 0), (torch.float32, 1, 0), (torch.float32, 2, 0),
                                 *((torch.float32, 2, seed) for seed in (1, 2, 3) if optimizer == "adamw")):
        losses, after = train(modelName, microbatches, optimizer, steps, dtype, threads, clip, seed)
        run = torch.tensor(losses, dtype=torch.float64), {n: after[n] - before[n] for n in before}, after
        exact, others = exact or run, others + [run]
    losses = torch.stack([(run[0] - other[0]).abs() / other[0].abs() for run in others for other in others]).amax(0)
    updates = max(max(differences(run[1], other[1]).values()) for run in others for other in others)
    values = max(((run[2][n] - exact[2][n]).norm() / exact[2][n].norm()).item() for run in others for n in before)
    torch.set_num_threads(2)
    return losses.cummax(0).values.tolist(), updates, values


def checkLosses(ours, theirs, *row):
    """Each loss is as PyTorch's, or within three times what PyTorch is from itself by then, with the row that `spread` takes."""
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        difference = abs(a - b) / abs(b)
        assert difference <= 1e-4 or difference <= 3 * spread(*row)[0][step], f"loss of step {step + 1}"


@remembered
def gradients(modelName, microbatches):
    """The first step's gradients in fp64, by name."""
    spec = MODELS[modelName]
    model = spec.fresh().double()
    batch = {name: t.double() if t.is_floating_point() else t
             for name, t in globalBatch(spec.data(microbatches), 0, microbatches).items()}
    spec.lossOf(model, batch).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@remembered
def gradientSpread(modelName, microbatches):
    """How far PyTorch's first gradients in fp32, on 1 and 2 threads, are from fp64's: the largest difference."""
    worst = 0
    for threads in (1, 2):
        torch.set_num_threads(threads)
        spec = MODELS[modelName]
        model = spec.fresh()
        spec.lossOf(model, globalBatch(spec.data(microbatches), 0, microbatches)).backward()
        found = {name: p.grad.double() for name, p in model.named_parameters()}
        worst = max(worst, *differences(found, gradients(modelName, microbatches)).values())
    return worst


def snapshot(model):
    return {name: p.detach().double().clone() for name, p in model.named_parameters()}


def loaded(modelName, tensors):
    """The parameters of a fresh model after a strict load of `tensors`."""
    model = copy.deepcopy(MODELS[modelName].fresh())
    model.load_state_dict(tensors, strict=True)
    return snapshot(model)


# Tensors whose gradient is rounding and nothing else: softmax does not change
# when all scores of a row move alike (a key's bias), nor batch norm when a
# channel moves (the bias of the convolution before it).
NOISE = ("attention.self.key.bias", "attention.k_proj.bias", "conv2.bias")


def isNoise(name):
    return name.endswith(NOISE)


def parts(name, tensor):
    """(label, slice, reference): a tensor in the parts that are compared one by one.

    `reference` is None, or the name of the tensor whose size noise is compared with.
    """
    if isNoise(name):
        return [(name, slice(None), name.removesuffix("bias") + "weight")]
    if not name.endswith("attn.c_attn.bias"):
        return [(name, slice(None), None)]
    width = tensor.numel() // 3
    return [(f"{name}[{part}]", slice(i * width, (i + 1) * width), name if part == "key" else None)
            for i, part in enumerate(("query", "key", "value"))]


def differences(ours, theirs):
    """||a - b|| / ||b|| for each part of each tensor; noise is compared with its reference."""
    assert ours.keys() == theirs.keys()
    result = {}
    for name, b in theirs.items():
        for label, part, other in parts(name, b):
            norm = (theirs[other] if other else b[part]).norm()
            result[label] = ((ours[name][part] - b[part]).norm() / norm).item()
    return result
