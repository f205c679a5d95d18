"""What is trained: models, batches, losses and the products of their layers.

A workload is a namespace that goes to each contender as JSON: `model` (gpt2,
lstm, experts, experts-onnx, resnet or matrices) with its sizes, `batch` (samples of a step, over all ranks), `ranks`,
`threads` of each, `steps` of a turn and `folder`, where the files lie that all
of them read. Weights follow from the seed, batches from `data.npz`.
"""

import logging
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
GPT2_RATE, RESNET_RATE = 1e-4, 1e-3  # learning rates; an LSTM has that of ResNet
LAYERS = 2  # of an LSTM, and of a mixture of experts
EXPERTS, CHOSEN = 8, 2  # of a mixture, and for each token
MATRICES, ROWS = 10, 2  # of the model that is saved only, and of its samples
LANGUAGES = ("lstm", "experts", "experts-onnx")  # models of tokens, besides GPT-2
MIXTURES = ("experts", "experts-onnx")
ATTENTIONS = ("attention-causal", "attention-all", "attention-groups")  # models of one attention
KEY_HEADS = 3  # heads of queries to one of keys in attention-groups
INPUT = {**dict.fromkeys(ATTENTIONS, "x"), "gpt2": "input_ids", "lstm": "ids", "experts": "ids", "experts-onnx": "ids", "resnet": "x", "matrices": "x"}


def families():
    sys.path.insert(0, str(ROOT / "test/parity"))
    import families
    return families


