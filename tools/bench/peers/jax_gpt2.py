"""GPT-2 and AdamW in plain JAX, on one host device per rank.

The batch is split over the mesh axis `data`, parameters and the optimizer's state
are replicated, and the step is one jitted function to which the state is donated.
"""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import worker
import workload

if __name__ == "__main__":  # before jax looks at the machine
    given = worker.workloadOf(sys.argv)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                               f" --xla_force_host_platform_device_count={given.ranks}")
    # XLA makes as many threads as it may use cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:given.ranks * given.threads])

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BETA1, BETA2, EPSILON, DECAY = 0.9, 0.999, 1e-8, 0.01  # PyTorch's defaults


def norm(weights, name, x):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(weights, name, x, heads):
    batch, length, width = x.shape
    q, k, v = (t.reshape(batch, length, heads, width // heads)
               for t in jnp.split(linear(weights, f"{name}.c_attn", x), 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads).astype(np.float32)
    scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, jnp.finfo(jnp.float32).min)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
    return linear(weights, f"{name}.c_proj", mixed.reshape(batch, length, width))


def lossOf(weights, ids, labels, layers, heads):
    table = weights["transformer.wte.weight"]
    x = table[ids] + weights["transformer.wpe.weight"][:ids.shape[1]]
    for layer in range(layers):
        name = f"transformer.h.{layer}"
        x = x + attention(weights, f"{name}.attn", norm(weights, f"{name}.ln_1", x), heads)
        inner = jax.nn.gelu(linear(weights, f"{name}.mlp.c_fc", norm(weights, f"{name}.ln_2", x)), approximate=True)
        x = x + linear(weights, f"{name}.mlp.c_proj", inner)
    logits = norm(weights, "transformer.ln_f", x) @ table.T
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def adamw(weight, gradient, mean, square, step):
    mean = BETA1 * mean + (1 - BETA1) * gradient
    square = BETA2 * square + (1 - BETA2) * gradient * gradient
    size = jnp.sqrt(square / (1 - BETA2**step)) + EPSILON
    weight = weight * (1 - workload.GPT2_RATE * DECAY) - workload.GPT2_RATE * mean / (1 - BETA1**step) / size
    return weight, mean, square


def prepare(work):
    mesh = Mesh(np.array(jax.devices()[:work.ranks]), ("data",))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    initial = dict(np.load(Path(work.folder) / "weights.npz"))

    def update(state, ids, labels):
        weights, means, squares, step = state
        loss, gradients = jax.value_and_grad(lossOf)(weights, ids, labels, work.layers, work.heads)
        moved = {name: adamw(weights[name], gradients[name], means[name], squares[name], step) for name in weights}
        return tuple({name: new[i] for name, new in moved.items()} for i in range(3)) + (step + 1,), loss

    update = jax.jit(update, donate_argnums=0, out_shardings=(whole, whole))
    data = [tuple(t.astype(np.int32) for t in batch)
            for batch in workload.batches(SimpleNamespace(**{**vars(work), "ranks": 1}))]  # of all devices

    def turn(steps):
        zeros = {name: np.zeros_like(weight) for name, weight in initial.items()}
        state = jax.block_until_ready(jax.device_put((initial, zeros, zeros, np.float32(1)), whole, may_alias=False))
        seconds, losses = [], []
        for ids, labels in data[:steps]:
            started = time.perf_counter()
            state, loss = update(state, *jax.device_put((ids, labels), split))
            jax.block_until_ready(state)
            losses.append(float(loss))
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": losses}

    turn(min(2, work.steps))
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
