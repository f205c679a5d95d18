"""Small models of the families that users bring beside those of models.py: each with inputs and what they are trained on.

`zoo[NAME]()` returns a model and its batch, by the names of forward's arguments. The model returns its loss and what it
computes, so that one training run shows gradients and one forward run shows values.
"""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 4


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(limit, *shape, seed=0):
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(seed))


class Labelled(nn.Module):
    """Scores of classes, and their loss."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, labels, **inputs):
        scores = self.body(**inputs)
        # Classes are the last dim, but of images the second.
        isImage = scores.dim() == 4
        loss = F.cross_entropy(scores if isImage else scores.flatten(0, -2), labels if isImage else labels.flatten())
        return {"loss": loss, "scores": scores}


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
            self.third(torch.cat([a, self.up(b)], 1)) + F.interpolate(b[:, :8], scale_factor=2, mode="bilinear")
        )


class LstmLanguageModel(nn.Module):
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


class GruLanguageModel(nn.Module):
    """Two layers in both directions, as one operator."""

    def __init__(self):
        super().__init__()
        self.table, self.body = nn.Embedding(19, 8), nn.GRU(8, 6, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 19)

    def forward(self, ids):
        return self.head(self.body(self.table(ids))[0])


class StackedLstm(nn.Module):
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
        share = x.new_zeros(*x.shape[:-1], 4).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("btd,edh->bteh", x, self.up))
        return self.head(x + (torch.einsum("bteh,ehd->bted", hidden, self.down) * share.unsqueeze(-1)).sum(2))


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 6) for n in (11, 7, 5))
        self.dense, self.top = nn.Linear(4, 6), nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, numbers, ids):
        rows = torch.stack([self.dense(numbers).relu(), *(t(ids[:, i]) for i, t in enumerate(self.tables))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tensor([[1, 2, 2, 3, 3, 3], [0, 0, 1, 0, 1, 2]])
        return self.top(torch.cat([rows[:, 0], products[:, i, j]], 1))


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


def labelled(body, labels, **inputs):
    def make():
        torch.manual_seed(0)
        return Labelled(body()), inputs | {"labels": labels}

    return make


class Logits(nn.Module):
    """What a model of transformers gives."""

    def __init__(self, model, **more):
        super().__init__()
        self.model, self.more = model, more

    def forward(self, **inputs):
        return self.model(**inputs, **self.more).logits


def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    return Logits(
        MixtralForCausalLM(
            MixtralConfig(
                vocab_size=19,
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                num_local_experts=4,
                max_position_embeddings=16,
                experts_implementation="batched_mm",
            )
        ),
        use_cache=False,
    )


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return Logits(
        WhisperForConditionalGeneration(
            WhisperConfig(
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
        ),
        use_cache=False,
    )


IDS, NEXT = tokens(19, BATCH, 7), tokens(19, BATCH, 7, seed=1)
ZOO = {
    "unet": labelled(UNet, tokens(5, BATCH, 8, 8), image=draw(BATCH, 3, 8, 8)),
    "lstm": labelled(LstmLanguageModel, NEXT, ids=IDS),
    "gru": labelled(GruLanguageModel, NEXT, ids=IDS),
    "stacked-lstm": labelled(StackedLstm, NEXT, ids=IDS),
    "encoder-decoder": labelled(EncoderDecoder, tokens(19, BATCH, 5), source=IDS, target=tokens(19, BATCH, 5, seed=2)),
    "router": labelled(Router, NEXT, ids=IDS),
    "recommender": labelled(Recommender, tokens(2, BATCH), numbers=draw(BATCH, 4), ids=tokens(5, BATCH, 3)),
    "state-space": labelled(StateSpace, NEXT, ids=IDS),
    "mixtral": labelled(mixtral, NEXT, input_ids=IDS),
    "whisper": labelled(whisper, tokens(19, BATCH, 7), input_features=draw(BATCH, 8, 20), decoder_input_ids=IDS),
}
