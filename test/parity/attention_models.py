"""The attentions that the compiler finds in models of transformers, for each way in which they are exported.

test_attention_models.py takes some of the cases. By hand all of them, or those of which each argument is a word of the name:

    POLYRANK_BIN=build/dev/bin python test/parity/attention_models.py [--folder DIR] [WORD..]

A case's name is that of the model, the attention of transformers (sdpa or eager), the format, the batch's size, then `mask`
where an attention_mask is an input, `dropout` where the probabilities have dropout, and the type: llama-eager-onnx-b1-mask-fp16.
An optimized export is `onnx_optimized`. Exports are kept in the folder, and not made again.
"""

import argparse
import functools
import itertools
import logging
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import exporters
import tools
from architecture_models import Output
from reference import GRADIENT_RATE
from vision_language import difference

# All numbers differ, so that one dim cannot pass for another.
LENGTH, DECODED, HEADS, GROUPS, HEAD, WIDTH, INNER, VOCAB, WINDOW, LAYERS = 16, 14, 8, 4, 6, 48, 40, 56, 5, 2
RATE = 0.1

TEXT = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            max_position_embeddings=LENGTH, bos_token_id=1, eos_token_id=2, pad_token_id=0, attention_dropout=0.0)
GROUPED = dict(TEXT, num_key_value_heads=GROUPS, head_dim=HEAD)


@dataclass(frozen=True)
class Model:
    """A class of transformers with its configuration, and what its attentions are like.

    `dropout` is the configuration's name of the rate of the probabilities. `attentions` has words for each: `causal`, `bias`,
    `window`, `softcap`, and `masked` where an attention_mask hides keys.
    """

    kind: str
    config: dict
    attentions: tuple = ("masked causal",) * LAYERS
    groups: int = HEADS
    dropout: str = "attention_dropout"
    inputs: tuple = ("input_ids",)
    hasMask: bool = True


MODELS = dict(
    gpt2=Model("GPT2LMHeadModel", dict(
        vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=LENGTH, n_inner=INNER, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2), dropout="attn_pdrop"),
    llama=Model("LlamaForCausalLM", GROUPED, groups=GROUPS),
    bert=Model("BertForMaskedLM", dict(TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), ("masked",) * LAYERS,
               dropout="attention_probs_dropout_prob"),
    opt=Model("OPTForCausalLM", dict(TEXT, ffn_dim=INNER, word_embed_proj_dim=WIDTH, dropout=0.0)),
    mistral=Model("MistralForCausalLM", dict(GROUPED, sliding_window=WINDOW), ("masked causal window",) * LAYERS, GROUPS),
    gemma2=Model("Gemma2ForCausalLM", dict(GROUPED, sliding_window=WINDOW, query_pre_attn_scalar=10),
                 ("masked causal window softcap", "masked causal softcap"), GROUPS),
    phi3=Model("Phi3ForCausalLM", dict(GROUPED, resid_pdrop=0.0, embd_pdrop=0.0), groups=GROUPS),
    qwen3=Model("Qwen3ForCausalLM", GROUPED, groups=GROUPS),
    # transformers drops no probabilities of a Falcon without ALiBi.
    falcon=Model("FalconForCausalLM", dict(TEXT, hidden_dropout=0.0, ffn_hidden_size=INNER), groups=1, dropout=""),
    bloom=Model("BloomForCausalLM", dict(
        vocab_size=VOCAB, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS, hidden_dropout=0.0, attention_dropout=0.0,
        bos_token_id=1, eos_token_id=2, pad_token_id=0), ("masked causal alibi",) * LAYERS),
    t5=Model("T5ForConditionalGeneration", dict(
        vocab_size=VOCAB, d_model=WIDTH, d_kv=HEAD, d_ff=INNER, num_layers=LAYERS, num_decoder_layers=1, num_heads=HEADS,
        dropout_rate=0.0, decoder_start_token_id=0), ("masked bias",) * LAYERS + ("causal bias", "masked"),
        dropout="dropout_rate", inputs=("input_ids", "decoder_input_ids")),
    vit=Model("ViTForImageClassification", dict(
        hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS, image_size=20,
        patch_size=4, num_labels=7, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), ("",) * LAYERS,
        dropout="attention_probs_dropout_prob", inputs=("pixel_values",), hasMask=False),
)  # fmt: skip
ATTENTIONS = ("sdpa", "eager")
FORMATS = ("onnx", "onnx_optimized", "pt2")
LOSS = ("--loss", "cross_entropy(output,labels)")
TYPES = {"fp32": torch.float32, "fp16": torch.float16}


