"""Exports models of the size of Llama 7B, and of 10,000 nodes, without their gigabytes.

    python test/models/export_large.py llama OUT.onnx
    python test/models/export_large.py llama OUT.pt --layers 2
    python test/models/export_large.py small OUT.pt2
    python test/models/export_large.py chain OUT.onnx --length 10000
    python test/models/export_large.py loop OUT.pt --length 5000
    python test/models/export_large.py function OUT.pt --length 10000

The ending says the format: .onnx, with its weights in OUT.onnx.data, .pt (a trace) or .pt2. Weights are zeros that are
no pages of memory before they are written to, and holes in the file: a Llama of 27 GB takes a few megabytes of disk.
The exporters are PyTorch's own.
"""

import argparse
import logging
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch

SMALL = {"hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 4, "vocab_size": 256, "num_hidden_layers": 64}
SEVEN_BILLION = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "vocab_size": 32000,
                 "num_hidden_layers": 32}


def llama(**sizes):
    """LlamaForCausalLM of transformers with weights of zeros, and the tokens that it is exported with."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    config = LlamaConfig(use_cache=False, **sizes)
    with torch.device("meta"):
        model = LlamaForCausalLM(config).eval()
    zeros = {name: torch.from_numpy(np.zeros(tuple(p.shape), np.float32)) for name, p in model.named_parameters()}
    model.load_state_dict(zeros, assign=True)
    model.model.rotary_emb = LlamaRotaryEmbedding(config)
    return model, {"input_ids": torch.zeros(1, 8, dtype=torch.int64)}


class Chain(torch.nn.Module):
    """A product and four elementwise ops, again and again."""

    def __init__(self, length):
        super().__init__()
        self.length = length
        self.weight = torch.nn.Parameter(torch.eye(4))

    def forward(self, x):
        for i in range(self.length // 5):
            x = torch.tanh(x @ self.weight + 0.5) * x - 0.25
        return x


class Loop(torch.nn.Module):
    """A loop that is written as one in the file. Its `length` turns are unrolled by who reads it."""

    def __init__(self, length: int):
        super().__init__()
        self.length = length

    def forward(self, x):
        for i in range(self.length):
            x = torch.tanh(x) + 0.5
        return x


def function(lines):
    """A scripted function of so many lines, which a model calls. It is written to a file, as TorchScript reads its source there."""
    ops = ("torch.tanh(x)", "x * 2.0", "torch.sigmoid(x)", "x + 0.5")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as source:
        source.write("import torch\n\n\ndef chain(x):\n" + "".join(f"    x = {op}\n" for op in ops) * (lines // 4) + "    return x\n")
        source.flush()
        names = {"__name__": "chain"}
        exec(compile(Path(source.name).read_text(), source.name, "exec"), names)
        chain = torch.jit.script(names["chain"])

    class Model(torch.nn.Module):
        def forward(self, x):
            return chain(x)

    return Model()


def build(kind, layers, length):
    if kind in ("llama", "small"):
        sizes = dict(SEVEN_BILLION if kind == "llama" else SMALL)
        if layers:
            sizes["num_hidden_layers"] = layers
        return llama(**sizes)
    make = {"chain": Chain, "loop": lambda turns: torch.jit.script(Loop(turns)), "function": function}[kind]
    return make(length), {"x": torch.zeros(8, 4)}


def exportOnnx(model, inputs, path):
    """The ONNX exporter's program, whose weights are then said to lie in a file that has nothing but holes."""
    import onnx_ir
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    program = torch.onnx.export(model, (), kwargs=inputs, dynamo=True, optimize=False, verbose=False)
    data = Path(f"{path}.data")
    offset = 0
    for value in program.model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes < 1 << 10:  # those in the file are its constants
            continue
        value.const_value = onnx_ir.ExternalTensor(data.name, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape,
                                                   name=value.name, base_dir=str(path.parent))
        offset += -(-tensor.nbytes // 4096) * 4096
    with open(data, "wb") as file:
        file.truncate(offset)
    onnx_ir.save(program.model, path)


def exportTrace(model, inputs, path):
    if not isinstance(model, torch.jit.ScriptModule):
        model = torch.jit.trace(model, example_kwarg_inputs=inputs, strict=False, check_trace=False)
    for weight in model.parameters():
        # The writer leaves out what lies nowhere, and its size in the file a hole.
        nowhere = torch._C._construct_storage_from_data_pointer(0, weight.device, weight.nbytes)
        weight.data = torch.empty(0).set_(nowhere, 0, weight.shape)
    model.save(str(path))


def exportProgram(model, inputs, path):
    """The writer goes from begin to end, so that it may write to a pipe, and another makes holes of the zeros."""
    program = torch.export.export(model, (), inputs)
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / path.name  # the writer looks at the ending, and keeps the name
        os.mkfifo(pipe)
        copy = subprocess.Popen(["cp", "--sparse=always", "--copy-contents", pipe, path])
        torch.export.save(program, pipe)
        if copy.wait():
            raise OSError(f"{path}: cp failed")


EXPORTS = {".onnx": exportOnnx, ".pt": exportTrace, ".pt2": exportProgram}


def export(kind, path, layers=0, length=10000):
    path = Path(path)
    model, inputs = build(kind, layers, length)
    with torch.no_grad():
        EXPORTS[path.suffix](model, inputs, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["llama", "small", "chain", "loop", "function"],
                        help="Llama 7B; one of 10,000 nodes and small weights; a chain of ops; a scripted loop; a scripted function")
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=0, help="of a Llama (default 32; of the small one 64)")
    parser.add_argument("--length", type=int, default=10000, help="ops of the chain, turns of the loop, lines of the function (default 10000)")
    options = parser.parse_args()
    if options.out.suffix not in EXPORTS:
        parser.error(f"'{options.out}' ends in none of {', '.join(EXPORTS)}")
    if options.kind in ("loop", "function") and options.out.suffix != ".pt":
        parser.error(f"a {options.kind} is scripted; name a .pt")
    export(options.kind, options.out, options.layers, options.length)


if __name__ == "__main__":
    main()
