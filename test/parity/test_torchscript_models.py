"""Models of many families as TorchScript, traced, and scripted where they script: outputs and first gradients."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tools
import torchscript
from test_families import BATCH, CONTEXT, TENSOR, TEXT, VOCAB, WIDTH
from test_families import UNet, beit, compare, compile, decoder, draw, efficientnet, logits, roberta, spread, swin
from tools import tool

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import export_torchscript


def pretrained(architecture, **options):
    """A model of transformers for sequences, of the test's sizes, and what its forward is given."""
    import transformers
    config = getattr(transformers, architecture.split("For")[0] + "Config")
    return getattr(transformers, architecture)(config(**options))


def qwen2():
    return pretrained("Qwen2ForCausalLM", **TEXT, num_key_value_heads=2, use_cache=False)


def t5():
    return pretrained("T5ForConditionalGeneration", vocab_size=VOCAB, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=1,
                      num_heads=4, use_cache=False)


def batchOf(kind):
    """Inputs by name, and labels."""
    random = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, VOCAB, (BATCH, CONTEXT), generator=random)
    shifted = torch.randint(VOCAB, (BATCH, CONTEXT), generator=random)
    if kind in ("image", "text"):
        return draw(kind)
    if kind == "masked":
        return {**draw("text"), "labels": shifted}
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "decoder_input_ids": tokens.flip(1),
            "labels": shifted}


# Beside those of test_models.py.
MODELS = [
    (UNet, "image", ()), (roberta, "text", TENSOR), (decoder, "text", ()), (beit, "image", ()), (swin, "image", ()),
    (efficientnet, "image", ("--batch-norm", "frozen")), (qwen2, "masked", ()), (t5, "two texts", ())]


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
@pytest.mark.parametrize("build, kind, options", MODELS, ids=[build.__name__ for build, _, _ in MODELS])
def test_outputs_and_first_gradients_are_pytorchs(build, kind, options, mesh, tmp_path):
    torch.manual_seed(0)
    model = spread(build()).eval()
    batch = batchOf(kind)
    inputs = {key: tensor for key, tensor in batch.items() if key != "labels"}
    isSplit = options == TENSOR and mesh == "data=2"
    check(torchscript.trace(model, inputs, tmp_path / "model.pt"), model, inputs, batch, tmp_path,
          "--mesh", mesh + (",tensor=2" if isSplit else ""), *(options if isSplit or options != TENSOR else ()))


def check(file, model, inputs, batch, folder, *options):
    with torch.no_grad():
        result = model(**inputs)
    output = "output" if torch.is_tensor(result) else "logits"
    theirs = logits(result).numpy()
    tools.saveData(folder / "in.npz", inputs)
    tool("compile", file, "-o", folder / "forward", "--mode", "forward", "--threads", 1, *options,
         *(("--eval",) if "--train" not in options else ()))
    tool("run", folder / "forward", "--inputs", folder / "in.npz", "--outputs", folder / "out.npz")
    ours = np.load(folder / "out.npz")[output]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()

    def lossOf(model, dtype):
        given = {key: t.to(dtype) if t.is_floating_point() else t for key, t in inputs.items()}
        y = logits(model(**given))
        return functional.cross_entropy(y.flatten(0, -2), batch["labels"].flatten())

    tools.saveData(folder / "data.npz", batch)
    plan = compile(file, folder / "plan", f"cross_entropy({output},labels)", *options)
    compareTrained(plan, folder / "data.npz", model, lossOf, folder)


def compareTrained(plan, data, model, lossOf, folder):
    """`compare` of the parameters that train; the others are as they were."""
    fixed = {key: p for key, p in model.named_parameters() if not p.requires_grad}
    trained = copy.deepcopy(model)
    for key in fixed:
        owner = trained.get_submodule(key.rpartition(".")[0])
        value = owner._parameters.pop(key.rpartition(".")[2])
        owner.register_buffer(key.rpartition(".")[2], value.detach())
    compare(plan, data, trained, lossOf, folder)
    after = tools.load_file(folder / "run.safetensors")
    for key, parameter in fixed.items():
        assert torch.equal(after[key], parameter), key


@pytest.mark.parametrize("mesh", ["data=1", "data=2"])
def test_a_scripted_model_of_branches_and_loops_is_pytorchs(mesh, tmp_path):
    torch.manual_seed(0)
    model = export_torchscript.Scripted().eval()
    inputs = {"x": torch.randn(BATCH, 4)}
    batch = {**inputs, "labels": torch.randint(4, (BATCH,))}
    check(torchscript.script(model, tmp_path / "model.pt"), model, inputs, batch, tmp_path,
          "--input", f"x=float32[{BATCH},4]", "--mesh", mesh)


def test_a_scripted_encoder_is_pytorchs(tmp_path):
    """Whose layers have a fast path of their own, which a script asks about."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = spread(nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(64, 5)))
    inputs = {"input": torch.randn(BATCH, 4, 16)}
    batch = {**inputs, "labels": torch.randint(5, (BATCH,))}
    check(torchscript.script(model.eval(), tmp_path / "model.pt"), model, inputs, batch, tmp_path, "--input",
          f"input=float32[{BATCH},4,16]")
