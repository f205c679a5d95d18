"""PyTorch: eager, torch.compile, and DistributedDataParallel over gloo.

Its fastest ways on a CPU: the fused AdamW, gradients that are views of DDP's
buckets.
"""

import time
from pathlib import Path

import torch
import worker
import workload


def connect(work):
    """Joins the other ranks, if there are any."""
    if work.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{Path(work.folder) / 'rendezvous'}", rank=work.rank, world_size=work.ranks)


def optimizerOf(work, model):
    if work.model == "gpt2":
        return torch.optim.AdamW(model.parameters(), lr=workload.GPT2_RATE, fused=True)
    return torch.optim.SGD(model.parameters(), lr=workload.RESNET_RATE, fused=True)


def prepare(work):
    torch.set_num_threads(work.threads)
    connect(work)
    model = workload.build(work)
    if work.channelsLast:
        model = model.to(memory_format=torch.channels_last)
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    called = model
    if work.ranks > 1:
        called = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def lossOf(inputs, labels):
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
