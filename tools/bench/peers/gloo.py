"""torch.distributed's all-reduce over gloo, for the row of the communicator alone.

As in AllReduce.cpp: in place, float32, each repetition from a barrier on, and its
time that of the slowest rank.
"""

import time

import pytorch
import torch
import worker


def prepare(work):
    torch.set_num_threads(1)
    pytorch.connect(work)
    fresh = (torch.arange(work.mib * 2**18) % 7 + 1).float() * (work.rank + 1)
    expected = fresh / (work.rank + 1) * (work.ranks * (work.ranks + 1) // 2)
    values = torch.empty_like(fresh)

    def turn(repeats):
        seconds = []
        for _ in range(repeats):
            values.copy_(fresh)
            torch.distributed.barrier()
            started = time.perf_counter()
            torch.distributed.all_reduce(values)
            seconds.append(time.perf_counter() - started)
            assert torch.equal(values, expected)
        slowest = torch.tensor(seconds, dtype=torch.float64)
        torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
        return {"seconds": slowest.tolist(), "losses": []}

    turn(2)
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
