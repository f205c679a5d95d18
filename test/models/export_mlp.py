"""Exports a classifier of linear layers to ONNX.

    python test/models/export_mlp.py OUT.onnx --widths 16,64,32,10

Input `x` float32 [batch, widths[0]], output `logits` [batch, widths[-1]]; the
layers are `fc1`, `fc2`, ... with GELU or ReLU between them.
"""

import argparse
from collections import OrderedDict

import torch


def build(widths=(16, 64, 32, 10), activation="gelu", seed=0):
    torch.manual_seed(seed)
    layers = OrderedDict()
    for i, (before, after) in enumerate(zip(widths, widths[1:]), start=1):
        if i > 1:
            layers[f"act{i - 1}"] = {"gelu": torch.nn.GELU, "relu": torch.nn.ReLU}[activation]()
        layers[f"fc{i}"] = torch.nn.Linear(before, after)
    return torch.nn.Sequential(layers)


def export(model, path, batch=8, dynamic=False, external=False):
    x = torch.zeros(batch, model.fc1.in_features)
    torch.onnx.export(
        model, (x,), path, input_names=["x"], output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},) if dynamic else None,
        dynamo=True, optimize=False, external_data=external, verbose=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--widths", default="16,64,32,10")
    parser.add_argument("--activation", choices=["gelu", "relu"], default="gelu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dynamic", action="store_true", help="leave the batch size open")
    args = parser.parse_args()
    model = build([int(w) for w in args.widths.split(",")], args.activation, args.seed)
    export(model, args.out, args.batch, args.dynamic)
    print(f"{args.out}: {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    main()
