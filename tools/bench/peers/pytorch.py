"""PyTorch: eager, torch.compile, and over gloo DistributedDataParallel and FSDP2; in bf16 under torch.autocast.

Its fastest ways on a CPU: the fused AdamW, gradients that are views of DDP's
buckets; of FSDP2 a unit for each block, gathered again in the backward.
"""

import time
from pathlib import Path

import torch
import torch.distributed.fsdp
import worker
import workload


def connect(work):
    """Joins the other ranks, if there are any."""
    if work.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{Path(work.folder) / work.name}.rendezvous", rank=work.rank, world_size=work.ranks)


def optimizerOf(work, model):
    if work.model == "gpt2":
        return torch.optim.AdamW(model.parameters(), lr=workload.GPT2_RATE, fused=True)
    return torch.optim.SGD(model.parameters(), lr=workload.RESNET_RATE, fused=True)


def shard(work, model):
    """Each block a unit, and the rest of the model one."""
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (work.ranks,))
    for block in model.transformer.h:
        torch.distributed.fsdp.fully_shard(block, mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)


def prepare(work):
    torch.set_num_threads(work.threads)
    connect(work)
    model = workload.build(work)
    if work.channelsLast:
        model = model.to(memory_format=torch.channels_last)
    if work.sharded:
        shard(work, model)
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    called = model
    if work.ranks > 1 and not work.sharded:
        called = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def lossOf(inputs, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=work.precision == "bf16"):
            return workload.loss(work, called, inputs, labels)

    if work.compiled:
        lossOf = torch.compile(lossOf)
    data = [tuple(map(torch.from_numpy, batch)) for batch in workload.batches(work, work.rank)]
    if work.channelsLast:
        data = [(inputs.to(memory_format=torch.channels_last), labels) for inputs, labels in data]

    def turn(steps):
        model.load_state_dict(initial)
        optimizer = optimizerOf(work, model)
        seconds, losses = [], []
        for inputs, labels in data[:steps]:
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = lossOf(inputs, labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - started)
        if work.ranks > 1:
            mean = torch.tensor(losses, dtype=torch.float64)
            torch.distributed.all_reduce(mean)
            losses = (mean / work.ranks).tolist()
        return {"seconds": seconds, "losses": losses}

    turn(min(2, work.steps))
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
