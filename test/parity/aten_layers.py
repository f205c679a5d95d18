"""Cases of layers: products, convolutions, poolings, norms, attention, reductions, losses."""

import torch
import torch.nn.functional as F

from aten_case import IMAGE, X, Y, Case, binary, fed, floats, known, positive, unary

PRODUCTS = {
    "matmul": Case(torch.matmul, floats(4, 5), floats(5, 3)),
    "matmul-vectors": Case(torch.matmul, floats(5), floats(5, seed=4)),
    "matmul-batch": Case(torch.matmul, floats(2, 1, 4, 5), floats(3, 5, 2)),
    "matmul-matrix-vector": Case(torch.matmul, floats(3, 4, 5), floats(5)),
    "mm": Case(torch.mm, floats(4, 5), floats(5, 3)),
    "bmm": Case(torch.bmm, floats(2, 4, 5), floats(2, 5, 3)),
    "mv": Case(torch.mv, floats(4, 5), floats(5)),
    "dot": Case(torch.dot, floats(5), floats(5, seed=4)),
    "outer": Case(torch.outer, floats(4), floats(5)),
    "addmm": Case(lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), floats(3), floats(4, 5), floats(5, 3)),
    "baddbmm": Case(
        lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2), floats(2, 4, 3), floats(2, 4, 5), floats(2, 5, 3)
    ),
    "linear": Case(F.linear, floats(2, 4, 5), floats(3, 5), floats(3)),
    "linear-no-bias": Case(F.linear, floats(4, 5), floats(3, 5)),
    "einsum": Case(lambda x, y: torch.einsum("bij,kj->bik", x, y), floats(2, 4, 5), floats(3, 5)),
    "einsum-three": Case(
        lambda x, y, z: torch.einsum("bi,ij,bj->b", x, y, z), floats(2, 4), floats(4, 3), floats(2, 3)
    ),
    "empty-permuted": unary(lambda x: torch.empty_permuted((4, 5), (1, 0)).copy_(x)),
    # Exported in bfloat16 alone; what transformers has in its place is in test_decomposed.py.
    "grouped": Case(lambda x, w, ends: torch._grouped_mm(x.bfloat16(), w.bfloat16(), offs=ends).float(), floats(9, 8),
                    floats(3, 8, 16), known([2, 2, 9], torch.int32), gradient=False, tolerance=2e-2),
    "bilinear": Case(F.bilinear, floats(4, 3), floats(4, 2), floats(5, 3, 2), floats(5)),
    "ger": Case(torch.ger, floats(4), floats(5)),
}

CONVOLUTIONS = {
    "conv1d": Case(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), floats(2, 4, 9), floats(6, 4, 3), floats(6)),
    "conv2d": Case(lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE, floats(6, 4, 3, 3), floats(6)),
    "conv2d-groups": Case(
        lambda x, w: F.conv2d(x, w, stride=(2, 1), dilation=2, padding=(1, 2), groups=2), IMAGE, floats(6, 2, 3, 2)
    ),
    "conv2d-same": Case(lambda x, w: F.conv2d(x, w, padding="same"), IMAGE, floats(6, 4, 3, 2)),
    "conv2d-valid": Case(lambda x, w: F.conv2d(x, w, padding="valid"), IMAGE, floats(6, 4, 3, 2)),
    "conv3d": Case(F.conv3d, floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2)),
    "conv2d-single": Case(F.conv2d, floats(4, 7, 6), floats(6, 4, 3, 3)),
    "conv1d-same": Case(lambda x, w: F.conv1d(x, w, padding="same"), floats(2, 4, 9), floats(6, 4, 4)),
    "conv3d-same": Case(lambda x, w: F.conv3d(x, w, padding="same"), floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2)),
    "conv-transpose1d": Case(
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
        floats(2, 4, 5),
        floats(4, 3, 3),
        floats(3),
    ),
    "conv-transpose2d": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), floats(2, 4, 5, 4), floats(4, 3, 2, 3)
    ),
    "conv-transpose3d": Case(F.conv_transpose3d, floats(1, 2, 3, 3, 3), floats(2, 2, 2, 2, 2)),
    "convolution": Case(
        lambda x, w, b: torch.convolution(x, w, b, [1, 1], [1, 0], [1, 1], False, [0, 0], 1),
        IMAGE,
        floats(6, 4, 3, 3),
        floats(6),
    ),
    "_convolution": Case(
        lambda x, w: torch._convolution(
            x, w, None, [2, 1], [0, 1], [1, 1], True, [1, 0], 1, False, False, False, False
        ),
        IMAGE,
        floats(4, 3, 3, 3),
    ),
}