@dataclass(frozen=True)
class Case:
    """One way to export a model."""

    model: str
    attention: str = "sdpa"
    format: str = "onnx"
    batch: int = 2
    mask: bool = False
    dropout: bool = False
    type: str = "fp32"

    def __str__(self):
        words = [self.model, self.attention, self.format, f"b{self.batch}", "mask" * self.mask, "dropout" * self.dropout, self.type]
        return "-".join(word for word in words if word)

    @property
    def spec(self):
        return MODELS[self.model]


def named(name):
    """The case of this name."""
    model, attention, format, batch, *flags, type = name.split("-")
    return Case(model, attention, format, int(batch[1:]), "mask" in flags, "dropout" in flags, type)


def allCases():
    """The whole product."""
    for model in MODELS:
        for type, dropout, mask, batch, attention, format in itertools.product(
            TYPES, (False, True), (False, True), (1, 2), ATTENTIONS, FORMATS):  # fmt: skip
            if MODELS[model].hasMask >= mask and bool(MODELS[model].dropout) >= dropout:
                yield Case(model, attention, format, batch, mask, dropout, type)


class NotExported(Exception):
    """PyTorch cannot export the case, for this reason."""


def build(case):
    """The model; its weights are spread so that attention is not uniform."""
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    spec = case.spec
    kind = getattr(transformers, spec.kind)
    config = kind.config_class(**spec.config, **({} if spec.inputs[0] == "pixel_values" else {"use_cache": False}))
    if case.dropout:
        setattr(config, spec.dropout, RATE)
    config._attn_implementation = case.attention
    model = kind(config)
    if spec.dropout == "dropout_rate":  # of all that T5 can drop
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
            else:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return Output(model, "logits", {}).train(case.dropout).to(TYPES[case.type])


def draw(case):
    """What the case is exported with, and trained with but for the mask."""
    random = torch.Generator().manual_seed(1)
    inputs = {}
    for name in case.spec.inputs:
        if name == "pixel_values":
            inputs[name] = torch.randn(case.batch, 3, 20, 20, generator=random).to(TYPES[case.type])
        else:
            length = DECODED if name == "decoder_input_ids" else LENGTH
            inputs[name] = torch.randint(3, VOCAB, (case.batch, length), generator=random)
    if case.mask:
        inputs["attention_mask"] = torch.ones(case.batch, LENGTH, dtype=torch.int64)
    return inputs


