"""PyTorch's pipelines: torch.distributed.pipelining with 1F1B over gloo, a stage in each process.

The cut is the fastest of those that it tries itself: the head is as much work as some blocks.
"""

import copy
import time

import pytorch
import torch
import worker
import workload
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class First(torch.nn.Module):
    def __init__(self, model, blocks):
        super().__init__()
        body = model.transformer
        self.wte, self.wpe, self.h = body.wte, body.wpe, torch.nn.ModuleList(body.h[:blocks])

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return through(self.h, x)


class Last(torch.nn.Module):
    def __init__(self, model, blocks):
        super().__init__()
        self.h, self.ln_f = torch.nn.ModuleList(model.transformer.h[blocks:]), model.transformer.ln_f
        self.lm_head = model.lm_head

    def forward(self, x):
        return self.lm_head(self.ln_f(through(self.h, x)))


def through(blocks, x):
    for block in blocks:
        x = block(x)
        x = x[0] if isinstance(x, tuple) else x
    return x


def lossOf(logits, labels):
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def prepare(work):
    assert work.ranks == 2 and work.model == "gpt2"
    torch.set_num_threads(work.threads)
    pytorch.connect(work)
    whole = workload.build(work)
    data = [tuple(map(torch.from_numpy, batch)) for batch in workload.batches(work)]

    def turnOf(blocks):
        module = (Last if work.rank else First)(copy.deepcopy(whole), blocks)
        initial = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        stage = PipelineStage(module, work.rank, work.ranks, torch.device("cpu"))
        schedule = Schedule1F1B(stage, work.microbatches, loss_fn=lossOf)

        def turn(steps):
            module.load_state_dict(initial)
            optimizer = pytorch.optimizerOf(work, module)
            seconds, means = [], []
            for inputs, labels in data[:steps]:
                started, losses = time.perf_counter(), []
                optimizer.zero_grad()
                schedule.step(*([] if work.rank else [inputs]), target=labels if work.rank else None, losses=losses)
                optimizer.step()
                # As in training: everybody knows the loss before the next step.
                mean = torch.tensor([sum(loss.item() for loss in losses) / work.microbatches])
                torch.distributed.broadcast(mean, 1)
                means.append(mean.item())
                seconds.append(time.perf_counter() - started)
            return {"seconds": seconds, "losses": means}

        return turn

    def timeOf(turn):
        times = torch.tensor(min(turn(3)["seconds"][1:]))
        torch.distributed.all_reduce(times, torch.distributed.ReduceOp.MAX)
        return times.item()

    half = work.layers // 2
    turns = {blocks: turnOf(blocks) for blocks in range(half, min(half + 5, work.layers))}
    return turns[min(turns, key=lambda blocks: timeOf(turns[blocks]))]


if __name__ == "__main__":
    worker.serve(prepare)
