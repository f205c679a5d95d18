"""PyTorch's scaled_dot_product_attention and its gradient, for the row of attention's call alone.

As in Attention.cpp: one sample, as many heads of keys as of queries, causal, and all values of the row's type.
"""

import time

import torch
import worker

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def prepare(work):
    torch.set_num_threads(work.threads)
    random = torch.Generator().manual_seed(1)
    shape = (1, work.heads, work.length, work.width // work.heads)
    *operands, gradient = (torch.randn(shape, generator=random).to(TYPES[work.attention]) for _ in range(4))
    operands = [operand.requires_grad_() for operand in operands]

    def turn(repeats):
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            result = torch.nn.functional.scaled_dot_product_attention(*operands, is_causal=True)
            torch.autograd.grad(result, operands, gradient)
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": []}

    turn(1)
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
