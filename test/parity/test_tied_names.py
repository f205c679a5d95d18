"""A tied parameter is saved under all of its names, those that nothing uses too."""

import pytest
import torch
from torch import nn

import tools
from tools import tool


class Decoder(nn.Module):
    """As BART: an embedding that only others take."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(12, 8)
        self.embed_tokens = nn.Embedding(12, 8)
        self.embed_tokens.weight = self.shared.weight
        self.mix = nn.Linear(8, 8)
        self.lm_head = nn.Linear(8, 12, bias=False)
        self.lm_head.weight = self.shared.weight

    def forward(self, ids):
        return self.lm_head(self.mix(self.embed_tokens(ids)).tanh())


class Head(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.decoder = nn.Linear(8, 12)
        self.decoder.weight = weight
        self.bias = nn.Parameter(torch.zeros(12))
        self.decoder.bias = self.bias

    def forward(self, x):
        return self.decoder(self.dense(x).tanh())


class Encoder(nn.Module):
    """As RoBERTa, BERT and DeBERTa: a bias of the head and of its last layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.lm_head = Head(self.embed.weight)

    def forward(self, ids):
        return self.lm_head(self.embed(ids))


class Unused(Encoder):
    """A layer that nothing calls is tied to nothing."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(8, 8)


class Towers(nn.Module):
    """As a model of vision and language that is given text alone: nothing calls `vision`, whose weight has the shape of the
    tied matrix, nor `narrow` and `other.shared`."""

    def __init__(self):
        super().__init__()
        self.vision, self.narrow = nn.Linear(8, 12, bias=False), nn.Linear(8, 4, bias=False)
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        self.mix = nn.Linear(8, 8)
        self.other = nn.ModuleDict({"shared": nn.Embedding(12, 8), "embed": nn.Embedding(12, 8)})

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids)))


def train(model, folder, **options):
    torch.onnx.export(model, (torch.zeros(4, 6, dtype=torch.int64),), folder / "model.onnx", input_names=["ids"],
                      output_names=["logits"], dynamo=True, verbose=False, **options)
    tools.saveData(folder / "data.npz", {"ids": torch.randint(12, (8, 6)), "labels": torch.randint(12, (8, 6))})
    _, said = tool("compile", folder / "model.onnx", "-o", folder / "plan", "--loss", "cross_entropy(logits,labels)")
    return tools.train(folder / "plan", folder / "data.npz", 1, folder / "run").tensors, said


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("make, name", [(Decoder, "shared.weight"), (Encoder, "lm_head.bias")])
def test_what_is_saved_loads_strictly(tmp_path, make, name, optimize):
    torch.manual_seed(1)
    model = make()
    tensors, said = train(model, tmp_path, optimize=optimize)
    assert f"{name}, which nothing uses, is taken as a further name of" in said
    model.load_state_dict(tensors, strict=True)


@pytest.mark.parametrize("make", [Decoder, Encoder])
def test_tied_layers_of_old_exports_are_saved_under_their_names(tmp_path, make):
    torch.manual_seed(1)
    model = make()
    torch.onnx.export(model, (torch.zeros(4, 6, dtype=torch.int64),), tmp_path / "model.onnx", input_names=["ids"],
                      output_names=["logits"], dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False)
    tools.saveData(tmp_path / "data.npz", {"ids": torch.randint(12, (8, 6)), "labels": torch.randint(12, (8, 6))})
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)")
    tensors = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run").tensors
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    # A further name of a vector, which no node tells.
    assert set(missing) <= {"lm_head.decoder.bias", "lm_head.bias"} and not unexpected
    if make is Decoder:
        model.load_state_dict(tensors, strict=True)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_weight_that_nothing_uses_is_no_name_of_a_tied_matrix(tmp_path, optimize):
    torch.manual_seed(1)
    model = Towers()
    tensors, said = train(model, tmp_path, optimize=optimize)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    unused = {"vision.weight", "narrow.weight", "other.shared.weight", "other.embed.weight"}
    assert set(missing) == unused and not unexpected
    assert "taken as a further name" not in said and all(name in said for name in unused)


def test_what_is_not_used_and_not_tied_is_not_made_up(tmp_path):
    torch.manual_seed(1)
    tensors, said = train(Unused(), tmp_path, optimize=False)
    assert "the file lacks spare.weight, spare.bias" in said
    assert "spare.weight" not in tensors and "lm_head.bias" in tensors