def keyHeads(work):
    return max(1, work.heads // KEY_HEADS) if work.model == "attention-groups" else work.heads


def attentionWidth(work):
    """Of queries, keys and values together."""
    return work.width + 2 * keyHeads(work) * (work.width // work.heads)


def build(work):
    """The model with its first weights, in training mode."""
    if work.model == "gpt2":
        model = families().Gpt2.build(work.layers, work.heads, work.width, work.vocab, work.context)
        if work.microbatches:  # PyTorch's stages share no weights
            import torch
            model.lm_head.weight = torch.nn.Parameter(model.transformer.wte.weight.detach().clone())
            model.config.tie_word_embeddings = False
    elif work.model == "lstm":
        import torch

        class LanguageModel(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(work.classes, work.width), torch.nn.Linear(work.width, work.classes)
                self.body = torch.nn.LSTM(work.width, work.width, LAYERS, batch_first=True)

            def forward(self, ids):
                return self.head(self.body(self.table(ids))[0])

        torch.manual_seed(0)
        model = LanguageModel()
    elif work.model in MIXTURES:
        import torch
        from transformers import MixtralConfig, MixtralForCausalLM

        class LanguageModel(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body = MixtralForCausalLM(MixtralConfig(
                    vocab_size=work.classes, hidden_size=work.width, intermediate_size=2 * work.width, num_hidden_layers=LAYERS,
                    num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=work.length, use_cache=False,
                    num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN, experts_implementation="grouped_mm"))

            def forward(self, ids):
                return self.body(input_ids=ids).logits

        torch.manual_seed(0)
        model = LanguageModel()
    elif work.model in ATTENTIONS:
        import torch

        class Attention(torch.nn.Module):
            """Numbers of queries, keys and values that are scaled, and their attention."""

            def __init__(self):
                super().__init__()
                self.scales = torch.nn.Parameter(torch.ones(attentionWidth(work)))

            def forward(self, x):
                width, groups = work.width // work.heads, keyHeads(work)
                parts = (x * self.scales).split([work.width, groups * width, groups * width], 2)
                query, key, value = (part.unflatten(2, (-1, width)).transpose(1, 2) for part in parts)
                result = torch.nn.functional.scaled_dot_product_attention(
                    query, key, value, is_causal=work.model != "attention-all", enable_gqa=groups != work.heads)
                return result.transpose(1, 2).flatten(2)

        model = Attention()
    elif work.model == "matrices":
        import torch
        model = torch.nn.Sequential(*(torch.nn.Linear(work.width, work.width, bias=False) for _ in range(MATRICES)))
    else:
        import torch
        model = families().ResNet.build(work.width, (work.image, work.image), work.classes, tuple(work.depths))
        # Branches that begin small, as is usual: with weights of 1 a fresh ResNet-50 is so steep that PyTorch's
        # own losses in fp32 and fp64 differ by 3e-3 after one step, and 5e-8 with these.
        for name, parameter in model.named_parameters():
            if name.endswith("bn3.weight"):
                torch.nn.init.constant_(parameter, 0.2)
    return model.train()


def export(work, model, path, dynamic=False):
    """With `dynamic` the batch of GPT-2 is fixed when it is compiled."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if work.model == "gpt2":
            batch = work.batch // max(1, work.microbatches)
            families().export_gpt2.export(model, str(path), batch, dynamic=dynamic, external=True, length=work.length)
        elif work.model in LANGUAGES:
            import torch
            ids = torch.zeros(work.batch, work.length, dtype=torch.int64)
            if path.endswith(".onnx"):
                model.body.set_experts_implementation("batched_mm")  # which PyTorch can export, and computes slowly
                torch.onnx.export(model, (ids,), path, input_names=["ids"], output_names=["output"], dynamo=True, optimize=False,
                                  external_data=True, verbose=False)
            else:
                torch.export.save(torch.export.export(model, (ids,)), path)
        elif work.model in ATTENTIONS:
            import torch
            x = torch.zeros(work.batch, work.length, attentionWidth(work))
            torch.export.save(torch.export.export(model, (x,)), path)
        elif work.model == "matrices":
            # Optimized, so that the file holds each matrix transposed.
            import torch
            torch.onnx.export(model, (torch.zeros(work.batch, ROWS, work.width),), path, input_names=["x"],
                              output_names=["y"], dynamo=True, optimize=True, external_data=True, verbose=False)
        else:
            families().ResNet.export(model, str(path), work.batch, external=True)


def draw(work):
    """The samples of all steps, by input name."""
    random, samples = np.random.default_rng(1), work.steps * work.batch
    if work.model == "gpt2":
        tokens = random.integers(work.vocab, size=(samples, work.length + 1))
        return {"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    if work.model in LANGUAGES:
        tokens = random.integers(work.classes, size=(samples, work.length + 1))
        return {"ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    if work.model in ATTENTIONS:
        return {name: random.standard_normal((samples, work.length, size), np.float32)
                for name, size in (("x", attentionWidth(work)), ("labels", work.width))}
    if work.model == "matrices":
        return {name: random.standard_normal((samples, ROWS, work.width), np.float32) for name in ("x", "labels")}
    images = random.standard_normal((samples, 3, work.image, work.image), dtype=np.float32)
    return {"x": images, "labels": random.integers(work.classes, size=samples)}


def batches(work, rank=0):
    """The (input, labels) of each step that this rank takes."""
    data = np.load(Path(work.folder) / "data.npz")
    own = work.batch // (1 if work.microbatches else work.ranks)
    starts = range(rank * own, work.steps * work.batch, work.batch)
    return [tuple(data[name][start:start + own] for name in (INPUT[work.model], "labels")) for start in starts]


def call(work, model, inputs):
    return model(inputs).logits if work.model == "gpt2" else model(inputs)


def loss(work, model, inputs, labels):
    from torch.nn.functional import cross_entropy, mse_loss
    if work.model in ATTENTIONS:
        return mse_loss(call(work, model, inputs), labels)
    return cross_entropy(call(work, model, inputs).flatten(0, -2), labels.flatten())


def products(work):
    """(m, k, n, times, passes) of each product [m,k] x [k,n] that a rank's layers make. Passes are forward
    and, in training, the two gradients; a convolution is the product of its patches and its weights."""
    passes = 1 if work.mode == "forward" else 3
    if work.model == "gpt2":
        rows, width = work.batch // work.ranks * work.length, work.width  # of a stage half of the layers, all rows
        layers = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
        return [(rows, k, n, work.layers, passes) for k, n in layers] + [(rows, width, work.vocab, 1, passes)]

    if work.model in ATTENTIONS:  # scores and their product with the values; of causal attention half of them
        width = work.width // work.heads
        rows = work.length // (1 if work.model == "attention-all" else 2)
        return [(rows, k, n, work.batch * work.heads, passes) for k, n in ((width, work.length), (work.length, width))]

    if work.model == "lstm":  # of the state a product for each step, but one for the gradient of its matrix
        batch, width, gates = work.batch // work.ranks, work.width, 4 * work.width
        rows = batch * work.length
        return [(rows, width, gates, LAYERS, passes), (batch, width, gates, LAYERS * work.length, passes - passes // 3),
                (width, rows, gates, LAYERS, passes // 3), (rows, width, work.classes, 1, passes)]

    if work.model in MIXTURES:  # each expert has its share of the rows
        rows, width = work.batch // work.ranks * work.length, work.width
        own = rows * CHOSEN // EXPERTS
        return [(rows, width, width, 4 * LAYERS, passes), (own, width, 4 * width, EXPERTS * LAYERS, passes),
                (own, 2 * width, width, EXPERTS * LAYERS, passes), (rows, width, work.classes, 1, passes)]

    import torch
    found = []

    def note(module, inputs, output):
        if isinstance(module, torch.nn.Linear):
            found.append((inputs[0].shape[0], module.in_features, module.out_features, passes))
        elif isinstance(module, torch.nn.Conv2d):
            patch = module.weight[0].numel()
            pixels = output.shape[0] * output.shape[2] * output.shape[3]
            # Nothing needs the gradient of the images.
            found.append((pixels, patch, module.out_channels, min(passes, 2) if len(found) == 0 else passes))

    model = build(work)
    for module in model.modules():
        module.register_forward_hook(note)
    with torch.no_grad():
        model(torch.zeros(work.batch // work.ranks, 3, work.image, work.image))
    return [(m, k, n, found.count((m, k, n, p)), p) for m, k, n, p in sorted(set(found))]
