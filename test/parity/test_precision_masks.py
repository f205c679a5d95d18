"""Masks of attention in bf16 and fp16: no NaN where PyTorch in fp32 has none.

What hides a key in f32, such as -3.4e38, is an infinity in bf16 and fp16. A row that hides all keys is then NaN, and so is
the sum of two masks, if the program adds them in the low type.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from test_precision import TYPES, distances
from test_precision_cases import Trained, draw

BATCH, LENGTH, WIDTH, HEADS, CLASSES = 4, 12, 32, 2, 5
LEAST = torch.finfo(torch.float32).min
# Which keys of each sample are seen: the second sample sees none, the third begins with padding.
KEEP = torch.ones(BATCH, LENGTH, dtype=torch.bool)
KEEP[1], KEEP[2, :4] = False, False


def causal(value):
    return torch.full((LENGTH, LENGTH), value).triu(1)


def hidden(keep, value):
    """A mask of float32 that is added to scores: `value` for a key that is not seen."""
    return torch.zeros(keep.shape).masked_fill(~keep, value)[:, None, None]


def inParts(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v


def asOne(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def asOneOfBooleans(q, k, v, keep):
    return asOne(q, k, v, keep[:, None, None].expand(-1, 1, LENGTH, -1))


def addedTwice(q, k, v, keep):
    """Each mask is added to the scores by itself, so that a key of both is hidden by the sum."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + causal(-1e38)
    return torch.softmax(scores + hidden(keep, -1e38), -1) @ v


# A function of queries, keys, values, and of which keys are seen.
MASKS = {
    "smallest number, in parts": lambda q, k, v, keep: inParts(q, k, v, hidden(keep, LEAST)),
    "smallest number, as one": lambda q, k, v, keep: asOne(q, k, v, hidden(keep, LEAST)),
    "-1e30, in parts": lambda q, k, v, keep: inParts(q, k, v, hidden(keep, -1e30)),
    "two masks, in parts": lambda q, k, v, keep: inParts(q, k, v, causal(-1e38) + hidden(keep, -1e38)),
    "two masks, as one": lambda q, k, v, keep: asOne(q, k, v, causal(-1e38) + hidden(keep, -1e38)),
    "two masks, added to scores": addedTwice,
    "fp16's smallest number twice": lambda q, k, v, keep: inParts(q, k, v, causal(-65504.0) + hidden(keep, -65504.0)),
    "booleans": asOneOfBooleans,
    "infinite and causal": lambda q, k, v, keep: asOne(q, k, v, causal(-math.inf)),
}


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        torch.manual_seed(3)
        self.attend = attend
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x, keep):
        q, k, v = (each.view(*each.shape[:2], HEADS, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        return self.head(self.attend(q, k, v, keep).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("precision", TYPES)
def test_masks_give_no_nan_in_low_precision(precision, mask, tmp_path):
    """Gradients are those of fp32 to a unit or two of the low type. PyTorch's are those of its plain kernel: the backward of
    its fused one, which keeps the logarithm of a sum beside -3.4e38, gives a row that sees no key weights that add up to 12."""
    inputs = dict(x=draw(BATCH, LENGTH, WIDTH), keep=KEEP)
    labels = torch.randint(CLASSES, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    case = Trained(Attention(MASKS[mask]), inputs, labels, tmp_path)
    with sdpa_kernel(SDPBackend.MATH):
        exact = case.theirs()
    assert all(each.isfinite().all() for each in exact.values())
    ours = case.gradients("--precision", precision, "--mesh", "data=1", rate=2**20)
    for name, distance in distances(ours, exact).items():
        assert ours[name].isfinite().all() and distance <= 1.5 * torch.finfo(TYPES[precision]).eps, (name, distance)
