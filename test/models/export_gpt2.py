"""Exports a GPT-2 of any size to ONNX, as a user of transformers would.

    python test/models/export_gpt2.py OUT.onnx --layers 4 --width 128 --heads 4
    python test/models/export_gpt2.py OUT.onnx --layers 96 --width 12288 --heads 96 --vocab 50257 --context 2048 --dynamic --meta

The model is transformers' own GPT2LMHeadModel, without a wrapper: input
`input_ids` int64 [batch, length], output `logits` [batch, length, vocab].
`optimize=False` keeps every weight under its own name (the default renames and
transposes most of them). With `--meta` the weights are never in memory and not in
the file: it is for `polyrank-compile --abstract-weights`.
"""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build(layers=4, heads=4, width=128, vocab=256, context=128, attention="sdpa", seed=0, device="cpu"):
    """GPT-2 without dropout, initialised as transformers does."""
    torch.manual_seed(seed)
    with torch.device(device):
        return GPT2LMHeadModel(GPT2Config(
            n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocab, n_positions=context,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
            use_cache=False, attn_implementation=attention))


def export(model, path, batch=8, dynamic=False, external=False, length=None):
    """Writes `model` to `path`; a dynamic batch is fixed when it is compiled. Weights on the meta device are left out."""
    length = length or model.config.n_positions
    program = torch.onnx.export(
        model, (),
        kwargs={"input_ids": torch.zeros(batch, length, dtype=torch.int64, device=model.device)},
        input_names=["input_ids"], output_names=["logits"],
        dynamic_shapes={"input_ids": {0: torch.export.Dim("batch")}} if dynamic else None,
        dynamo=True, optimize=False, verbose=False)
    if model.device.type == "meta":
        program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
    else:
        program.save(path, external_data=external)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    for name, default in (("layers", 4), ("heads", 4), ("width", 128), ("vocab", 256),
                          ("context", 128), ("batch", 8), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--length", type=int, help="of a sequence, if shorter than the context")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--dynamic", action="store_true", help="leave the batch size open")
    parser.add_argument("--external", action="store_true", help="weights in OUT.onnx.data")
    parser.add_argument("--meta", action="store_true", help="no weights, neither in memory nor in the file")
    args = parser.parse_args()
    model = build(args.layers, args.heads, args.width, args.vocab, args.context,
                  args.attention, args.seed, "meta" if args.meta else "cpu")
    export(model, args.out, args.batch, args.dynamic, args.external, args.length)
    print(f"{args.out}: {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    main()
