"""The table of test_models.py: small models of many families, their inputs and labels, and what each exporter makes of them."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
import transformers
from torch import nn

import families

BATCH = 4


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(limit, *shape, seed=0):
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(seed))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU())

        self.first, self.second, self.third = block(3, 8), block(8, 16), block(16, 8)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(8, 5, 1)

    def forward(self, image):
        a = self.first(image)
        b = self.second(F.max_pool2d(a, 2))
        return self.last(
            self.third(torch.cat([a, self.up(b)], 1)) + F.interpolate(b[:, :8], scale_factor=2.0, mode="bilinear")
        )


class LstmCell(nn.Module):
    """A cell, step by step."""

    def __init__(self):
        super().__init__()
        self.table, self.cell, self.head = nn.Embedding(19, 8), nn.LSTMCell(8, 8), nn.Linear(8, 19)

    def forward(self, ids):
        h = c = self.table.weight.new_zeros(ids.shape[0], 8)
        steps = []
        for x in self.table(ids).unbind(1):
            h, c = self.cell(x, (h, c))
            steps.append(h)
        return self.head(torch.stack(steps, 1))


class LstmLanguageModel(nn.Module):
    """Two layers, as one operator."""

    def __init__(self):
        super().__init__()
        self.table, self.body, self.head = nn.Embedding(19, 8), nn.LSTM(8, 6, 2, batch_first=True), nn.Linear(6, 19)

    def forward(self, ids):
        return self.head(self.body(self.table(ids))[0])


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(19, 8), nn.Linear(8, 19)
        self.body = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.table(source), self.table(target), tgt_mask=mask, tgt_is_causal=True))


class Router(nn.Module):
    """A mixture of experts: each token goes to the two of four that its router likes best."""

    def __init__(self):
        super().__init__()
        self.table, self.gate, self.head = nn.Embedding(19, 8), nn.Linear(8, 4, bias=False), nn.Linear(8, 19)
        self.up, self.down = nn.Parameter(draw(4, 8, 16) * 0.3), nn.Parameter(draw(4, 16, 8, seed=1) * 0.3)

    def forward(self, ids):
        x = self.table(ids)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        share = torch.zeros_like(x[..., :4]).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("btd,edh->bteh", x, self.up))
        return self.head(x + (torch.einsum("bteh,ehd->bted", hidden, self.down) * share.unsqueeze(-1)).sum(2))


class Recommender(nn.Module):
    """Rows of tables, and the mean of a bag of rows, whose products with each other are features (Naumov et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 6) for n in (11, 7, 5))
        self.bag, self.dense = nn.EmbeddingBag(13, 6, mode="mean"), nn.Linear(4, 6)
        self.top = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, numbers, ids, history):
        rows = [self.dense(numbers).relu(), self.bag(history)]
        for i, table in enumerate(self.tables):
            rows.append(table(ids[:, i]))
        rows = torch.stack(rows, 1)
        pairs = torch.tril_indices(5, 5, -1)
        products = torch.bmm(rows, rows.transpose(1, 2))[:, pairs[0], pairs[1]]
        return self.top(torch.cat([rows[:, 0], products], 1))


class StateSpace(nn.Module):
    """A selective state space (Mamba): a causal convolution, and a scan that is written step by step."""

    def __init__(self):
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(19, 8), nn.Linear(8, 16), nn.Linear(8, 19)
        self.conv, self.select, self.step = nn.Conv1d(8, 8, 3, padding=2, groups=8), nn.Linear(8, 7), nn.Linear(1, 8)
        self.rates, self.skip = nn.Parameter(torch.arange(1.0, 4).log().repeat(8, 1)), nn.Parameter(torch.ones(8))

    def forward(self, ids):
        x, gate = self.inner(self.table(ids)).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., : ids.shape[1]].transpose(1, 2))
        step, b, c = self.select(x).split([1, 3, 3], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step.unsqueeze(-1) * -self.rates.exp())
        fed = step.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
        state, outputs = x.new_zeros(ids.shape[0], 8, 3), []
        for t in range(ids.shape[1]):
            state = decay[:, t] * state + fed[:, t]
            outputs.append((state * c[:, t].unsqueeze(1)).sum(-1))
        return self.head((torch.stack(outputs, 1) + x * self.skip) * F.silu(gate))


