"""Builds the models of architecture_list.py, in transformers and in timm, and draws a batch for each."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from functools import partial

import torch
from torch import nn

import architecture_list as listed

BATCH = 4
NAMES = [*listed.CAUSAL, *listed.MASKED, *listed.TRANSLATING, *listed.VISION, *listed.OTHERS, *listed.TIMM]


def tinyConfig(kind, given):
    """A configuration of transformers with the sizes of TINY, in it and in those inside of it, and with what is `given`."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    given = dict(given)
    values = {name: value for name, value in listed.TINY.items() if name in kind.__dataclass_fields__}
    for name, spec in kind.sub_configs_defaults.items():
        if name not in given and spec.optional:
            continue
        inner = dict(given.pop(name, {}))
        model = inner.pop("model_type", None)
        own = spec.config_class.__name__ != "AutoConfig" and model is None
        base = spec.config_class if own else CONFIG_MAPPING[model or spec.model_type]
        kept = {} if model else {key: value for key, value in spec.init_kwargs.items() if key not in listed.TINY}
        values[name] = tinyConfig(base, {**kept, **inner})
    return kind(**{**values, **given})


class Output(nn.Module):
    """A model of transformers that gives one of its outputs."""

    def __init__(self, model, output, fixed):
        super().__init__()
        self.model, self.output, self.fixed = model, output, fixed

    def forward(self, **inputs):
        return getattr(self.model(**inputs, **self.fixed), self.output)


class AnyClass(type):
    """A class that has any attribute, each such a class again."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyClass(name, (nn.Module,), {})


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for torchvision and PIL, which timm imports and its models do not need."""

    def find_spec(self, name, path, target=None):
        absent = name.partition(".")[0] in ("torchvision", "PIL")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__version__ = "9.9"
        module.__getattr__ = partial(getattr, AnyClass("Anything", (), {}))
        return module

    def exec_module(self, module):
        pass


def isOfTimm(name):
    return name in listed.TIMM


def importTimm():
    """Comes after all use of transformers, which asks for torchvision too and would believe that it is there."""
    if "timm" not in sys.modules:
        sys.meta_path.append(Absent())
        importlib.import_module("timm")


def entry(name):
    """Of an architecture of transformers: its class, the options of its configuration, its inputs and its output."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    if name in listed.OTHERS:
        options, inputs, *output = listed.OTHERS[name]
        return getattr(transformers, name), options, inputs, output[0] if output else "logits"
    text = dict(input_ids=("ids", listed.LENGTH), attention_mask=("mask", listed.LENGTH))
    for table, classes, inputs in (
        (listed.CAUSAL, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, text),
        (listed.MASKED, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, text),
        (listed.TRANSLATING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
         {**text, "decoder_input_ids": ("ids", listed.LENGTH)}),
        (listed.VISION, auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, None),
    ):  # fmt: skip
        if name in table:
            kind = classes[name] if isinstance(classes[name], str) else classes[name][0]
            size = table[name].get("image_size", listed.IMAGE)
            size = size if isinstance(size, int) else size[0]
            images = dict(input_ids=text["input_ids"]) if name == "imagegpt" else dict(pixel_values=("normal", 3, size, size))
            options = table[name] if inputs else {**table[name], "num_labels": listed.CLASSES}
            return getattr(transformers, kind), options, inputs or images, "logits"
    raise SystemExit(f"'{name}' is not in architecture_list.py")


def draw(spec, random):
    """A batch of an input, as architecture_list.py describes it."""
    kind, *shape = spec
    if kind == "constant":
        return shape[0]
    if kind in ("normal", "uniform"):
        return getattr(torch, "randn" if kind == "normal" else "rand")(BATCH, *shape, generator=random)
    if kind in ("ones", "real ones"):
        return torch.ones(BATCH, *shape, dtype=torch.int64 if kind == "ones" else torch.float32)
    if kind == "mask":  # the second row is shorter
        mask = torch.ones(BATCH, *shape, dtype=torch.int64)
        mask[1, -2:] = 0
        return mask
    length, tokens = shape if kind == "prompt" else (*shape, 0)
    ids = torch.randint(3, listed.IMAGE_TOKEN - 10, (BATCH, length + tokens), generator=random)
    for row in range(BATCH if tokens else 0):
        ids[row, 1 + row : 1 + row + tokens] = listed.IMAGE_TOKEN
    return ids


def build(name):
    """The model with weights of which no gradient vanishes by chance, and its inputs by name."""
    random = torch.Generator().manual_seed(listed.SEEDS.get(name, 1))
    torch.manual_seed(0)
    if isOfTimm(name):
        options = dict(listed.TIMM[name])
        size = options.pop("image", listed.IMAGE)
        module, _, kind = name.rpartition(".")
        if module:
            model = getattr(importlib.import_module(f"timm.models.{module}"), kind)(num_classes=listed.CLASSES, **options)
        else:
            model = sys.modules["timm"].create_model(name, num_classes=listed.CLASSES, **options)
        model.train()
        inputs = dict(x=torch.randn(BATCH, 3, size, size, generator=random))
    else:
        kind, options, specs, output = entry(name)
        drawn = {key: draw(spec, random) for key, spec in specs.items() if spec[0] != "types"}
        for key in specs.keys() - drawn.keys():
            drawn[key] = (drawn["input_ids"] == listed.IMAGE_TOKEN).long()
        inputs = {key: value for key, value in drawn.items() if isinstance(value, torch.Tensor)}
        fixed = {key: value for key, value in drawn.items() if key not in inputs}
        model = Output(kind(tinyConfig(kind.config_class, options)), output, fixed).eval()
    for module in model.modules():
        for rate in ("p", "drop_prob", "drop_path"):
            if isinstance(getattr(module, rate, None), float) and "drop" in type(module).__name__.lower():
                setattr(module, rate, 0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if not (parameter.abs() < 1e3).all():
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=random))  # the library left it as it was
            if parameter.dim() < 2:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=random))
            elif parameter.std() < 0.05:
                parameter.mul_(3)
    return model, inputs
