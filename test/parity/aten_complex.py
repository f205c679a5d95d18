"""Cases of complex numbers, which are computed as pairs of real ones, and of Fourier transforms."""

import torch

from aten_case import X, Case, binary, floats, unary

PAIRS, OTHERS = floats(3, 4, 2), floats(3, 4, 2, seed=1)


def z(x):
    return torch.view_as_complex(x)


def real(value):
    return torch.view_as_real(value)


def pairs(call):
    """A function of two complex tensors."""
    return binary(lambda x, y: real(call(z(x), z(y))), PAIRS, OTHERS)


def pair(call, operand=PAIRS):
    return unary(lambda x: real(call(z(x))), operand)


TURNS = torch.polar(torch.ones(4), torch.linspace(0, 2, 4))

COMPLEX = {
    "add": pairs(lambda x, y: x + y),
    "sub-alpha": pairs(lambda x, y: torch.sub(x, y, alpha=0.5)),
    "mul": pairs(lambda x, y: x * y),
    "div": pairs(lambda x, y: x / y),
    "where": pairs(lambda x, y: torch.where(x.real > 0, x, y)),
    "matmul": pairs(lambda x, y: x @ y.mH),
    "einsum": pairs(lambda x, y: torch.einsum("ij,kj->ik", x, y)),
    "cat": pairs(lambda x, y: torch.cat([x, y, torch.ones(1, 4)])),
    "stack": pairs(lambda x, y: torch.stack([x, y], -1).flatten(1)),
    "mul-real": binary(lambda x, y: real(z(x) * y), PAIRS, floats(3, 4)),
    "real-add": binary(lambda x, y: real(y + z(x)), PAIRS, floats(3, 4)),
    "real-sub": binary(lambda x, y: real(y - z(x)), PAIRS, floats(3, 4)),
    "real-div": binary(lambda x, y: real(y / z(x)), PAIRS, floats(3, 4)),
    "add-number": pair(lambda x: x + 2),
    "rsub-number": pair(lambda x: 2 - x),
    "div-number": pair(lambda x: x / 3),
    "square": pair(lambda x: x**2 + x.square()),
    "exp": pair(torch.exp),
    "conj": pair(lambda x: x.conj().resolve_conj()),
    "to-device": pair(lambda x: x.to("cpu") * x.to(torch.complex64)),
    "views": pair(lambda x: x.t().reshape(2, 6)[:, 1:].unsqueeze(0).expand(3, 2, 5).permute(2, 0, 1)),
    "chunks": pair(lambda x: x.chunk(2, 1)[1] * x.split([1, 3], 1)[0]),
    "sum": pair(lambda x: x.sum(0) + x.mean(0) + x.cumsum(1)),
    "rotary": pair(lambda x: x * TURNS),
    "abs": unary(lambda x: z(x).abs(), PAIRS),
    "abs-at-zero": unary(lambda x: z(x * 0).abs(), PAIRS),
    "angle": unary(lambda x: z(x).angle(), PAIRS),
    "parts": unary(lambda x: z(x).real * z(x).imag, PAIRS),
    "shape": unary(lambda x: z(x).real.reshape(z(x).shape[1], -1) * z(x).numel() * z(x).is_complex(), PAIRS),
    "complex": binary(lambda x, y: real(torch.complex(x, y) * torch.complex(y, x))),
    "polar": binary(lambda x, y: real(torch.polar(x.abs(), y * 4))),
    "atan2": binary(torch.atan2),
    "arctan2": binary(lambda x, y: torch.arctan2(x * 5, y)),
    "real-of-real": unary(lambda x: torch.real(x) + x.conj()),
}

FOURIER = {
    "rfft": unary(lambda x: real(torch.fft.rfft(x))),
    "rfft-longer": unary(lambda x: real(torch.fft.rfft(x, 8, norm="ortho"))),
    "rfft-dim": unary(lambda x: real(torch.fft.rfft(x, 3, 0, norm="forward"))),
    "fft": unary(lambda x: real(torch.fft.fft(x))),
    "ifft": unary(lambda x: real(torch.fft.ifft(x, norm="ortho").resolve_conj())),
    "fft-complex": pair(lambda x: torch.fft.fft(x, dim=0)),
    "ifft-complex": pair(lambda x: torch.fft.ifft(x, norm="forward")),
    "irfft": unary(lambda x: torch.fft.irfft(z(x)), PAIRS),
    "irfft-odd": unary(lambda x: torch.fft.irfft(z(x), 7), PAIRS),
    "irfft-shorter": unary(lambda x: torch.fft.irfft(z(x), 4), PAIRS),
    "irfft-longer": unary(lambda x: torch.fft.irfft(z(x), 9, 0, norm="ortho"), PAIRS),
    "irfft-real": unary(torch.fft.irfft),
    "there-and-back": unary(lambda x: torch.fft.irfft(torch.fft.rfft(x), 5)),
    "fft2": unary(lambda x: real(torch.fft.fft2(x))),
    "ifft2": pair(torch.fft.ifft2),
    "rfft2": unary(lambda x: real(torch.fft.rfft2(x, norm="ortho"))),
    "irfft2": unary(lambda x: torch.fft.irfft2(z(x), s=(3, 5)), PAIRS),
    "fftn": unary(lambda x: real(torch.fft.fftn(x, dim=(0, 2))), floats(3, 2, 4)),
    "ifftn": pair(torch.fft.ifftn, floats(3, 2, 4, 2)),
    "rfftn": unary(lambda x: real(torch.fft.rfftn(x)), floats(3, 2, 4)),
    "irfftn": unary(lambda x: torch.fft.irfftn(z(x)), floats(3, 2, 4, 2)),
    "fftshift": unary(lambda x: torch.fft.fftshift(x) + torch.fft.ifftshift(x, dim=1)),
    "fftshift-complex": pair(lambda x: torch.fft.fftshift(x, dim=1)),
    "stft": unary(lambda x: real(torch.stft(x, 8, 3, return_complex=True, center=False)), floats(2, 20)),
    "stft-window": Case(
        lambda x, w: torch.stft(x, 8, 3, 6, w, normalized=True, onesided=False, return_complex=True).abs(),
        floats(20), floats(6, low=0.3, high=1.0)
    ),
    "filter": binary(lambda x, y: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * z(y), s=(4, 6), norm="ortho"),
                     floats(2, 4, 6), floats(4, 4, 2)),
}