POOLING = {
    "max-pool1d": unary(lambda x: F.max_pool1d(x, 3, 2, 1), floats(2, 3, 8)),
    "max-pool2d": unary(lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)), IMAGE),
    "max-pool2d-ceil": unary(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "max-pool2d-dilated": unary(lambda x: F.max_pool2d(x, 2, 1, dilation=2), IMAGE),
    "max-pool3d": unary(lambda x: F.max_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "avg-pool1d": unary(lambda x: F.avg_pool1d(x, 3, 2, 1), floats(2, 3, 8)),
    "avg-pool2d": unary(lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg-pool2d-without-padding": unary(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    "avg-pool2d-ceil": unary(lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), IMAGE),
    "avg-pool2d-divisor": unary(lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg-pool3d": unary(lambda x: F.avg_pool3d(x, 2), floats(1, 2, 4, 4, 4)),
    "adaptive-avg-pool1d": unary(lambda x: F.adaptive_avg_pool1d(x, 3), floats(2, 3, 8)),
    "adaptive-avg-pool2d": unary(lambda x: F.adaptive_avg_pool2d(x, (3, 5)), IMAGE),
    "adaptive-avg-pool2d-one": unary(lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive-avg-pool2d-even": unary(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    "adaptive-avg-pool3d": unary(lambda x: F.adaptive_avg_pool3d(x, 2), floats(1, 2, 4, 5, 4)),
    "max-pool2d-single": unary(lambda x: F.max_pool2d(x, 2), floats(4, 6, 6)),
}

RESIZES = {
    f"{mode}-{size}": unary(
        lambda x, mode=mode, size=size: F.interpolate(
            x, **({"size": size} if isinstance(size, int) else {"scale_factor": size}), mode=mode
        ),
        operand,
    )
    for mode, operand in (
        ("nearest", floats(2, 3, 7)),
        ("nearest-exact", floats(2, 3, 7)),
        ("linear", floats(2, 3, 7)),
        ("bilinear", floats(1, 2, 5, 6)),
        ("bicubic", floats(1, 2, 5, 6)),
        ("trilinear", floats(1, 1, 3, 4, 3)),
    )
    for size in (4, 9, 1.7, 2.0)
}
RESIZES |= {
    "bilinear-corners": unary(
        lambda x: F.interpolate(x, size=(8, 9), mode="bilinear", align_corners=True), floats(1, 2, 5, 6)
    ),
    "linear-corners": unary(lambda x: F.interpolate(x, size=4, mode="linear", align_corners=True), floats(2, 3, 7)),
    "nearest2d": unary(lambda x: F.interpolate(x, scale_factor=2), floats(1, 2, 5, 6)),
    "nearest3d": unary(lambda x: F.interpolate(x, size=(4, 3, 5)), floats(1, 1, 3, 4, 3)),
    "nearest-exact2d": unary(lambda x: F.interpolate(x, size=(7, 4), mode="nearest-exact"), floats(1, 2, 5, 6)),
    "nearest-exact3d": unary(lambda x: F.interpolate(x, size=(4, 3, 5), mode="nearest-exact"), floats(1, 1, 3, 4, 3)),
    "bilinear-antialias": unary(
        lambda x: F.interpolate(x, size=(3, 8), mode="bilinear", antialias=True), floats(1, 2, 7, 6)
    ),
    "bicubic-antialias": unary(
        lambda x: F.interpolate(x, size=(3, 8), mode="bicubic", antialias=True), floats(1, 2, 7, 6)
    ),
    "bicubic-corners": unary(
        lambda x: F.interpolate(x, size=(8, 4), mode="bicubic", align_corners=True), floats(1, 2, 5, 6)
    ),
}

NORMS = {
    "layer-norm": Case(lambda x, w, b: F.layer_norm(x, (5,), w, b), X, floats(5), floats(5, seed=3)),
    "layer-norm-plain": unary(lambda x: F.layer_norm(x, (3, 4)), floats(2, 3, 4)),
    "rms-norm": Case(lambda x, w: F.rms_norm(x, (5,), w, 1e-5), X, floats(5)),
    "rms-norm-plain": unary(lambda x: F.rms_norm(x, (5,))),
    "group-norm": Case(lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, floats(4), floats(4, seed=3)),
    "group-norm-plain": unary(lambda x: F.group_norm(x, 2), IMAGE),
    "instance-norm": unary(F.instance_norm, IMAGE),
    "batch-norm-batch": Case(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), IMAGE, floats(4), floats(4, seed=3)
    ),
    "local-response-norm": unary(lambda x: F.local_response_norm(x, 3), IMAGE),
    "normalize": unary(lambda x: F.normalize(x, dim=1)),
}

# Compiled with --batch-norm frozen.
STORED = {
    "batch-norm-stored": Case(
        lambda x, m, v, w: F.batch_norm(x, m.detach(), v.detach(), w), IMAGE, floats(4), positive(4), floats(4, seed=3)
    ),
}

Q, K, V = floats(2, 4, 6, 8), floats(2, 4, 7, 8, seed=1), floats(2, 4, 7, 8, seed=2)
ATTENTION = {
    "sdpa": Case(F.scaled_dot_product_attention, Q, K, V),
    "sdpa-causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        Q,
        floats(2, 4, 6, 8, seed=3),
        floats(2, 4, 6, 8, seed=4),
    ),
    "sdpa-causal-longer": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, K, V),
    "sdpa-scale": Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), Q, K, V),
    "sdpa-mask": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        Q,
        K,
        V,
        known([[i % 3 != 1 for i in range(7)]] * 6, torch.bool),
    ),
    "sdpa-mask-computed": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > -0.5), Q, K, V, floats(2, 1, 1, 7)
    ),
    "sdpa-bias": Case(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), Q, K, V, floats(4, 6, 7)),
    "sdpa-groups": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        Q,
        floats(2, 2, 7, 8),
        floats(2, 2, 7, 8, seed=3),
    ),
    "sdpa-three-dims": Case(F.scaled_dot_product_attention, floats(2, 6, 8), floats(2, 7, 8), floats(2, 7, 8, seed=3)),
    "sdpa-two-dims": Case(F.scaled_dot_product_attention, floats(6, 8), floats(7, 8), floats(7, 8, seed=3)),
}

