"""Cases of operators that read or write elements by indices."""

import torch
import torch.nn.functional as F

from aten_case import X, Case, fed, floats, known, unary, written

ROWS = ([0, 2, 1, 2],)
FEW, MANY = fed(2, 5), fed(2, 70)  # flags, as numbers; of rows of 70 the sums are formed in parts
SOME, MORE = int(FEW[1].sum()), int(MANY[1].sum())  # how many of them are true


def asserted(count, taken, dim=0):
    """What a mask takes, of which the model asserts how much it is."""
    if not torch.jit.is_tracing():  # for test/fuzz/calls.py
        torch._check(taken.shape[dim] == count)
    return taken


def takenByMask(x, m):
    return asserted(SOME, x[m > 0])


def sizeOf(m):
    size = (m.sum() // 4).item()
    if not torch.jit.is_tracing():
        torch._check(size == SOME // 4)
    return size


def whereTrue(m):
    return torch.stack([asserted(SOME, i) for i in torch.where(m > 0)])


INDEXING = {
    "index-mask-fed": Case(takenByMask, X, FEW),
    "index-mask-fed-rows": Case(takenByMask, floats(4, 5, 3), FEW),
    "index-mask-fed-long": Case(lambda x, m: asserted(MORE, x[m > 0]), floats(4, 70), MANY),
    "index-mask-fed-second": Case(lambda x, m: asserted(SOME, x[:, m > 0], 1), floats(3, 4, 5, 2), FEW),
    "index-mask-fed-flags": Case(lambda m: asserted(SOME, (m == m.flip(1))[m > 0]).long(), FEW, gradient=False),
    "masked-select": Case(lambda x, m: asserted(SOME, x.masked_select(m > 0)), X, FEW),
    "nonzero-fed": Case(lambda m: asserted(SOME, m.nonzero()), FEW, gradient=False),
    "nonzero-lists-fed": Case(whereTrue, FEW, gradient=False),
    "item-asserted": Case(lambda x, m: x[:, : sizeOf(m)], X, FEW),
    "embedding": Case(lambda w, i: F.embedding(i, w), floats(7, 3), fed(7, 2)),
    "embedding-padding": Case(lambda w, i: F.embedding(i, w, padding_idx=2), floats(7, 3), fed(7, 2)),
    "embedding-known": Case(lambda w, i: F.embedding(i, w), floats(7, 3), known([[1, 6], [3, 0]])),
    **{
        f"embedding-bag-{mode}": Case(lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode), floats(7, 3), fed(7, 3))
        for mode in ("sum", "mean", "max")
    },
    **{
        f"embedding-bag-padding-{mode}": Case(
            lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode, padding_idx=2), floats(7, 3), fed(3, 2)
        )
        for mode in ("sum", "mean", "max")
    },
    # A bag without rows, and others of different lengths.
    **{
        f"embedding-bag-offsets-{mode}": Case(
            lambda w, i, o, mode=mode: F.embedding_bag(i[:, 0], w, o, mode=mode), floats(7, 3), fed(7, 1), known([0, 1, 1])
        )
        for mode in ("sum", "mean", "max")
    },
    "embedding-bag-offsets-padding": Case(
        lambda w, i, o: F.embedding_bag(i[:, 0], w, o, mode="mean", padding_idx=1), floats(7, 3), fed(3, 1), known([0, 3])
    ),
    "embedding-bag-last-offset": Case(
        lambda w, i, o: F.embedding_bag(i.flatten(), w, o, mode="sum", include_last_offset=True),
        floats(7, 3),
        fed(7, 2),
        known([0, 2, 5, 8]),
    ),
    "embedding-bag-weights": Case(
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s), floats(7, 3), fed(7, 3), floats(4, 3, seed=2)
    ),
    "index-select": Case(lambda x, i: x.index_select(1, i), X, known([0, 4, 2])),
    "index-select-fed": Case(lambda x, i: x.index_select(1, i[:, 0]), X, fed(5, 1)),
    "gather": Case(lambda x, i: x.gather(1, i), X, fed(5, 3)),
    "gather-negative-dim": Case(lambda x, i: x.gather(-2, i), X, fed(4, 3)),
    "take-along-dim": Case(lambda x, i: torch.take_along_dim(x, i, 1), X, fed(5, 3)),
    "index": Case(lambda x, i: x[i], X, fed(4, 2)),
    "index-negative": Case(lambda x, i: x[i - 4], X, fed(4, 2)),
    "index-two": Case(lambda x, i, j: x[i, j], X, fed(4), fed(5)),
    "index-second": Case(lambda x, i: x[:, i], X, fed(5, 2)),
    "index-apart": Case(lambda x, i, j: x[i, :, j], floats(3, 4, 5), fed(3), fed(5)),
    "index-mask": Case(lambda x, m: x[m], X, known([True, False, True, True], torch.bool)),
    "index-mask-two": Case(
        lambda x, m: x[m], floats(2, 3), known([[True, False, True], [False, True, True]], torch.bool)
    ),
    "one-hot": Case(lambda i: F.one_hot(i, 6), fed(6, 2), gradient=False),
    "tril": unary(torch.tril),
    "triu": unary(lambda x: x.triu(1)),
    "topk": unary(lambda x: x.topk(3)[0]),
    "topk-indices": unary(lambda x: x.topk(3, 0)[1], gradient=False),
    "topk-smallest": unary(lambda x: x.topk(2, 1, largest=False)[0]),
    "sort": unary(lambda x: x.sort(1)[0]),
    "sort-descending": unary(lambda x: x.sort(1, descending=True)[0]),
    "argsort": unary(lambda x: x.argsort(1), gradient=False),
    "sort-known": Case(lambda i, x: x[:, i.sort()[1]], known([3, 1, 2, 0, 1]), X),
    "sort-stable": Case(lambda i, x: x[:, torch.sort(i, stable=True)[1]], known([3, 1, 2, 0, 1]), X),
    "sort-many": unary(lambda x: x.sort(1)[0], floats(2, 100)),
    "topk-many": unary(lambda x: x.topk(70, 0)[0], floats(100, 2)),
    "topk-of-long-rows": unary(lambda x: x.topk(3)[0], floats(2, 1100)),
    "sort-nan": unary(lambda x: torch.where(x > 0.5, torch.nan, x).sort(1)[1], gradient=False),
    "topk-nan": unary(lambda x: torch.where(x > 0.5, torch.nan, x).topk(4)[1], gradient=False),
    "nonzero": Case(lambda m, x: x[m.nonzero()[:, 0]], known([0, 3, 0, 5]), X),
    "nonzero-lists": Case(lambda m, x: x[torch.where(m > 0)[0]], known([0, 3, 0, 5]), X),
    "argwhere": Case(lambda m, x: x[torch.argwhere(m)[:, 0]], known([0, 3, 0, 5]), X),
    "argsort-stable": unary(lambda x: torch.argsort(x, dim=1, stable=True), gradient=False),
}

