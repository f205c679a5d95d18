"""Cases of what is sampled, ordered and compared: cumulative ops, order statistics, distances and their losses, windows,
grids of points, triangular systems."""

import torch
import torch.nn.functional as F

from aten_case import IMAGE, X, Y, Case, binary, fed, floats, known, positive, unary

CUMULATIVE = {
    "cumprod": unary(lambda x: x.cumprod(1), floats(3, 7)),
    "cumprod-zero": unary(lambda x: torch.where(x > 0.6, 0.0, x).cumprod(0), floats(5, 4)),
    "cumprod-integers": Case(lambda i: (i + 1).cumprod(1), fed(4, 5), gradient=False),
    "cumprod-in-place": unary(lambda x: (x + 1).cumprod_(-1), floats(3, 7)),
    "logcumsumexp": unary(lambda x: torch.logcumsumexp(x * 40, 1), floats(3, 7)),
    "logcumsumexp-infinite": unary(lambda x: torch.logcumsumexp(torch.where(x > 0.3, -torch.inf, x), 1), floats(3, 7),
                                   gradient=False),
}

NANS = known([[1.0, float("nan"), 3.0, 2.0], [4.0, 1.0, 2.0, 3.0]], torch.float32)
STATISTICS = {
    "median": unary(torch.median),
    "median-dim": unary(lambda x: x.median(1).values),
    "median-keep": unary(lambda x: x.median(0, keepdim=True)[0]),
    "median-indices": unary(lambda x: x.median(1).indices, gradient=False),
    "median-integers": Case(lambda i: i.median(1).values, fed(90, 5), gradient=False),
    "median-nan": Case(lambda x: x.median(1).values, NANS, gradient=False),
    "nanmedian": Case(torch.nanmedian, NANS, gradient=False),
    "nanmedian-dim": Case(lambda x: x.nanmedian(1).values, NANS, gradient=False),
    "nanmedian-computed": unary(lambda x: torch.where(x > 0.4, torch.nan, x).nanmedian(1).values),
    "kthvalue": unary(lambda x: x.kthvalue(2).values),
    "kthvalue-keep": unary(lambda x: x.kthvalue(3, 0, keepdim=True).values),
    "quantile": unary(lambda x: x.quantile(0.3)),
    "quantile-dim": unary(lambda x: x.quantile(0.3, dim=1)),
    "quantile-keep": unary(lambda x: x.quantile(0.8, dim=0, keepdim=True)),
    "quantiles": Case(lambda x, q: x.quantile(q, dim=1), X, known([0.0, 0.25, 1.0], torch.float32)),
    "quantiles-keep": Case(lambda x, q: x.quantile(q, keepdim=True), X, known([0.1, 0.5], torch.float32)),
    "quantile-nan": Case(lambda x: x.quantile(0.5, dim=1), NANS, gradient=False),
    "nanquantile": Case(lambda x: x.nanquantile(0.6, dim=1), NANS, gradient=False),
    "nanquantile-computed": unary(lambda x: torch.where(x > 0.4, torch.nan, x).nanquantile(0.6, dim=1)),
}
STATISTICS |= {
    f"quantile-{how}": unary(lambda x, how=how: x.quantile(0.3, dim=1, interpolation=how))
    for how in ("lower", "higher", "midpoint", "nearest")
}
STATISTICS |= {
    "bucketize": Case(lambda x, b: torch.bucketize(x, b), X, known([-0.5, 0.0, 0.3], torch.float32), gradient=False),
    "bucketize-right": Case(lambda i, b: torch.bucketize(i, b, right=True, out_int32=True), fed(6, 5), known([1, 3, 4]),
                            gradient=False),
    "bucketize-nan": Case(lambda x, b: torch.bucketize(x, b), NANS, known([-0.5, 2.0], torch.float32), gradient=False),
    "searchsorted": binary(lambda x, y: torch.searchsorted(x.sort(1).values, y), X, Y, gradient=False),
    "searchsorted-one": binary(lambda x, y: torch.searchsorted(x.sort().values, y, side="right"), floats(6), Y,
                               gradient=False),
    "searchsorted-sorter": binary(lambda x, y: torch.searchsorted(x, y, sorter=x.argsort(1)), X, Y, gradient=False),
    "searchsorted-number": unary(lambda x: torch.searchsorted(x.sort().values, 0.1), floats(6), gradient=False),
}

