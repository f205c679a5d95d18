"""Models beside those of the table, as their libraries have them: what else their exports bring along.

First gradients on real processes against PyTorch in fp64.
"""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tools
from reference import GRADIENT_RATE
from tools import tool

BATCH, VOCAB, CONTEXT, CLASSES, WIDTH = 8, 64, 16, 5, 32
TEXT = dict(vocab_size=VOCAB, num_hidden_layers=2, hidden_size=WIDTH, num_attention_heads=4,
            intermediate_size=2 * WIDTH)
TENSOR = ("--shard", "*.query.weight=[tensor,-]", "--shard", "*.key.weight=[tensor,-]",
          "--shard", "*.value.weight=[tensor,-]", "--shard", "*.intermediate.dense.weight=[tensor,-]")


class UNet(nn.Module):
    """Down and up again with skips (Ronneberger et al. 2015), each border and each resizing another."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect")
        self.norm = nn.GroupNorm(4, 8)
        self.down = nn.Conv2d(8, 16, 3, 2, 1)
        self.deeper = nn.Conv2d(16, 16, 3, 2, 1)
        self.standard = nn.BatchNorm2d(16, track_running_stats=False)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.middle = nn.Conv2d(32, 8, 3, padding=1, padding_mode="replicate")
        self.higher = nn.ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1, groups=2)
        self.last = nn.Conv2d(16, 16, 3, padding=1, padding_mode="circular")
        self.head = nn.Linear(64, CLASSES)

    def forward(self, pixel_values):
        a = functional.silu(self.norm(self.first(pixel_values)))
        b = functional.silu(self.down(a))
        c = functional.silu(self.standard(self.deeper(b)))
        x = functional.silu(self.middle(torch.cat([self.up(c), b], 1)))
        x = self.last(torch.cat([self.higher(x), a], 1))
        x = functional.interpolate(x, scale_factor=2, mode="bilinear")
        x = functional.interpolate(x, size=(20, 24), mode="nearest")
        x = functional.pixel_unshuffle(functional.pixel_shuffle(x, 2), 2)
        x = functional.interpolate(x, size=(17, 9), mode="bicubic", align_corners=True)
        x[:, 2:4] = x[:, :2] * 0.5  # written in place
        products = torch.einsum("nchw,nkhw->nck", x, x) / 64
        return self.head(products[:, :, :4].flatten(1))


def roberta():
    """Its positions are a running sum of the mask."""
    from transformers import RobertaConfig, RobertaForSequenceClassification
    return RobertaForSequenceClassification(RobertaConfig(
        **TEXT, max_position_embeddings=CONTEXT + 2, pad_token_id=1, num_labels=CLASSES))


def decoder():
    """A decoder that classifies, by what it says of its last token."""
    from transformers import GPT2Config, GPT2ForSequenceClassification
    return GPT2ForSequenceClassification(GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=2, n_head=4, use_cache=False,
        pad_token_id=1, num_labels=CLASSES))


def beit():
    """Its table of relative positions is resized, and written element by element."""
    from transformers import BeitConfig, BeitForImageClassification
    model = BeitForImageClassification(BeitConfig(
        num_hidden_layers=1, hidden_size=WIDTH, num_attention_heads=4, intermediate_size=2 * WIDTH,
        image_size=32, patch_size=8, use_relative_position_bias=True, num_labels=CLASSES))
    model.set_attn_implementation("eager")  # PyTorch 2.13 does not export the other
    return model


def swin():
    from transformers import SwinConfig, SwinForImageClassification
    model = SwinForImageClassification(SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
        num_labels=CLASSES))
    model.set_attn_implementation("eager")
    return model


def efficientnet():
    """Its last pool reaches behind the image. Squeeze and excitation, depthwise convolutions."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification
    return EfficientNetForImageClassification(EfficientNetConfig(
        image_size=32, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320, num_labels=CLASSES))


