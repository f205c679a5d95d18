"""Cases of functions of one sample that torch.vmap calls with all samples at once."""

import torch
import torch.nn.functional as F
from torch import vmap

from aten_case import Case, fed, floats, known

X, POSITIVE = floats(3, 4, 5), floats(3, 4, 5, low=0.2, high=1.5)
NESTED, NESTED_POSITIVE = floats(3, 4, 2, 5), floats(3, 4, 2, 5, low=0.2, high=1.5)
NUMBERS = ("known", torch.arange(60).reshape(3, 4, 5) * 7 % 11 - 5)
FLAGS = ("known", torch.arange(60).reshape(3, 4, 5) * 7 % 3 == 0)
ROW, MATRIX = floats(5, seed=2), floats(5, 6, seed=3)
ROWS, MATRICES = floats(3, 5, seed=4), floats(3, 5, 6, seed=5)


def mapped(f, *operands, in_dims=0, out_dims=0, **more):
    return Case(lambda *given: vmap(f, in_dims=in_dims, out_dims=out_dims)(*given), *(operands or (X,)), **more)


def inPlace(x, y):
    z = x.clone()
    z[0].mul_(2)
    z[:, 1] = y
    z.add_(y.sum()).clamp_(max=1)
    z.masked_fill_(z < 0, 0.5)
    return z


def filled(x):
    total = x.new_zeros(5)
    for row in x:
        total += row
    out = torch.zeros_like(x)
    out.copy_(total)
    return out * x