@dataclass(frozen=True)
class Row:
    """A model, which gives scores of classes, and what it is trained on."""

    build: object
    inputs: dict  # by the names of forward's arguments, in their order
    labels: torch.Tensor
    rate: float = 0.5
    axis: int = -1  # of the classes
    # Of a transformer: the constraints that split it over the axis `tensor`.
    shard: tuple = ()
    # Of training: whether PyTorch's model is in its training mode, and what polyrank-compile is told then.
    training: bool = False
    options: tuple = ()
    # What a format does not say: further options of training.
    told: dict = field(default_factory=dict)
    # Formats without a file, and what their exporter says.
    absent: dict = field(default_factory=dict)
    # Formats of which training is refused, and how.
    refused: dict = field(default_factory=dict)
    # Formats whose graphs differ from those of the first of their kind, pt2 or onnx.
    apart: tuple = ()

    def fresh(self):
        torch.manual_seed(0)
        return self.build().eval()

    def loss(self, scores):
        return F.cross_entropy(scores.movedim(self.axis, -1).flatten(0, -2), self.labels.flatten())


# ===-- of transformers --------------------------------------------------------===#


class Pretrained(nn.Module):
    """A model of transformers that gives its logits. Weights are spread, so that attention is not uniform."""

    def __init__(self, name, **options):
        super().__init__()
        config = getattr(transformers, name.partition("For")[0].removesuffix("LMHeadModel") + "Config")
        self.model = getattr(transformers, name)(config(**options))
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.dim() > 1 and parameter.requires_grad:
                    parameter.mul_(3)


class Decoder(Pretrained):
    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


class MaskedDecoder(Pretrained):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Encoder(Pretrained):
    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits


class Vision(Pretrained):
    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values).logits


class Speech(Pretrained):
    def forward(self, input_features, decoder_input_ids, decoder_attention_mask):
        return self.model(
            input_features=input_features,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            use_cache=False,
        ).logits


TEXT = dict(vocab_size=19, hidden_size=16, intermediate_size=24, num_attention_heads=4, max_position_embeddings=16)


def gpt2():
    return Decoder(
        "GPT2LMHeadModel",
        vocab_size=19,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=16,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )


def llama():
    return MaskedDecoder("LlamaForCausalLM", **TEXT, num_hidden_layers=2, num_key_value_heads=2)


def mixtral(experts):
    return MaskedDecoder(
        "MixtralForCausalLM",
        **TEXT,
        num_hidden_layers=1,
        num_key_value_heads=2,
        num_local_experts=4,
        experts_implementation=experts,
    )


def bert():
    return Encoder(
        "BertForSequenceClassification",
        **TEXT,
        num_hidden_layers=2,
        num_labels=5,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )


def vit():
    return Vision(
        "ViTForImageClassification",
        hidden_size=16,
        intermediate_size=24,
        num_attention_heads=4,
        num_hidden_layers=2,
        image_size=8,
        patch_size=4,
        num_labels=5,
    )


def mamba():
    return Decoder(
        "MambaForCausalLM", vocab_size=19, hidden_size=8, num_hidden_layers=1, state_size=3, conv_kernel=3
    )


def whisper():
    """Its sinusoids are parameters that do not train."""
    return Speech(
        "WhisperForConditionalGeneration",
        vocab_size=19,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=12,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        dropout=0.0,
    )


# ===-- the table --------------------------------------------------------------===#


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))


def resnet50():
    return families.DeepResidualNetwork((3, 4, 6, 3), 4, 5)


def split(*names):
    """Rows of these matrices, over the axis `tensor`."""
    return tuple(f"*{name}.weight=[tensor,-]" for name in names)