A, B, C = floats(4, 6), floats(4, 6, seed=1), floats(4, 6, seed=2)
SIGNS = known([1, -1, 1, -1])
DISTANCES = {
    "pairwise-distance": Case(F.pairwise_distance, A, B),
    "pairwise-distance-keep": Case(lambda x, y: F.pairwise_distance(x, y, p=1, keepdim=True), A, floats(6)),
    "cdist": Case(torch.cdist, floats(5, 3), floats(7, 3)),
    "cdist-batch": Case(lambda x, y: torch.cdist(x, y, p=1), floats(2, 1, 4, 3), floats(3, 5, 3)),
    "cdist-three": Case(lambda x, y: torch.cdist(x, y, p=3.0), floats(4, 3), floats(5, 3)),
    "cdist-inf": Case(lambda x, y: torch.cdist(x, y, p=float("inf")), floats(4, 3), floats(5, 3)),
    "cdist-itself": unary(lambda x: torch.cdist(x, x), floats(5, 3)),
    "triplet-margin": Case(F.triplet_margin_loss, A, B, C),
    "triplet-margin-swap": Case(
        lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=0.5, p=1, swap=True, reduction="sum"), A, B, C
    ),
    "cosine-embedding": Case(lambda x, y, t: F.cosine_embedding_loss(x, y, t, margin=0.1), A, B, SIGNS),
    "cosine-embedding-none": Case(
        lambda x, y, t: F.cosine_embedding_loss(x, y, t.float(), reduction="none"), A, B, SIGNS
    ),
    "hinge-embedding": Case(lambda x, t: F.hinge_embedding_loss(x, t[:, None].expand(4, 6), margin=0.4), A, SIGNS),
    "hinge-embedding-other": Case(lambda x, t: F.hinge_embedding_loss(x, t[:, None] * 2, reduction="sum"), A, SIGNS),
    "margin-ranking": Case(lambda x, y, t: F.margin_ranking_loss(x, y, t[:, None], margin=0.2), A, B, SIGNS),
    "soft-margin": Case(lambda x, t: F.soft_margin_loss(x, t[:, None].float().expand(4, 6)), A, SIGNS),
    "poisson": Case(lambda x, y: F.poisson_nll_loss(x, y.detach()), A, positive(4, 6)),
    "poisson-full": Case(lambda x, y: F.poisson_nll_loss(x, (y * 3).detach(), log_input=False, full=True),
                         positive(4, 6), positive(4, 6, seed=1)),
    "multi-margin": Case(F.multi_margin_loss, A, fed(6)),
    "multi-margin-weights": Case(
        lambda x, y, w: F.multi_margin_loss(x, y, p=2, margin=0.7, weight=w.detach(), reduction="none"), A, fed(6),
        positive(6)
    ),
    "multi-margin-single": Case(lambda x, y: F.multi_margin_loss(x, y[0]), floats(6), known([2])),
    "multilabel-margin": Case(
        F.multilabel_margin_loss, A,
        known([[3, 0, -1, 1, 2, 4], [-1, 0, 1, 2, 3, 4], [5, 4, 3, 2, 1, 0], [2, -1, -1, -1, -1, -1]])
    ),
    "multilabel-margin-single": Case(F.multilabel_margin_loss, floats(4), known([2, 0, -1, 1])),
    "multilabel-soft-margin": Case(lambda x, y: F.multilabel_soft_margin_loss(x, y.sigmoid().detach()), A, B),
}