# Functions of a sample of [4, 5], which are also called inside of two regions.
OF_ONE = {
    "chain": lambda x: (x * 2 + 1).tanh() / x.exp(),
    "choices": lambda x: torch.where(x > 0.2, x, x.sin()).masked_fill(x < -0.5, 0.25).clamp(-0.8, 0.8),
    "activations": lambda x: F.gelu(x) + F.relu(x) * F.silu(x) + F.softplus(x) - F.leaky_relu(x, 0.2) + F.elu(x),
    "glu": lambda x: F.glu(x[:, :4], -1) + F.glu(x[:, 0], 0),
    "softmax": lambda x: x.softmax(0) + x.log_softmax(-1),
    "sum": lambda x: x.sum() * x.sum(0) + x.sum(-1, keepdim=True).sum(0),
    "sum-of-all-kept": lambda x: x.sum((0, 1), keepdim=True) * x + x.mean((), keepdim=True),
    "mean": lambda x: x.mean() + x.mean((0, 1)) + x.mean(1),
    "extrema": lambda x: x.amax(0) + x.amin() + x.max() - x.min() + x.max(0).values - x.min(-1, keepdim=True).values.sum(),
    "extrema-of-two": lambda x: torch.max(x, x.flip(0)) + torch.minimum(x, x.sum()),
    "prod": lambda x: x.prod() + x.prod(1) + x[0, 0].prod(),
    "norms": lambda x: x.norm() + x.norm(dim=0) + torch.linalg.vector_norm(x, 3, dim=-1).sum() + x.norm(p=1),
    "logsumexp": lambda x: x.logsumexp(0) + x.logsumexp((0, 1)) + x.sum().logsumexp(0),
    "variance": lambda x: x.var() + x.std(0) + x.var(0, correction=0) + torch.var_mean(x, 1)[0].sum(),
    "points": lambda x: x.sum().softmax(0) + x.sum().sum(0) + x.mean().cumsum(0) + x.amax().unsqueeze(0).squeeze(),
    "cumulative": lambda x: x.cumsum(0) + x.cumsum(-1),
    "squeeze": lambda x: x[None, :, None].squeeze() + x[None].squeeze(0) + x.unsqueeze(-1).squeeze(-1) + x.unsqueeze(1).squeeze((1,)),
    "transpose": lambda x: x.t() + x.transpose(0, -1) + x.permute(1, 0) + x.mT + x.T + x.movedim(0, 1) + x[0].t().sum(),
    "expand": lambda x: x.expand(2, 4, 5) + x[0].expand(2, 4, -1) + x.sum().expand(4, 5) + x.broadcast_to(1, 4, 5),
    "repeat": lambda x: x.repeat(2, 1) + x.repeat(1, 2, 1)[0] + x.tile(2)[:, :5].tile((2, 1)) + x[0].repeat_interleave(2)[:5],
    "repeat-interleave": lambda x: x.repeat_interleave(2, 0) + x.flatten().repeat_interleave(2).view(8, 5),
    "parts": lambda x: x[1] + x[:, 2:3].sum() + x.narrow(0, 1, 2)[0] + x.select(-1, 0).sum() + x[::2, 0].sum(),
    "pieces": lambda x: sum(x.split(2, 0)).sum() + torch.cat(x.chunk(2, 1)[::-1], 1) + torch.stack(x.unbind(1), 1)
    + torch.cat(x.split([1, 3]), 0) + x.tensor_split(2)[1].sum(),
    "join": lambda x: torch.cat([x, x * 2], 0) + torch.stack([x, x.sin()], 1).view(8, 5),
    "roll": lambda x: x.roll(1, 0) + x.roll(2) + x.roll((1, 2), (0, 1)),
    "flip": lambda x: x.flip(0) + x.flip((0, -1)),
    "unfold": lambda x: x.unfold(1, 3, 2).sum(-1) + x.unfold(0, 2, 1).sum() ,
    "order": lambda x: x.sort(-1).values + x.topk(1, 0).values + x.sort(0, descending=True)[0],
    "triangles": lambda x: x.tril() + x.triu(1),
    "diff": lambda x: x.diff(dim=0).sum() + x.diff(),
    "new": lambda x: torch.zeros_like(x) + x.new_ones(5) * x + x.new_full((4, 1), 2.0) + torch.full_like(x, 3) + torch.ones_like(x),
    "identities": lambda x: x.clone().contiguous() + x.detach() * x + x.to(torch.float64).to(torch.float32) + x[...],
    "casts": lambda x: x.long().float() + (x > 0).type_as(x) + x.to(torch.int32) * x,
    "sizes": lambda x: x * x.shape[0] + x.size(-1) * x.dim() + x.numel(),
    "products": lambda x: x @ x.t() @ x + x.mv(x[0])[:, None] + x[0].dot(x[1]) + torch.outer(x[:, 0], x[0]) + x[:, 0] @ x,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x) + torch.einsum("ij,kj", x, x) + torch.einsum("...j,j->...", x, x[0])
    + torch.einsum("ii", x[:, :4]),
    "similarity": lambda x: F.cosine_similarity(x, x[:1], 1) + F.cosine_similarity(x, x.roll(1, 0), dim=0).sum()
    + F.pairwise_distance(x, x[1]) + torch.cdist(x, x[:2] + 2).sum(),
    "layer-norm": lambda x: F.layer_norm(x, (5,), x[0], x[1]) + F.layer_norm(x, (4, 5)) + F.rms_norm(x, (5,), x[2]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None] * 2, x[None], x[:, :4] > 0),
    "attention-heads": lambda x: F.scaled_dot_product_attention(x.view(1, 2, 2, 5), x.view(1, 2, 2, 5), x.view(1, 2, 2, 5), is_causal=True),
    "losses": lambda x: F.mse_loss(x, x.flip(0).detach()) + F.smooth_l1_loss(x[0], x[1], reduction="sum")
    + F.binary_cross_entropy_with_logits(x, x.sigmoid().detach(), reduction="none"),
    "pad": lambda x: F.pad(x, (1, 0, 0, 2)),
    "pooling": lambda x: F.avg_pool1d(x, 2) + F.max_pool1d(x[None], 2)[0] + F.adaptive_avg_pool1d(x, 2),
    "group-norm": lambda x: F.group_norm(x[None], 2)[0] + F.group_norm(x, 5),
    "assigned": lambda x: inPlace(x, x[:, 0] * 2),
    "filled": filled,
    "written": lambda x: x.clone().index_fill(0, torch.ops.aten.arange(2), 0.5).index_add(0, torch.ops.aten.arange(4), x),
    "scattered": lambda x: x.scatter(0, (x[:1] > 0).long(), x[:1].sin()) + x.scatter_add(1, x[:, :2].gt(0).long() + 1, x[:, 1:3] * 2)
    + x.slice_scatter(x[:2], 0, 1, 3),
    "gathered": lambda x: x.gather(1, x.argsort(1)) + torch.take_along_dim(x, x.argmax(1, keepdim=True), 1),
    "indexed": lambda x: x[torch.ops.aten.arange(4).flip(0)] + x[:, x.argsort(-1)[0]] + x[(x[:, 0] > 0).long()]
    + x[(x > 0).long(), (x > 0.5).long()] + x[(x[:, :1] > 0).long(), (x > 0.5).long()].sum(),
    "index-select": lambda x: x.index_select(1, x[0].argsort()) + x.index_select(-2, torch.ops.aten.arange(4).flip(0)),
    "embedded": lambda x: F.embedding((x > 0).long(), x).sum(0),
}
# Views of samples that are contiguous.
VIEWS_OF_ONE = {
    "view": lambda x: x.view(2, -1) * x.reshape(-1).view(2, 10) + x.flatten()[3],
    "view-as": lambda x: x.view_as(x.flatten()) + x.t().reshape_as(x.flatten()) + x[0].expand_as(x).reshape(-1),
    "unflatten": lambda x: x.unflatten(0, (2, 2)).flatten(1) + x.sum().flatten() + x.view(20).unflatten(0, (2, -1)),
}
WITHOUT_GRADIENT = {
    "comparisons": lambda x: (x > 0.1) & (x != x[0]) | ~(x <= x.mean()) ^ x.isnan(),
    "where-it-is": lambda x: x.argmax() + x.argmax(0) + x.argmin(-1).sum() + x.argmax(keepdim=True) + x.argsort(0).sum(),
    "any-and-all": lambda x: (x > 0).any() | (x > 0).all(0) & (x < 0.9).any(-1)[0] | (x < 2).all(),
    "counts": lambda x: (x > 0).count_nonzero() + (x > 0).count_nonzero(0) + (x > 0).sum(),
    "medians": lambda x: x.median() + x.median(0).values,
    # PyTorch's own gradient of it is not that of the samples one by one.
    "select-scatter": lambda x: x.select_scatter(x[0].cos(), 0, 2),
    "one-hot": lambda x: F.one_hot((x > 0).long(), 3),
}
OF_POSITIVE = {
    "logarithms": lambda x: x.log() + x.sqrt() + x.pow(1.5) + x**x + x.rsqrt() + 2**x,
    "logprod": lambda x: x.cumprod(0) + x.flatten().prod(),
}
# More operands, of which some are not batched, and dims other than the first.
WITH_OTHERS = {
    "second-dim": mapped(lambda x: x.softmax(0) * x[0], in_dims=1),
    "last-dim": mapped(lambda x: x * x[0], in_dims=-1),
    "some-in": mapped(lambda x, w: x @ w, X, MATRIX, in_dims=(0, None)),
    "some-in-back": mapped(lambda w, x: x @ w, MATRIX, X, in_dims=(None, 0)),
    "row": mapped(lambda x, r: x * r + r.sum(), X, ROW, in_dims=(0, None)),
    "row-of-each": mapped(lambda r, x: x * r + r, ROWS, X),
    "scalar-of-each": mapped(lambda s, x: s * x + s, floats(3), X),
    "matrix-of-each": mapped(lambda x, m: x @ m, X, MATRICES),
    "matrix-of-each-and-one-x": mapped(lambda x, m: x @ m, floats(4, 5), MATRICES, in_dims=(None, 0)),
    "vector-and-matrix": mapped(lambda r, m: r @ m + m.t() @ r + m.t().mv(r), ROWS, MATRICES),
    "vector-and-one-matrix": mapped(lambda r, m: r @ m + m.t().mv(r) + F.linear(r, m.t()), ROWS, MATRIX, in_dims=(0, None)),
    "bmm": mapped(lambda x, y: torch.bmm(x.expand(2, 4, 5), y.expand(2, 5, 6)), X, MATRIX, in_dims=(0, None)),
    "linear": mapped(lambda x, w, b: F.linear(x, w.t(), b), X, MATRIX, floats(6), in_dims=(0, None, None)),
    "linear-of-each": mapped(lambda x, w, b: F.linear(x, w.t(), b), X, MATRICES, floats(3, 6)),
    "linear-with-a-bias-of-each": mapped(lambda x, w, b: F.linear(x, w.t(), b), X, MATRIX, floats(3, 6), in_dims=(0, None, 0)),
    "addmm": mapped(lambda s, x, m: torch.addmm(s, x, m, beta=0.5, alpha=2), floats(6), X, MATRICES, in_dims=(None, 0, 0)),
    "baddbmm": mapped(lambda x, m: torch.baddbmm(x[:, :1, None], x[:, None], m.expand(4, 5, 6)), X, MATRICES),
    "einsum-with-one": mapped(lambda x, m: torch.einsum("ij,jk->ki", x, m), X, MATRIX, in_dims=(0, None)),
    "layer-norm-with-one": mapped(lambda x, w: F.layer_norm(x, (5,), w), X, ROW, in_dims=(0, None)),
    "join-with-one": mapped(lambda x, r: torch.cat([x, r[None]], 0) + torch.stack([x[0], r, r, r, x[1]]), X, ROW, in_dims=(0, None)),
    "conv": mapped(lambda x, w: F.conv1d(x, w, padding=1) + F.conv1d(x[None], w, padding=1)[0], X, floats(2, 4, 3), in_dims=(0, None)),
    "lerp": mapped(lambda x, y, w: torch.lerp(x, y, w) + torch.addcmul(x, y, w, value=2), X, floats(5), floats(3), in_dims=(0, None, 0)),
    "clamp-between": mapped(lambda x, low: x.clamp(low, low + 0.5), X, floats(3)),
    "fill-with-each": mapped(lambda x, s: x.masked_fill(x > 0, s), X, floats(3)),
    "nothing-batched": mapped(lambda x, r: (r * 2).sum(), X, ROW, in_dims=(0, None)),
    "outer-only": Case(lambda x, y: vmap(lambda a: vmap(lambda b: a.sum(-1))(y))(x), X, floats(2)),
    "inner-only": Case(lambda x, y: vmap(lambda a: vmap(lambda b: b * 2)(y))(x), X, floats(2, 4)),
    "all-pairs": Case(lambda x, y: vmap(lambda a: vmap(lambda b: (a - b).norm())(y))(x), ROWS, floats(4, 5, seed=9)),
    "all-outer-products": Case(lambda x, y: vmap(lambda a: vmap(lambda b: a[:, None] * b)(y))(x), ROWS, floats(4, 2)),
    "pairs-with-one": Case(lambda x, y, r: vmap(lambda a: vmap(lambda b: torch.stack([a, b, r]))(y))(x), ROWS, floats(4, 5), ROW),
    "chunks": Case(lambda x: vmap(lambda a: a * a.sum(), chunk_size=2)(x), X),
    "trees": Case(lambda x: (lambda r: r["a"] + r["b"][0])(vmap(lambda a: {"a": a * 2, "b": (a.sin(),)})(x)), X),
    "integers": mapped(lambda n: n * 2 + n.sum() // 3 - n.max(), NUMBERS, gradient=False),
    "narrow-integers": mapped(lambda n, s: n.to(torch.int32) * s + n.to(torch.int32)[0, 0], NUMBERS, known([1, 2, 3]), gradient=False),
    "flags": mapped(lambda f: f.any(0) & ~f.all(), FLAGS, gradient=False),
    "known-rows": mapped(lambda i, x: x[i.view(1)], known([2, 0, 1]), X, in_dims=(0, None)),
    "own-rows": mapped(lambda i, x: x[i], known([[2, 0], [1, 1], [3, -1]]), X),
    "own-columns": mapped(lambda i, x: x[:, i], known([[2, 0], [1, 1], [3, 4]]), X),
    "own-columns-of-one": mapped(lambda i, x: x[:, i] * 2, known([[2, 0], [1, 1], [3, -1]]), X, in_dims=(0, None)),
    "one-index": mapped(lambda x, i: x[:, i] + x[i, None, 0].sum(), X, known([2, 0]), in_dims=(0, None)),
    "indices-apart": mapped(lambda x, i, j: x[i, :, j], floats(3, 4, 2, 5), known([[2, 0], [1, 1], [3, -1]]), known([1, 4]), in_dims=(0, 0, None)),
    "indices-apart-of-one": mapped(lambda x, i, j: x[:, i, :, j], floats(4, 2, 5, 2), known([[1, 0], [1, 1], [0, -1]]), known([1, 0]), in_dims=(None, 0, None)),
    "index-select-of-each": mapped(lambda x, i: x.index_select(1, i), X, known([[2, 0], [1, 1], [3, 4]])),
    "fed-rows": mapped(lambda i, x: x[i, :], fed(3, 2), X, in_dims=(0, None)),
    "fed-rows-of-each": mapped(lambda i, x: x[i, :], fed(5, 2), floats(4, 5, 3)),
    "embedding": mapped(lambda i, w: F.embedding(i, w), fed(5, 2), floats(5, 3), in_dims=(0, None)),
    "embedding-of-each": mapped(lambda i, w: F.embedding(i, w), fed(5, 2), floats(4, 5, 3)),
    "gather-of-each": mapped(lambda i, x: x.gather(0, i), fed(5, 2), floats(4, 5)),
    "mask-of-pairs": Case(lambda p, x: x * vmap(lambda b: vmap(lambda k: torch.ops.aten.index(p, [b, k]))(torch.ops.aten.arange(5)))(
        torch.ops.aten.arange(3)), ("known", FLAGS[1][:, 0]), ROWS),
    "cross-entropy": mapped(lambda x, t: F.cross_entropy(x, t) + F.cross_entropy(x[0], t[0]), floats(4, 2, 5), fed(5, 2)),
    "cross-entropy-of-some": mapped(lambda x, t: F.cross_entropy(x, t, ignore_index=1, reduction="sum") + F.nll_loss(x, t, ignore_index=1),
                                    floats(3, 2, 5), known([[1, 2], [0, 4], [3, 1]])),
    "cross-entropy-of-one": mapped(lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1), X, known([1, 0, 4, 2]), in_dims=(0, None)),
}


def nested(f):
    return Case(lambda x: vmap(vmap(f, in_dims=1))(x), NESTED)


VMAP = (
    {name: mapped(f) for name, f in (OF_ONE | VIEWS_OF_ONE).items()}
    | {name: mapped(f, gradient=False) for name, f in WITHOUT_GRADIENT.items()}
    | {name: mapped(f, POSITIVE) for name, f in OF_POSITIVE.items()}
    | WITH_OTHERS
)
# torch 2.13 does not export what is assigned to a part of a tensor inside of two regions.
VMAP_NESTED = {name: nested(f) for name, f in OF_ONE.items() if name != "assigned"} | {
    name: Case(lambda x, f=f: vmap(vmap(f, in_dims=1))(x), NESTED, gradient=False) for name, f in WITHOUT_GRADIENT.items()
}