def spread(model):
    """As in models.py: attention is not uniform, and no term of a gradient vanishes by chance."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
            else:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=random))
    return model


def draw(kind):
    random = torch.Generator().manual_seed(2)
    labels = torch.randint(CLASSES, (BATCH,), generator=random)
    if kind == "image":
        return {"pixel_values": torch.randn(BATCH, 3, 32, 32, generator=random), "labels": labels}
    length = torch.randint(CONTEXT // 2, CONTEXT + 1, (BATCH, 1), generator=random)
    mask = torch.arange(CONTEXT) < length
    ids = torch.where(mask, torch.randint(3, VOCAB, (BATCH, CONTEXT), generator=random), 1)
    return {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}


def logits(output):
    return getattr(output, "logits", output)


def export(model, path, inputs, outputs):
    torch.onnx.export(model, (), str(path), kwargs=inputs, input_names=list(inputs), output_names=outputs,
                      dynamo=True, optimize=False, external_data=False, verbose=False)


def firstGradients(plan, data, model, folder):
    """What one step on `plan`, which takes SGD with GRADIENT_RATE, says of each parameter, and the loss."""
    run = tools.train(plan, data, 1, folder / "run")
    return {name: (p.detach().double() - run.tensors[name].double()) / GRADIENT_RATE
            for name, p in model.named_parameters()}, run.losses[0]


def gradientsOf(model, lossOf, dtype):
    model = copy.deepcopy(model).to(dtype)
    loss = lossOf(model, dtype)
    loss.backward()
    return {name: p.grad.double() for name, p in model.named_parameters()}, loss.item()


def differences(ours, theirs):
    """Relative to each gradient; what is nothing but rounding, to a small part of the largest."""
    least = 1e-4 * max(gradient.norm() for gradient in theirs.values())
    return {name: ((ours[name] - gradient).norm() / max(gradient.norm(), least)).item()
            for name, gradient in theirs.items()}


def compare(plan, data, model, lossOf, folder):
    ours, loss = firstGradients(plan, data, model, folder)
    exact, expected = gradientsOf(model, lossOf, torch.float64)
    spreads = differences(gradientsOf(model, lossOf, torch.float32)[0], exact)
    assert loss == pytest.approx(expected, rel=1e-5)
    name, difference = max(differences(ours, exact).items(), key=lambda item: item[1])
    assert difference <= 1e-4 or difference <= 3 * max(spreads.values()), name


def compile(onnx, plan, loss, *options):
    tool("compile", onnx, "-o", plan, "--loss", loss, "--optimizer", f"sgd(lr={GRADIENT_RATE:.0f})",
         "--threads", 1, "--zero-threshold", 1, *options)
    return plan


def name(value):
    """Of a test's parameter: the model, the kind of its data, its mesh."""
    if callable(value):
        return value.__name__
    return value if isinstance(value, str) else value[1].replace("=", "")


@pytest.mark.parametrize("build, kind, options", [
    (roberta, "text", ("--mesh", "data=2,tensor=2", *TENSOR)),
    (decoder, "text", ("--mesh", "data=2",)),
    (UNet, "image", ("--mesh", "data=2",)),
    (UNet, "image", ("--mesh", "data=2,space=2", "--shard", "pixel_values=[data,-,space,-]")),
    (beit, "image", ("--mesh", "data=2",)),
    (swin, "image", ("--mesh", "data=2",)),
    (efficientnet, "image", ("--mesh", "data=2", "--batch-norm", "batch")),
], ids=name)
def test_first_gradients_are_pytorchs(build, kind, options, tmp_path):
    torch.manual_seed(0)
    model = spread(build()).eval()
    batch = draw(kind)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    export(model, tmp_path / "model.onnx", inputs, ["logits"])
    tools.saveData(tmp_path / "data.npz", batch)
    if "--batch-norm" in options:
        model.train()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.eval()

    def lossOf(model, dtype):
        given = {name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()}
        return functional.cross_entropy(logits(model(**given)), batch["labels"])

    plan = compile(tmp_path / "model.onnx", tmp_path / "plan", "cross_entropy(logits,labels)", *options)
    compare(plan, tmp_path / "data.npz", model, lossOf, tmp_path)


@pytest.mark.parametrize("mesh", ["data=2", "data=4"])
def test_the_loss_that_a_model_was_exported_with(mesh, tmp_path):
    """Labels are shifted and padded inside of the model; ranks have unequal numbers of them."""
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    model = spread(LlamaForCausalLM(LlamaConfig(
        **TEXT, num_key_value_heads=2, max_position_embeddings=CONTEXT, use_cache=False))).eval()
    batch = draw("text")
    batch["labels"] = torch.where(batch["attention_mask"] == 1, batch["input_ids"], -100)
    export(model, tmp_path / "model.onnx", batch, ["loss", "logits"])
    tools.saveData(tmp_path / "data.npz", batch)
    plan = compile(tmp_path / "model.onnx", tmp_path / "plan", "output(loss)", "--mesh", mesh)
    compare(plan, tmp_path / "data.npz", model, lambda model, dtype: model(**batch).loss, tmp_path)


def test_an_embedding_is_asked_for_what_it_has(tmp_path):
    """PyTorch says "index out of range in self"; nothing is looked up silently."""
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(7, 4), nn.Linear(4, CLASSES)

        def forward(self, ids):
            return self.head(self.table(ids))

    batch = {"ids": torch.arange(8) % 7, "labels": torch.arange(8) % CLASSES}
    export(Table(), tmp_path / "model.onnx", {"ids": batch["ids"]}, ["logits"])
    plan = compile(tmp_path / "model.onnx", tmp_path / "plan", "cross_entropy(logits,labels)", "--mesh", "data=2")
    for wrong in (7, -1):
        batch["ids"][5] = wrong
        np.savez(tmp_path / "data.npz", **{name: tensor.numpy() for name, tensor in batch.items()})
        _, error = tool("run", plan, "--data", tmp_path / "data.npz", "--steps", 1, "--order", "sequential", code=1)
        assert (f"data.npz, array 'ids': value {wrong} at element 5 (sample 5), but input 'ids' takes i64 in [0, 7)"
                in error)