WINDOWS = {
    "im2col": unary(lambda x: F.unfold(x, (3, 2)), IMAGE),
    "im2col-strided": unary(lambda x: F.unfold(x, 3, dilation=2, padding=(1, 2), stride=(2, 1)), IMAGE),
    "im2col-single": unary(lambda x: F.unfold(x, 2), floats(4, 5, 6)),
    "col2im": unary(lambda x: F.fold(x, (4, 5), (2, 3)), floats(2, 12, 9)),
    "col2im-strided": unary(lambda x: F.fold(x, (6, 5), 3, dilation=(1, 2), padding=(1, 2), stride=2), floats(2, 18, 9)),
    "col2im-single": unary(lambda x: F.fold(x, (4, 5), 2), floats(8, 12)),
}

THETA, POINTS = floats(2, 2, 3), floats(2, 3, 5, 2, low=-1.3, high=1.3)
GRIDS = {
    "affine-grid": unary(lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False), THETA),
    "affine-grid-corners": unary(lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=True), THETA),
    "affine-grid-volume": unary(lambda t: F.affine_grid(t, (2, 1, 3, 4, 2), align_corners=False), floats(2, 3, 4)),
    "grid-sample-volume": Case(
        lambda x, g: F.grid_sample(x, g, align_corners=False), floats(2, 2, 3, 4, 3), floats(2, 2, 3, 2, 3)
    ),
    "spatial-transformer": Case(
        lambda x, t: F.grid_sample(x, F.affine_grid(t, (2, 4, 9, 8), align_corners=False), align_corners=False),
        IMAGE, THETA
    ),
}
GRIDS |= {
    f"grid-sample-{mode}-{padding}": Case(
        lambda x, g, m=mode, p=padding, c=padding != "zeros": F.grid_sample(x, g, m, p, align_corners=c), IMAGE, POINTS
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
}
GRIDS["grid-sampler-2d"] = Case(lambda x, g: torch.grid_sampler_2d(x, g, 0, 0, False), IMAGE, POINTS)
GRIDS["grid-sampler-3d"] = Case(lambda x, g: torch.grid_sampler_3d(x, g, 0, 1, True), floats(2, 2, 3, 4, 3),
                                floats(2, 2, 3, 2, 3))


def solve(**options):
    def call(a, b):
        eye = 2 * torch.eye(a.shape[-1])
        return torch.linalg.solve_triangular(torch.triu(a) + eye if options["upper"] else torch.tril(a) + eye, b,
                                             **options)

    return call


def regular(x):
    return x + 2 * torch.eye(x.shape[-1])


SOLVES = {
    "solve": Case(lambda a, b: torch.linalg.solve(a, b), floats(5, 5), floats(5, 3)),
    "solve-batch": Case(lambda a, b: torch.linalg.solve(regular(a), b), floats(2, 4, 4), floats(2, 4, seed=1)),
    "solve-vector": Case(lambda a, b: torch.linalg.solve(a, b), floats(4, 4), floats(4)),
    "inverse": unary(lambda x: torch.linalg.inv(x), floats(3, 4, 4)),
    "inverse-old": unary(lambda x: torch.inverse(regular(x)), floats(4, 4)),
    "determinant": unary(lambda x: torch.linalg.det(x), floats(3, 4, 4)),
    "determinant-old": unary(torch.det, floats(5, 5)),
    "matrix-exp": unary(torch.matrix_exp, floats(3, 4, 4)),
    "matrix-exp-large": unary(lambda x: torch.linalg.matrix_exp((x - x.mT) * 9), floats(5, 5), tolerance=1e-4),
    "solve-lower": Case(solve(upper=False), floats(5, 5), floats(5, 3)),
    "solve-upper-batch": Case(solve(upper=True), floats(2, 1, 6, 6), floats(3, 6, 2)),
    "solve-right": Case(solve(upper=False, left=False), floats(4, 4), floats(2, 3, 4)),
    "solve-unit": Case(solve(upper=True, unitriangular=True), floats(4, 4), floats(4, 2)),
    "mH": unary(lambda x: x.mH, floats(2, 3, 4)),
    "matrix-H": unary(lambda x: x.H),
    "adjoint": unary(lambda x: x.adjoint(), floats(2, 3, 4)),
    "vdot": binary(torch.vdot, floats(5), floats(5, seed=1)),
    "renorm": unary(lambda x: torch.renorm(x, 2, 0, 0.8)),
}
