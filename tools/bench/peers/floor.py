"""What the machine can do: the rates of products and of memory, for the floors.

Answers a turn with {"products": [least seconds per shape and pass], "bytes_per_second": ..}. A product's time
is the least over its operands' layouts and over the libraries behind torch.mm and behind oneDNN's linear.
"""

import functools
import time

import torch
import worker
import workload

ELEMENTS = 1 << 25  # of an array that memory is measured with: larger than caches


def waysOf(m, k, n, buffers):
    """Calls that compute [m,k] x [k,n]; their operands are views of three buffers."""
    first, second, third = buffers
    out = third[:m * n].view(m, n)
    for left in (first[:m * k].view(m, k), first[:m * k].view(k, m).t()):
        for right in (second[:k * n].view(k, n), second[:k * n].view(n, k).t()):
            yield functools.partial(torch.mm, left, right, out=out)
    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if torch.backends.mkldnn.is_available() and linear:
        rows, weights = first[:m * k].view(m, k), second[:k * n].view(n, k)
        yield functools.partial(linear, rows, weights, None, "none", [], "")


def timeOf(call):
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def leastOf(call, times):
    """Of so many calls, and of more where they are short: one that is interrupted must not decide."""
    least, total, calls = float("inf"), 0, 0
    while calls < times or (total < 0.02 and calls < 20 * times):
        seconds = timeOf(call)
        least, total, calls = min(least, seconds), total + seconds, calls + 1
    return least


def fastest(calls, kept=2):
    return sorted(calls, key=lambda call: leastOf(call, 2))[:kept]


def updatesOf(elements):
    """(bytes, call) of large updates in place."""
    arrays = [torch.zeros(elements) for _ in range(4)]
    weight, gradient, mean, square = arrays
    step = torch.ones(())

    def adamw():
        torch._fused_adamw_([weight], [gradient], [mean], [square], [], [step], amsgrad=False, lr=1e-4, beta1=0.9,
                            beta2=0.999, weight_decay=0.01, eps=1e-8, maximize=False)

    return [(28 * elements, adamw), (12 * elements, lambda: weight.add_(gradient, alpha=0.5)),
            (8 * elements, lambda: mean.mul_(0.5))]


def prepare(work):
    torch.set_num_threads(work.threads)
    shapes = [shape for m, k, n, _, passes in workload.products(work)
              for shape in ((m, k, n), (m, n, k), (k, m, n))[:passes]]
    low = torch.bfloat16 if work.precision == "bf16" else torch.float32
    buffers = [torch.ones(max(a[i] * a[j] for a in shapes), dtype=low) for i, j in ((0, 1), (1, 2), (0, 2))]
    ways = [fastest(waysOf(*shape, buffers)) for shape in shapes]
    updates = updatesOf(ELEMENTS)

    def turn(steps):
        times = [min(leastOf(call, steps) for call in calls) for calls in ways]
        rate = max(size / leastOf(call, steps) for size, call in updates)
        return {"seconds": [], "losses": [], "products": times, "bytes_per_second": rate}

    turn(1)
    return turn


if __name__ == "__main__":
    worker.serve(prepare)
