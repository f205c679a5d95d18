"""The model families of the parity tests: how each is built, exported and fed.

Each is the model as its library has it, without a wrapper. A family has
`build(**options)`, `inputs` (names and dtypes), `export(model, path, batch,
dynamic, external)`, `call(model, batch)` giving the logits, `scale`, by which
matrices are spread further than a fresh model's, and `draw(build, samples,
random)` giving inputs and labels by name.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import export_gpt2
import export_mlp


def follow(tokens, vocab, random):
    """Lets half of the tokens follow from the one before: something to learn."""
    for i in range(1, tokens.shape[1]):
        known = torch.rand(len(tokens), generator=random) < 0.5
        tokens[known, i] = (3 * tokens[known, i - 1] + 1) % vocab
    return tokens


def nextTokens(vocab, length, samples, random):
    tokens = follow(torch.randint(vocab, (samples, length + 1), generator=random), vocab, random)
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}


class Gpt2:
    scale = 6
    build = staticmethod(export_gpt2.build)
    export = staticmethod(export_gpt2.export)

    @staticmethod
    def call(model, batch):
        return model(batch["input_ids"]).logits

    @staticmethod
    def draw(build, samples, random):
        return nextTokens(build["vocab"], build["context"], samples, random)

    @staticmethod
    def shapes(build, batch):
        return {"input_ids": f"int64[{batch},{build['context']}]"}


class Mlp:
    scale = 1
    build = staticmethod(export_mlp.build)
    export = staticmethod(export_mlp.export)

    @staticmethod
    def call(model, batch):
        return model(batch["x"])

    @staticmethod
    def draw(build, samples, random):
        widths = build["widths"]
        return {"x": torch.randn(samples, widths[0], generator=random),
                "labels": torch.randint(widths[-1], (samples,), generator=random),
                "target": torch.randn(samples, widths[-1], generator=random)}

    @staticmethod
    def shapes(build, batch):
        return {"x": f"float32[{batch},{build['widths'][0]}]"}


class Exported:
    """A model that is called with keyword arguments, exported as it is called."""

    scale = 6

    @classmethod
    def export(cls, model, path, batch=8, dynamic=False, external=False):
        inputs = {name: tensor[:batch] for name, tensor in cls.draw(
            cls.options(model), batch, torch.Generator().manual_seed(0)).items() if name != "labels"}
        torch.onnx.export(
            model, (), path, kwargs=inputs, input_names=list(inputs), output_names=["logits"],
            dynamic_shapes={name: {0: torch.export.Dim("batch")} for name in inputs} if dynamic else None,
            dynamo=True, optimize=False, external_data=external, verbose=False)

    @classmethod
    def call(cls, model, batch):
        output = model(**{name: t for name, t in batch.items() if name != "labels"})
        return getattr(output, "logits", output)

    @staticmethod
    def options(model):
        return model.options


class Llama(Exported):
    """Rotary positions, RMS norms, grouped-query attention, SwiGLU."""

    @staticmethod
    def build(layers=2, heads=4, groups=2, width=32, vocab=64, context=16, tied=False):
        from transformers import LlamaConfig, LlamaForCausalLM
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(
            num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups,
            hidden_size=width, intermediate_size=2 * width, vocab_size=vocab,
            max_position_embeddings=context, tie_word_embeddings=tied, use_cache=False))
        model.options = dict(vocab=vocab, context=context)
        return model

    @staticmethod
    def draw(build, samples, random):
        return nextTokens(build["vocab"], build["context"], samples, random)


class Bert(Exported):
    """An encoder with masks and token types, classifying sequences."""

    @staticmethod
    def build(layers=2, heads=4, width=32, vocab=64, context=16, classes=5):
        from transformers import BertConfig, BertForSequenceClassification
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(
            num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width,
            intermediate_size=2 * width, vocab_size=vocab, max_position_embeddings=context,
            num_labels=classes))
        model.options = dict(vocab=vocab, context=context, classes=classes)
        return model

    @staticmethod
    def draw(build, samples, random):
        vocab, context = build["vocab"], build["context"]
        length = torch.randint(context // 2, context + 1, (samples, 1), generator=random)
        second = torch.randint(2, context, (samples, 1), generator=random)
        at = torch.arange(context)
        return {"input_ids": torch.randint(vocab, (samples, context), generator=random),
                "attention_mask": (at < length).long(), "token_type_ids": (at >= second).long(),
                "labels": torch.randint(build["classes"], (samples,), generator=random)}


class Translator(Exported):
    """An encoder with a mask, a decoder that reads it in every layer, and one table of words for both and the head."""

    class Layer(torch.nn.Module):
        def __init__(self, width, heads, isDecoder):
            super().__init__()
            self.heads, self.isDecoder = heads, isDecoder
            names = ["self"] + ["cross"] * isDecoder
            self.norms = torch.nn.ModuleDict({n: torch.nn.LayerNorm(width) for n in names + ["mlp"]})
            self.query = torch.nn.ModuleDict({n: torch.nn.Linear(width, width) for n in names})
            self.keyValue = torch.nn.ModuleDict({n: torch.nn.Linear(width, 2 * width) for n in names})
            self.out = torch.nn.ModuleDict({n: torch.nn.Linear(width, width) for n in names})
            self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

        def attend(self, name, x, source, mask, isCausal):
            def split(t):
                return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

            k, v = self.keyValue[name](source).chunk(2, -1)
            y = torch.nn.functional.scaled_dot_product_attention(
                split(self.query[name](x)), split(k), split(v), attn_mask=mask, is_causal=isCausal)
            return self.out[name](y.transpose(1, 2).flatten(2))

        def forward(self, x, mask, memory=None):
            h = self.norms["self"](x)
            x = x + self.attend("self", h, h, None if self.isDecoder else mask, self.isDecoder)
            if self.isDecoder:
                x = x + self.attend("cross", self.norms["cross"](x), memory, mask, False)
            return x + self.down(torch.nn.functional.gelu(self.up(self.norms["mlp"](x))))

    class Model(torch.nn.Module):
        def __init__(self, layers, heads, width, vocab, context):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(vocab, width), torch.nn.Embedding(context, width)
            self.encoder = torch.nn.ModuleList(Translator.Layer(width, heads, False) for _ in range(layers))
            self.decoder = torch.nn.ModuleList(Translator.Layer(width, heads, True) for _ in range(layers))
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, source_ids, source_mask, input_ids):
            mask = source_mask.bool()[:, None, None, :]
            at = torch.arange(source_ids.shape[1])
            memory = self.words(source_ids) + self.places(at)
            for layer in self.encoder:
                memory = layer(memory, mask)
            x = self.words(input_ids) + self.places(at)
            for layer in self.decoder:
                x = layer(x, mask, memory)
            return torch.nn.functional.linear(self.norm(x), self.words.weight)

    @staticmethod
    def build(layers=2, heads=4, width=32, vocab=64, context=12):
        torch.manual_seed(0)
        model = Translator.Model(layers, heads, width, vocab, context)
        model.options = dict(vocab=vocab, context=context)
        return model

    scale = 1

    @staticmethod
    def draw(build, samples, random):
        vocab, context = build["vocab"], build["context"]
        length = torch.randint(context // 2, context + 1, (samples, 1), generator=random)
        return {"source_ids": torch.randint(vocab, (samples, context), generator=random),
                "source_mask": (torch.arange(context) < length).long(), **nextTokens(vocab, context, samples, random)}


class VisionTransformer(Exported):
    @staticmethod
    def build(layers=2, heads=4, width=32, image=16, patch=4, classes=5):
        from transformers import ViTConfig, ViTForImageClassification
        torch.manual_seed(0)
        model = ViTForImageClassification(ViTConfig(
            num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width,
            intermediate_size=2 * width, image_size=image, patch_size=patch, num_labels=classes))
        model.options = dict(image=image, classes=classes)
        return model

    @staticmethod
    def draw(build, samples, random):
        image = build["image"]
        return {"pixel_values": torch.randn(samples, 3, image, image, generator=random),
                "labels": torch.randint(build["classes"], (samples,), generator=random)}


class ResidualBlock(torch.nn.Module):
    """Two 3x3 convolutions with batch norm around a shortcut (He et al. 2016)."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(after)
        self.conv2 = torch.nn.Conv2d(after, after, 3, 1, 1, groups=2)
        self.bn2 = torch.nn.BatchNorm2d(after)
        self.shortcut = torch.nn.Identity() if stride == 1 and before == after else \
            torch.nn.Sequential(torch.nn.Conv2d(before, after, 1, stride, bias=False),
                                torch.nn.BatchNorm2d(after))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResidualNetwork(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        self.blocks = torch.nn.Sequential(ResidualBlock(width, width, 1),
                                          ResidualBlock(width, 2 * width, 2))
        self.average = torch.nn.AdaptiveAvgPool2d(1)
        self.fc = torch.nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.blocks(self.pool(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.average(x), 1))


class Bottleneck(torch.nn.Module):
    """1x1, 3x3 and 1x1 convolutions with batch norm around a shortcut (He et al. 2016, with the
    stride on the 3x3 one, as torchvision has it)."""

    expansion = 4

    def __init__(self, before, width, stride):
        super().__init__()
        after = self.expansion * width
        self.conv1 = torch.nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(width)
        self.conv3 = torch.nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = torch.nn.BatchNorm2d(after)
        self.downsample = None if stride == 1 and before == after else \
            torch.nn.Sequential(torch.nn.Conv2d(before, after, 1, stride, bias=False),
                                torch.nn.BatchNorm2d(after))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class DeepResidualNetwork(torch.nn.Module):
    """ResNet-50 with depths (3, 4, 6, 3) and width 64; ResNet-101 with (3, 4, 23, 3)."""

    def __init__(self, depths, width, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.maxpool = torch.nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                blocks.append(Bottleneck(channels, width << stage, 2 if stage and i == 0 else 1))
                channels = Bottleneck.expansion * (width << stage)
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(*blocks))
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc = torch.nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class ResNet(Exported):
    """Convolutions of every kind (strided, padded, grouped, 1x1), batch norm in training."""

    scale = 1

    @staticmethod
    def build(width=8, image=(33, 29), classes=5, depths=None):
        torch.manual_seed(0)
        model = DeepResidualNetwork(depths, width, classes) if depths else ResidualNetwork(width, classes)
        model.options = dict(image=image, classes=classes)
        return model

    @staticmethod
    def draw(build, samples, random):
        return {"x": torch.randn(samples, 3, *build["image"], generator=random),
                "labels": torch.randint(build["classes"], (samples,), generator=random)}