REDUCTIONS = {
    f"{name}{suffix}": unary(
        lambda x, name=name, args=args: getattr(torch, name)(x, *args[0], **args[1]), floats(3, 4, 5)
    )
    for name in ("sum", "mean", "prod", "logsumexp", "std", "var", "amax", "amin")
    for suffix, args in (("", ((), {})), ("-dim", ((1,), {})), ("-keep", ((-1,), {"keepdim": True})))
    if not (name == "logsumexp" and suffix == "")
}
REDUCTIONS |= {
    "sum-dims": unary(lambda x: x.sum((0, 2)), floats(3, 4, 5)),
    "sum-integers": Case(lambda i: i.sum(1), fed(9, 3), gradient=False),
    "sum-booleans": unary(lambda x: (x > 0).sum(), gradient=False),
    "mean-dtype": Case(lambda i: i.mean(1, dtype=torch.float32), fed(9, 3), gradient=False),
    "max": unary(torch.max),
    "min": unary(torch.min),
    "max-dim": unary(lambda x: x.max(1)[0]),
    "min-dim": unary(lambda x: x.min(0, keepdim=True)[0]),
    "max-indices": unary(lambda x: x.max(1)[1], gradient=False),
    "min-indices": unary(lambda x: x.min(1)[1], gradient=False),
    "argmax": unary(lambda x: x.argmax(1), gradient=False),
    "argmin": unary(lambda x: x.argmin(0, keepdim=True), gradient=False),
    "argmax-all": unary(torch.argmax, gradient=False),
    "any": unary(lambda x: (x > 0.9).any(), gradient=False),
    "any-dim": unary(lambda x: (x > 0.5).any(1), gradient=False),
    "all": unary(lambda x: (x > -2).all(), gradient=False),
    "all-dim": unary(lambda x: (x > -0.5).all(1, keepdim=True), gradient=False),
    "count-nonzero": unary(lambda x: torch.count_nonzero(x > 0, 1), gradient=False),
    "var-correction": unary(lambda x: x.var(1, correction=0)),
    "std-correction": unary(lambda x: x.std((0, 1), correction=2)),
    "var-mean": unary(lambda x: torch.var_mean(x, 1)[0] + torch.var_mean(x, 1)[1]),
    "std-mean": unary(lambda x: torch.std_mean(x, 1)[0]),
    "var-biased": unary(lambda x: x.var(unbiased=False)),
    "norm": unary(torch.norm),
    "norm-dim": unary(lambda x: x.norm(dim=1)),
    "norm-one": unary(lambda x: x.norm(p=1, dim=1, keepdim=True)),
    "norm-three": unary(lambda x: torch.linalg.vector_norm(x, 3, dim=1)),
    "norm-inf": unary(lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1)),
    "norm-at-zero": unary(lambda x: torch.linalg.vector_norm(x * 0)),
    "histc": Case(lambda i: torch.histc(i.float(), bins=4, min=0, max=5), fed(7, 5), gradient=False),
    "histc-negative": unary(lambda x: torch.histc(x, 7, -0.7, 0.9), gradient=False),
    "cumsum": unary(lambda x: x.cumsum(1)),
    "cumsum-integers": Case(lambda i: i.cumsum(1), fed(9, 5), gradient=False),
    "diff": unary(lambda x: x.diff(dim=0)),
    "diff-twice": unary(lambda x: x.diff(2)),
    "prod-zero": unary(lambda x: torch.where(x > 0.8, 0.0, x).prod(1)),
}