SCATTERS = {
    "index-put": Case(written(lambda y, i, v: y.index_put_((i,), v)), X, known([2, 0]), floats(2, 5)),
    "index-put-add": Case(
        written(lambda y, i, v: y.index_put_((i,), v, accumulate=True)), X, known([2, 0, 2]), floats(3, 5)
    ),
    "index-put-two": Case(lambda x, i, j, v: torch.index_put(x, (i, j), v), X, known([2, 0]), known([1, 3]), floats(2)),
    "index-put-mask": unary(written(lambda y: y.__setitem__(y > 0.3, 2.0))),
    "index-put-fed": Case(lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True), X, fed(4), floats(4, 5)),
    "index-put-second": Case(
        written(lambda y, i, v: y.__setitem__((slice(None), i), v)), X, known([1, 4]), floats(4, 2)
    ),
    "scatter": Case(lambda x, i, v: x.scatter(1, i, v), X, known([[0, 2], [1, 4], [3, 0], [2, 1]]), floats(4, 2)),
    "scatter-value": Case(lambda x, i: x.scatter(1, i, 2.0), X, known([[0, 2], [1, 4], [3, 0], [2, 1]])),
    "scatter_": Case(written(lambda y, i, v: y.scatter_(1, i, v)), X, fed(5, 1), floats(4, 1)),
    "scatter-add": Case(lambda x, i, v: x.scatter_add(1, i, v), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-sum": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "sum"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-max": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "amax"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce-min": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "amin"), X, fed(5, 3), floats(4, 3)),
    "scatter-reduce": Case(
        lambda x, i, v: torch.scatter(x, 1, i, v, reduce="add"), X, fed(5, 3), floats(4, 3), gradient=False
    ),
    "scatter-reduce-prod": Case(lambda x, i, v: x.scatter_reduce(1, i, v, "prod"), X, fed(5, 3), floats(4, 3)),
    **{
        f"scatter-reduce-{how}-{'with' if own else 'without'}": Case(
            lambda x, i, v, how=how, own=own: x.scatter_reduce(1, i, v, how, include_self=own), X, fed(5, 3),
            floats(4, 3)
        )
        for how, own in (("sum", False), ("prod", False), ("amax", False), ("amin", False), ("mean", False),
                         ("mean", True))
    },
    "scatter-reduce-integers": Case(
        lambda x, i: x.int().scatter_reduce(1, i, i.int() - 7, "amax", include_self=False), X, fed(5, 3), gradient=False
    ),
    "scatter-reduce-prod-rows": Case(lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), X, fed(4, 5), floats(4, 5)),
    "scatter-multiply": Case(
        lambda x, i, v: torch.scatter(x, 1, i, v, reduce="multiply"), X, fed(5, 1), floats(4, 1), gradient=False
    ),
    "scatter-smaller-index": Case(
        lambda x, i, v: x.scatter_add(0, i, v), X, known([[0, 1], [2, 2]]), floats(3, 4), gradient=False
    ),
    "index-add": Case(lambda x, i, v: x.index_add(0, i, v, alpha=0.5), X, known([2, 0, 2]), floats(3, 5)),
    "index_add_": Case(written(lambda y, i, v: y.index_add_(1, i, v)), X, fed(5), floats(4, 4)),
    "index-copy": Case(lambda x, i, v: x.index_copy(0, i, v), X, known([2, 0]), floats(2, 5)),
    "index-fill": Case(lambda x, i: x.index_fill(1, i, 2.0), X, known([2, 0])),
    "slice-scatter": Case(lambda x, v: torch.slice_scatter(x, v, 1, 1, 4, 2), X, floats(4, 2)),
    "select-scatter": Case(lambda x, v: torch.select_scatter(x, v, 0, 2), X, floats(5)),
    "index-fill-tensor": Case(lambda x, i, v: x.index_fill(1, i, v), X, known([2, 0]), floats()),
    "index-put-mask-fed": Case(written(lambda y, m, v: y.__setitem__(m > 0, v)), X, FEW, floats(SOME)),
    "index-put-mask-fed-add": Case(
        lambda x, m, v: x.index_put((m > 0,), v, accumulate=True), floats(4, 5, 2), FEW, floats(SOME, 2)
    ),
    "index-put-mask-fed-row": Case(written(lambda y, m, v: y.__setitem__(m > 0, v)), floats(4, 5, 2), FEW, floats(2)),
    "masked-scatter": Case(lambda x, m, v: x.masked_scatter(m > 0, v), X, FEW, floats(20)),
    "masked-scatter-rows": Case(
        lambda x, m, v: x.masked_scatter((m > 0)[..., None].expand_as(x), v), floats(4, 5, 3), FEW, floats(4, 4, 3)
    ),
    "masked-scatter-broadcast": Case(lambda x, m, v: x.masked_scatter(m[:, :1] > 0, v), X, FEW, floats(21)),
    "masked-scatter-long": Case(lambda x, m, v: x.masked_scatter(m > 0, v), floats(4, 70), MANY, floats(300)),
    "masked-scatter-known": Case(
        lambda x, m, v: x.masked_scatter(m, v), X, known([[True], [False], [True], [True]], torch.bool), floats(15)
    ),
    "masked_scatter_": Case(written(lambda y, m, v: y.masked_scatter_(m > 0, v)), X, FEW, floats(20)),
    "is-all-true": Case(
        lambda x, m: x * torch.ops.aten._is_all_true(m >= 0) + torch.ops.aten._is_any_true(m > 1), X, FEW
    ),
    "scatter-flags": Case(
        lambda x: x.masked_fill((x == x).scatter(-1, x.topk(3).indices, x[:, :3] != x[:, :3]), 0.5), X
    ),
    "scatter-flags-reduce": Case(
        lambda i: (i > 2).scatter_reduce(1, i, i > 3, "amax").long() + (i > 2).scatter_reduce(1, i, i > 3, "amin").long(),
        fed(5, 5),
        gradient=False,
    ),
}
