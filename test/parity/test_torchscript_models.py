"""Models of many families as TorchScript, traced, and scripted where they script: outputs and first gradients."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import families
import tools
import torchscript
from test_families import BATCH, CLASSES, CONTEXT, TENSOR, TEXT, VOCAB, WIDTH
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


def mixtral():
    """Each token goes to two of four experts."""
    return pretrained("MixtralForCausalLM", **TEXT, num_key_value_heads=2, use_cache=False, num_local_experts=4,
                      max_position_embeddings=CONTEXT, experts_implementation="batched_mm")


def mamba():
    return pretrained("MambaForCausalLM", vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=1, state_size=4,
                      use_cache=False)


def t5():
    return pretrained("T5ForConditionalGeneration", vocab_size=VOCAB, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=1,
                      num_heads=4, use_cache=False)


def whisper():
    """Its sinusoids are parameters that do not train."""
    return pretrained("WhisperForConditionalGeneration", vocab_size=VOCAB, d_model=WIDTH, encoder_layers=1,
                      decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                      decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=16, max_target_positions=CONTEXT,
                      use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)


class Recurrent(nn.Module):
    """A language model of two layers in both directions."""

    def __init__(self, layer="LSTM"):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.layers = getattr(nn, layer)(WIDTH, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, input_ids):
        return self.head(self.layers(self.embedding(input_ids))[0])


def gru():
    return Recurrent("GRU")


def rnn():
    return Recurrent("RNN")


class Recommender(nn.Module):
    """Tables of embeddings, whose products with each other are features (Naumov et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(20, 8) for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Linear(8 + 6, CLASSES)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        rows = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([x, products[:, i, j]], 1))


class Sequences(nn.Module):
    """PyTorch's own encoder and decoder."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 2 * WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        return self.head(self.transformer(self.embedding(source), self.embedding(target), tgt_mask=mask))


def batchOf(kind):
    """Inputs by name, and labels."""
    random = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, VOCAB, (BATCH, CONTEXT), generator=random)
    shifted = torch.randint(VOCAB, (BATCH, CONTEXT), generator=random)
    if kind in ("image", "text"):
        return draw(kind)
    if kind == "tokens":
        return {"input_ids": tokens, "labels": shifted}
    if kind == "masked":
        return {**draw("text"), "labels": shifted}
    if kind == "pairs":
        return {"source": tokens, "target": tokens.flip(1), "labels": shifted}
    if kind == "two texts":
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "decoder_input_ids": tokens.flip(1),
                "labels": shifted}
    if kind == "sound":
        return {"input_features": torch.randn(BATCH, 8, 32, generator=random), "decoder_input_ids": tokens,
                "labels": shifted}
    return {"dense": torch.randn(BATCH, 5, generator=random),
            "sparse": torch.randint(20, (BATCH, 3), generator=random),
            "labels": torch.randint(CLASSES, (BATCH,), generator=random)}


MODELS = [
    (UNet, "image", ()), (roberta, "text", TENSOR), (decoder, "text", ()), (beit, "image", ()), (swin, "image", ()),
    (efficientnet, "image", ("--batch-norm", "frozen")), (qwen2, "masked", ()), (mixtral, "masked", ()), (mamba, "tokens", ()),
    (t5, "two texts", ()), (whisper, "sound", ()), (Recurrent, "tokens", ()), (gru, "tokens", ()), (rnn, "tokens", ()),
    (Recommender, "clicks", ()), (Sequences, "pairs", ())]


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



@pytest.mark.parametrize("build, inputs", [
    (lambda: families.Mlp.build(), {"input": torch.Size([8, 16])}),
    (lambda: families.ResNet.build(), {"x": torch.Size([8, 3, 33, 29])}),
    (Recurrent, {"input_ids": torch.Size([8, CONTEXT])}),
    (lambda: nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2,
                                                 enable_nested_tensor=False), nn.Flatten(), nn.Linear(64, 5)),
     {"input": torch.Size([8, 4, 16])}),
], ids=["mlp", "resnet", "lstm", "transformer"])
def test_scripted_models_are_pytorchs(build, inputs, tmp_path):
    torch.manual_seed(0)
    model = spread(build()).eval()
    given = {key: torch.randint(VOCAB, shape) if key == "input_ids" else torch.randn(shape)
             for key, shape in inputs.items()}
    with torch.no_grad():
        result = model(**given)
    batch = {**given, "labels": torch.randint(5, result.shape[:-1])}
    options = [word for key, t in given.items()
               for word in ("--input", f"{key}={'int64' if key == 'input_ids' else 'float32'}{list(t.shape)}")]
    if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        options += ["--batch-norm", "frozen"]
    check(torchscript.script(model, tmp_path / "model.pt"), model, given, batch, tmp_path, *options)