LOGITS, LABELS = floats(4, 6), fed(6)
LOSSES = {
    "cross-entropy": Case(F.cross_entropy, LOGITS, LABELS),
    "cross-entropy-sum": Case(lambda x, y: F.cross_entropy(x, y, reduction="sum"), LOGITS, LABELS),
    "cross-entropy-none": Case(lambda x, y: F.cross_entropy(x, y, reduction="none"), LOGITS, LABELS),
    "cross-entropy-weight": Case(lambda x, y, w: F.cross_entropy(x, y, w.detach()), LOGITS, LABELS, positive(6)),
    "cross-entropy-ignored": Case(lambda x, y: F.cross_entropy(x, y, ignore_index=2), LOGITS, LABELS),
    "cross-entropy-smooth": Case(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.2), LOGITS, LABELS),
    "cross-entropy-images": Case(F.cross_entropy, floats(4, 6, 3), fed(6, 3)),
    "cross-entropy-soft": Case(lambda x, y: F.cross_entropy(x, y.softmax(1)), LOGITS, floats(4, 6, seed=5)),
    "cross-entropy-soft-smooth": Case(
        lambda x, y, w: F.cross_entropy(x, y.softmax(1).detach(), w.detach(), label_smoothing=0.1),
        LOGITS,
        floats(4, 6, seed=5),
        positive(6),
    ),
    "nll": Case(lambda x, y: F.nll_loss(x.log_softmax(1), y), LOGITS, LABELS),
    "nll-images": Case(lambda x, y: F.nll_loss(x.log_softmax(1), y), floats(4, 6, 3, 2), fed(6, 3, 2)),
    "mse": binary(F.mse_loss),
    "mse-sum": binary(lambda x, y: F.mse_loss(x, y, reduction="sum")),
    "mse-none": binary(lambda x, y: F.mse_loss(x, y, reduction="none")),
    "l1": binary(F.l1_loss),
    "smooth-l1": binary(lambda x, y: F.smooth_l1_loss(x, y, beta=0.5)),
    "huber": binary(lambda x, y: F.huber_loss(x, y, delta=0.5)),
    "bce": binary(lambda x, y: F.binary_cross_entropy(x, y.sigmoid()), floats(4, 5, low=0.1, high=0.9), Y),
    "bce-logits": binary(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid())),
    "bce-logits-weights": Case(
        lambda x, y, p: F.binary_cross_entropy_with_logits(
            x, y.sigmoid().detach(), pos_weight=p.detach(), weight=p.detach()
        ),
        X,
        Y,
        positive(5),
    ),
    "kl-div": binary(lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")),
    "kl-div-log": binary(lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum", log_target=True)),
    "cosine-similarity": binary(lambda x, y: F.cosine_similarity(x, y)),
}
