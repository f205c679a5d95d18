"""Steps in bf16 and fp16: gradients are as near to PyTorch's in fp32 as those of torch.autocast are."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import families
import sampling
import tools
import zoo
from exporters import FORMATS
from reference import GRADIENT_RATE
from shared import perName
from zoo import Row, draw, split, tokens

BATCH, LENGTH, VOCAB, WIDTH = 8, 24, 211, 64
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TEXT = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=96, num_attention_heads=4, max_position_embeddings=32)
IDS, NEXT = tokens(VOCAB - 1, BATCH, LENGTH) + 1, tokens(VOCAB, BATCH, LENGTH, seed=1)
MASK = (torch.arange(LENGTH) < torch.tensor([[24], [17], [24], [9], [24], [20], [12], [24]])).long()
CLASS = tokens(5, BATCH, seed=1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.body, self.head = nn.Embedding(VOCAB, 32), nn.LSTM(32, 48, 2, batch_first=True), nn.Linear(48, VOCAB)

    def forward(self, ids):
        return self.head(self.body(self.table(ids))[0])


class T5(zoo.Pretrained):
    def forward(self, input_ids, decoder_input_ids):
        return self.model(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False).logits


def gpt2():
    return zoo.Decoder("GPT2LMHeadModel", vocab_size=VOCAB, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0,
                       embd_pdrop=0, attn_pdrop=0)


MODELS = {
    "gpt2": Row(gpt2, dict(input_ids=IDS), NEXT, shard=("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", *split("wte"))),
    "llama": Row(lambda: zoo.MaskedDecoder("LlamaForCausalLM", **TEXT, num_hidden_layers=2, num_key_value_heads=2),
                 dict(input_ids=IDS, attention_mask=MASK), torch.where(MASK == 1, NEXT, -100),
                 shard=zoo.HEADS + split("embed_tokens", "gate_proj", "up_proj")),
    "bert": Row(lambda: zoo.Encoder("BertForSequenceClassification", **TEXT, num_hidden_layers=2, num_labels=5,
                                    hidden_dropout_prob=0, attention_probs_dropout_prob=0),
                dict(input_ids=IDS, attention_mask=MASK, token_type_ids=torch.zeros_like(IDS)), CLASS,
                shard=split("query", "key", "value", "intermediate.dense")),
    "vit": Row(lambda: zoo.Vision("ViTForImageClassification", hidden_size=WIDTH, intermediate_size=96, num_attention_heads=4,
                                  num_hidden_layers=2, image_size=16, patch_size=4, num_labels=5),
               dict(pixel_values=draw(BATCH, 3, 16, 16)), CLASS, shard=zoo.HEADS + split("mlp.fc1")),
    "t5": Row(lambda: T5("T5ForConditionalGeneration", vocab_size=VOCAB, d_model=WIDTH, d_kv=16, d_ff=96, num_layers=2,
                         num_heads=4, dropout_rate=0, decoder_start_token_id=0),
              dict(input_ids=IDS, decoder_input_ids=tokens(VOCAB, BATCH, LENGTH, seed=2)), NEXT,
              shard=split("SelfAttention.q", "SelfAttention.k", "SelfAttention.v", "wi")),
    "resnet": Row(lambda: families.DeepResidualNetwork((1, 1, 1, 1), 16, 5), dict(x=draw(BATCH, 3, 33, 33)), CLASS, training=True,
                  options=("--batch-norm", "batch"), shard=("*.conv2.weight=[-,tensor,-,-]",)),
    "lstm": Row(Lstm, dict(ids=IDS), NEXT, shard=("head.weight=[-,tensor]",)),
    "experts": Row(lambda: zoo.MaskedDecoder("MixtralForCausalLM", **TEXT, num_hidden_layers=1, num_key_value_heads=2,
                                             num_local_experts=4, experts_implementation="grouped_mm"),
                   dict(input_ids=IDS, attention_mask=MASK), torch.where(MASK == 1, NEXT, -100), shard=zoo.HEADS),
}


class Subject:
    """A model, its file, and PyTorch's gradients."""

    def __init__(self, name, folder):
        self.row, self.folder = MODELS[name], folder
        self.model = self.row.fresh()
        self.file = FORMATS["pt2"](copy.deepcopy(self.model), self.row.inputs, folder / "model")
        tools.saveData(folder / "data.npz", self.row.inputs | {"labels": self.row.labels})
        self.known = {}

    def theirs(self, precision):
        """The first gradients of PyTorch, by name."""
        if precision not in self.known:
            model = copy.deepcopy(self.model).train(self.row.training)
            # oneDNN has an LSTM of narrow types on some CPUs alone, PyTorch has its own on all.
            with (torch.backends.mkldnn.flags(enabled=not isinstance(model, Lstm)),
                  torch.autocast("cpu", TYPES.get(precision, torch.bfloat16), enabled=precision != "fp32")):
                loss = self.row.loss(model(**self.row.inputs))
            loss.backward()
            self.known[precision] = {key: torch.zeros_like(p).double() if p.grad is None else p.grad.double()
                                     for key, p in model.named_parameters()}
        return self.known[precision]

    def ours(self, folder, *options):
        axis = f",axis={self.row.axis}" if self.row.axis >= 0 else ""
        _, said = tools.tool("compile", self.file, "-o", folder / "plan", "--loss", f"cross_entropy(output,labels{axis})",
                             "--optimizer", "sgd(lr=1)", "--zero-threshold", 1, "--threads", 1, *self.row.options, *options)
        after = tools.train(folder / "plan", self.folder / "data.npz", 1, folder / "run", "--lr", f"{GRADIENT_RATE:.0f}").tensors
        before = self.model.state_dict()
        return {key: (before[key].double() - after[key].double()) / GRADIENT_RATE for key in self.theirs("fp32")}, said


subject = perName(Subject)


def distances(left, right):
    """||a - b|| / ||b|| of each parameter."""
    return {key: ((left[key] - b).norm() / b.norm()).item() if b.norm() else left[key].norm().item() for key, b in right.items()}


MESHES = {"one": (), "data": ("--mesh", "data=2"), "tensor": ("--mesh", "tensor=2"), "zero3": ("--mesh", "data=2", "--zero", 3)}


TABLE = [(name, mesh) for name in MODELS for mesh in MESHES]


def valuesOf(cell):
    """In a sample each model is on one mesh; these take turns."""
    name, mesh = cell
    return {cell} if mesh == list(MESHES)[list(MODELS).index(name) % len(MESHES)] else ()


@pytest.mark.parametrize("name, mesh", sampling.rows(TABLE, valuesOf, name="-".join))
def test_gradients_in_bf16_are_as_near_as_those_of_autocast(name, mesh, subject, tmp_path):
    model = subject(name)
    shard = [word for each in model.row.shard if mesh == "tensor" for word in ("--shard", each)]
    ours, _ = model.ours(tmp_path, "--precision", "bf16", *MESHES[mesh], *shard)
    exact, autocast = model.theirs("fp32"), model.theirs("bf16")
    theirs = distances(autocast, exact)
    for key, distance in distances(ours, exact).items():
        assert distance <= 1.5 * theirs[key] + 1e-5, (key, distance, theirs[key])
    for key, distance in distances(ours, autocast).items():
        assert distance <= 3 * theirs[key] + 1e-5, (key, distance, theirs[key])