def reason(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"


@functools.lru_cache(maxsize=1)
def program(case):
    """torch.export's program of a case, from which each format is written; the format of `case` is of no account."""
    try:
        return exporters.quiet(torch.export.export, build(case), (), draw(case), strict=False)
    except Exception as error:
        raise NotExported(reason(error)) from error


def export(case, folder):
    """The case's file in this folder, written now if it is not there."""
    path = folder / f"{case}.{'pt2' if case.format == 'pt2' else 'onnx'}"
    if path.exists():
        return path
    found = program(replace(case, format=""))
    try:
        if case.format == "pt2":
            exporters.quiet(torch.export.save, found, path)
        else:
            exporters.quiet(torch.onnx.export, found, (), path, input_names=list(draw(case)), output_names=["output"], dynamo=True,
                            optimize=case.format == "onnx_optimized", external_data=False, verbose=False)
    except Exception as error:
        raise NotExported(reason(error)) from error
    return path


# ===-- what the compiler finds --------------------------------------------------===#

DIMS = ("batch", "heads", "queries", "keys")


def expected(case):
    """The form of each attention, in words. No operand has a dim along which it is the same."""
    batch = ("batch",) if case.batch > 1 else ()
    biases = {"bias": DIMS[1:], "alibi": (*batch, "heads", "keys")}  # transformers makes ALiBi for each sample
    numbers = {"causal": "causal", "window": f"window {WINDOW}", "softcap": "softcap 50"}
    forms = []
    for words in map(str.split, case.spec.attentions):
        bias = next((biases[word] for word in words if word in biases), ())
        mask = (*batch, "keys") if case.mask and "masked" in words else ()
        if mask and case.model == "t5" and case.attention == "sdpa" and "bias" in words:
            # Here transformers puts the mask in the place of the bias, which a query that sees no key has none of.
            bias, mask = (*batch, *bias), ()
        found = [f"{HEADS} heads on {case.spec.groups}"]
        found += [f"{name} of {' '.join(dims)}" for name, dims in (("bias", bias), ("mask", mask)) if dims]
        found += [text for word, text in numbers.items() if word in words] + [f"dropout {RATE:g}"] * case.dropout
        forms.append(", ".join(found))
    return forms


def read(path, loss=LOSS):
    """The form of each attention in the step of a model, in the same words, and the module that it comes from."""
    module, _ = tools.tool("compile", path, *loss, "--stop-after", "training")
    forms = []
    for line in re.findall(r"\bgraph\.attention (.*)", module):
        operands, attributes, types = re.fullmatch(r"(.*?) \{(.*?)\} : \((.*?)\) ->.*", line).groups()
        shapes = [[int(size) for size in shape.split("x")[:-1]] for shape in re.findall(r"tensor<(.*?)>", types)]
        numbers = dict(re.findall(r"(\w+) = ([^ ,]+)", attributes))
        found, rest = [f"{shapes[0][1]} heads on {shapes[1][1]}"], shapes[3:]
        for name in ("bias", "mask"):
            if f" {name} " in operands:
                found.append(f"{name} of {' '.join(dim for dim, size in zip(DIMS, rest.pop(0)) if size > 1)}")
        found += ["causal"] * (numbers["causal"] == "true")
        found += [f"{word} {float(numbers[name]):g}" for word, name in (("window",) * 2, ("softcap",) * 2, ("dropout", "rate"))
                  if name in numbers]
        forms.append((", ".join(found), numbers["scope"].strip('"')))
    return forms


# Layouts over an axis `tensor` that split the heads, and the layer after attention, by the ends of the names of weights.
SPLIT = {"[tensor,-]": "q_proj|k_proj|v_proj|qkv_proj|query|key|value|query_key_value|Attention.q|Attention.k|Attention.v|wi|fc1"
                       "|gate_proj|up_proj|gate_up_proj|dense_h_to_4h|intermediate.dense",
         "[-,tensor]": "c_attn|c_fc|fc2|down_proj|dense_4h_to_h|wo"}  # fmt: skip


def shards(model):
    """The layouts of the weights that the model has, as options."""
    words = []
    for layout, ends in SPLIT.items():
        for end in ends.split("|"):
            if any(name.endswith(f"{end}.weight") for name, _ in model.named_parameters()):
                words += ["--shard", f"*{end}.weight={layout}"]
    return words


def padding(batch):
    """An attention_mask: a row that is padded on the right, one on the left, one of nothing but padding, and whole ones."""
    mask = torch.ones(batch, LENGTH, dtype=torch.int64)
    for row, hidden in zip(mask, (slice(-3, None), slice(5), slice(None))):
        row[hidden] = 0
    return mask


class FirstStep:
    """PyTorch's first step, in fp32, of what the case's file says: its inputs, labels, loss, parameters and gradients.

    In ONNX, sdpa is written with numbers that are added to the scores, as transformers' eager attention has them. So a query
    that sees no key gets the mean of all values, and in a .pt2 file, where sdpa is one operator, zeros. PyTorch's fused
    operators give such a query other gradients than its formula does (torch 2.13), and are not used.
    """

    def __init__(self, case):
        self.model = build(replace(case, attention=case.attention if case.format == "pt2" else "eager")).float()
        self.inputs = {name: t.float() if t.is_floating_point() else t for name, t in draw(case).items()}
        if case.mask:
            self.inputs["attention_mask"] = padding(case.batch)
        masks = torch.finfo(TYPES[case.type])  # the least number of the file's type is what masks add
        with sdpa_kernel(SDPBackend.MATH), mock.patch.object(torch, "finfo", lambda _: masks):
            scores = self.model(**self.inputs)
        self.labels = torch.randint(scores.shape[-1], scores.shape[:-1], generator=torch.Generator().manual_seed(2))
        loss = functional.cross_entropy(scores.flatten(0, -2), self.labels.flatten())
        loss.backward()
        self.loss, self.parameters = loss.item(), dict(self.model.named_parameters())
        self.gradients = {name: (torch.zeros_like(p) if p.grad is None else p.grad).double() for name, p in self.parameters.items()}


def compare(case, path, mesh, folder):
    """How far the first loss and the first gradients of a case's file on a mesh are from PyTorch's, relative to these."""
    plan, data = folder / "plan", folder / "data.npz"
    theirs = FirstStep(case)
    tools.saveData(data, theirs.inputs | {"labels": theirs.labels})
    split = shards(theirs.model) if "tensor" in mesh else ()
    tools.tool("compile", path, "-o", plan, *LOSS, "--optimizer", f"sgd(lr={GRADIENT_RATE})", "--mesh", mesh, "--threads", 1, *split)
    run = tools.train(plan, data, 1, folder / "run")
    ours = {name: (p.detach().double() - run.tensors[name].double()) / GRADIENT_RATE
            for name, p in theirs.parameters.items() if name in run.tensors}
    assert ours.keys() == theirs.gradients.keys() or case.format == "onnx_optimized", "some parameters are not in the file"
    return abs(run.losses[0] - theirs.loss) / theirs.loss, difference(ours, {name: theirs.gradients[name] for name in ours})


def compareWithParts(case, path, folder):
    """How far the gradients of a case's step with composites are from those of its parts, both evaluated in doubles.

    Where there is dropout, both drop the same elements.
    """
    module, data, results = folder / "import.mlir", folder / "data.npz", []
    module.write_text(tools.tool("compile", path, *LOSS, "--stop-after", "import")[0])
    theirs = FirstStep(case)
    order = re.findall(r"#graph\.parameter<@([^>]*)>", next(line for line in module.open() if "func.func @forward" in line))
    before = {name: theirs.model.state_dict()[name].detach() for name in order}
    given = theirs.inputs | {"labels": theirs.labels}
    tools.saveData(data, {name: t[None] for name, t in given.items()} | before)  # of one microbatch
    for passes in ([], ["--raise-composites"]):
        tools.tool("opt", module, *passes, f"--attach-loss=loss={LOSS[1]}", f"--build-step=optimizer=sgd(lr={GRADIENT_RATE})",
                   "--evaluate=global", f"--inputs={data}", f"--outputs={folder / 'after.npz'}")
        after = np.load(folder / "after.npz")
        results.append({name: torch.from_numpy(after[f"result{i}"]) - before[name].double() for i, name in enumerate(order)})
    return difference(results[1], results[0])


def describe(case, folder):
    """What the table says of a case, and whether all its attentions are found, or PyTorch cannot export it."""
    try:
        path = export(case, folder)
    except NotExported as error:
        return f"not exported: {error}", True
    try:
        found, wanted = [form for form, _ in read(path)], expected(case)
    except AssertionError as error:
        return " ".join(str(error).split())[-300:], False
    others = {f"{ours} instead of {theirs}" for ours, theirs in zip(found, wanted) if ours != theirs}
    return "; ".join([f"{len(found)}/{len(wanted)}", *sorted(others)]), found == wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    exporters.rememberOperators()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for case in allCases():
            if set(options.words) <= set(str(case).split("-")):
                line, isGood = describe(case, folder)
                failed += not isGood
                print(f"{str(case):47} {line}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