LENGTHS = torch.tensor([[7], [5], [6], [3]])
MASK = (torch.arange(7) < LENGTHS).long()
# No token is that of padding: some exporters leave out that it has no gradient.
IDS = tokens(18, BATCH, 7) + 1
PADDED = IDS * MASK
NEXT = tokens(19, BATCH, 7, seed=1)
PADDED_NEXT = torch.where(MASK == 1, NEXT, -100)
CLASS = tokens(5, BATCH, seed=1)
HEADS = split("q_proj", "k_proj", "v_proj")
NO_SOURCE = {"script": "Failed to get source for"}  # of no model of transformers is there a script
SINUSOIDS = ("--freeze", "*.encoder.embed_positions.weight")
ZOO = {
    "gpt2": Row(
        gpt2,
        dict(input_ids=IDS),
        NEXT,
        shard=("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", *split("wte")),
        absent=NO_SOURCE | {"onnx-old": "operator 'aten::diff' to ONNX opset version 20 is not supported"},
    ),
    "llama": Row(
        llama,
        dict(input_ids=PADDED, attention_mask=MASK),
        PADDED_NEXT,
        shard=HEADS + split("embed_tokens", "gate_proj", "up_proj"),
        absent=NO_SOURCE,
        apart=("onnx-optimized", "onnx-old"),
    ),
    "mixtral": Row(
        lambda: mixtral("batched_mm"),
        dict(input_ids=PADDED, attention_mask=MASK),
        PADDED_NEXT,
        shard=HEADS + ("*.experts.gate_up_proj=[tensor,-,-]", "*.experts.down_proj=[tensor,-,-]"),
        absent=NO_SOURCE,
        apart=("onnx-optimized", "onnx-old"),
    ),
    "bert": Row(
        bert,
        dict(
            input_ids=PADDED,
            attention_mask=MASK,
            token_type_ids=(torch.arange(7) >= 2).long() * MASK,
        ),
        CLASS,
        shard=split("query", "key", "value", "intermediate.dense"),
        absent=NO_SOURCE,
        apart=("onnx-old",),
    ),
    "vit": Row(vit, dict(pixel_values=draw(BATCH, 3, 8, 8)), CLASS, shard=HEADS + split("mlp.fc1"), absent=NO_SOURCE),
    "encoder-decoder": Row(
        EncoderDecoder,
        dict(source=IDS, target=tokens(19, BATCH, 5, seed=2)),
        tokens(19, BATCH, 5),
        shard=split("linear1") + ("head.weight=[tensor,-]",),
    ),
    "whisper": Row(
        whisper,
        dict(input_features=draw(BATCH, 8, 20), decoder_input_ids=PADDED, decoder_attention_mask=MASK),
        PADDED_NEXT,
        shard=HEADS + split("fc1"),
        told={"onnx": SINUSOIDS, "onnx-optimized": SINUSOIDS, "onnx-old": SINUSOIDS},
        absent=NO_SOURCE,
        apart=("onnx-old",),
    ),
    "mamba": Row(mamba, dict(input_ids=IDS), NEXT, absent=NO_SOURCE, apart=("onnx-old",)),
    "state-space": Row(StateSpace, dict(ids=IDS), NEXT),
    "router": Row(Router, dict(ids=IDS), NEXT),
    "recommender": Row(
        Recommender,
        dict(numbers=draw(BATCH, 4), ids=tokens(5, BATCH, 3), history=tokens(13, BATCH, 3)),
        tokens(2, BATCH),
    ),
    "lstm": Row(LstmLanguageModel, dict(ids=IDS), NEXT),
    "lstm-cell": Row(LstmCell, dict(ids=IDS), NEXT, apart=("trace",)),
    "mlp": Row(mlp, dict(input=draw(BATCH, 6)), CLASS),
    "unet": Row(UNet, dict(image=draw(BATCH, 3, 8, 8)), tokens(5, BATCH, 8, 8), axis=1),
    "resnet50": Row(
        resnet50,
        dict(x=draw(BATCH, 3, 33, 33)),
        CLASS,
        rate=0.01,
        training=True,
        options=("--batch-norm", "batch"),
        refused={"onnx-optimized": "the model has no batch normalization. Exporters merge it into the convolutions"},
    ),
}
