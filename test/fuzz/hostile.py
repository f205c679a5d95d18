"""Small files that ask for much: each is to be refused, or read, with little time and memory.

    test/fuzz/hostile.py FOLDER     writes them all there

test/parity/test_hostile.py gives them to the tools; the fuzzers get them as seeds, those that are short enough.
"""

import io
import json
import struct
import sys
import zipfile
import zlib
from pathlib import Path

HEAD = "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n"


def archive(members, deflated=True):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as result:
        for name, content in members.items():
            stored = zipfile.ZIP_STORED if "/data/" in name or name.endswith(".pt") else None
            result.writestr(name, content, compress_type=stored)
    return file.getvalue()


# Pickles, opcode by opcode.

def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(sizes=b"K\6\x85", strides=b"K\1\x85"):
    """Of the six floats in data/0."""
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
            + b"K\6tQK\0" + sizes + strides + b"\x89ccollections\nOrderedDict\n)RtR")


def torchScript(body="    return x\n", more="", state=b"", constants=b")", debug=None):
    """A module M with this `forward` and these pickled attributes, each a name and a value."""
    members = {"m/data.pkl": b"\x80\2c__torch__\nM\n)\x81}(" + state + b"ub.", "m/code/__torch__.py": HEAD + body + more,
               "m/constants.pkl": b"\x80\2" + constants + b".", "m/data/0": b"w" * 24, "m/version": "10",
               "m/traced_inputs.pkl": b"\x80\2}" + text("forward") + b"]" + tensor() + b"as."}
    if debug:
        members["m/code/__torch__.py.debug_pkl"] = b"\x80\2" + debug + b"."
    return archive(members)


def blocks(depth):
    """A function that calls itself in as many blocks."""
    body = "".join("  " * (i + 1) + "if True:\n" for i in range(depth)) + "  " * (depth + 1) + "y = __torch__.f(x)\n"
    return "def f(x: Tensor) -> Tensor:\n" + body + "  return x\n"


def loops(size):
    """What a line compares, copies or makes: what stands before a loop, and the line. `size`: of what is written out."""
    entries = ", ".join(f'"{i}": 1' for i in range(20 * size))
    return {"update": (f"    d = {{{entries}}}\n    e = {{{entries}}}\n", "torch.update(d, e)"),
            "contains": (f"    d = [{'[1], ' * 20 * size}]\n", "torch.__contains__(d, [2])"),
            "literals": ("    l = annotate(List[List[int]], [])\n", "torch.append(l, [" + "[], " * 50 * size + "])"),
            "products": ("    l = annotate(List[List[int]], [])\n", "torch.append(l, torch.mul([1], 1000000))"),
            "texts": ("    l = annotate(List[str], [])\n", 'torch.append(l, "' + "t" * 500 * size + '")'),
            "strings": ("    l = [" + "1, " * 300 * size + "]\n", "str(l)"),
            "pops": ("    l = torch.mul([1], 1000000)\n", "torch.append(l, torch.pop(l, 0))"),
            "equal": ("    l = [1]\n    m = [1]\n    for i in range(18):\n      l = [l, l]\n      m = [m, m]\n", "torch.eq(l, m)")}


def torchScripts():
    yield "values", torchScript(state=text("a") + b"(" + b"N" * (19 << 20) + b"l")
    yield "values-in-debug", torchScript("    return torch.nothing(x)\n", debug=b"(" + b"N" * (19 << 20) + b"t")
    yield "code", torchScript("    y = [" + "1, " * (6 << 20) + "]\n    return x\n")
    yield "classes", torchScript(more="".join(f"class A{i}:\n  pass\n" for i in range(1 << 20)))
    # A text, a list of texts, named again and again.
    yield "text", torchScript(state=text("a") + b"(" + text("t" * (1 << 20)) + b"q\1" + b"h\1" * (1 << 17) + b"l")
    # Each level holds the one below it twice.
    for name, first, second in (("lists", b"](K\1e", b"](h%ch%ce"), ("tuples", b"K\1\x85", b"h%ch%c\x86"), ("dicts", b"}K\1K\2s", b"}(K\1h%cK\2h%cu")):
        value = first + b"q\0"
        attributes = text("a0") + value
        for level in range(24):
            attributes += text(f"a{level + 1}") + second % (level, level) + b"q" + bytes([level + 1])
        yield f"{name}-of-{name}", torchScript(state=attributes)
    # Of blocks and calls each alone is allowed.
    yield "blocks-and-calls", torchScript("    return __torch__.f(x)\n", blocks(195))
    # One module, which holds a tensor, in many places.
    module = b"c__torch__\nS\n)\x81}" + text("w") + tensor() + b"sb"
    places = text("s") + module + b"q\1" + b"".join(text(f"s{i}") + b"h\1" for i in range(40_000))
    yield "module-in-many-places", torchScript(state=places, more='class S(Module):\n  __parameters__ = ["w", ]\n  w : Tensor\n')
    module = b"c__torch__\nS\n)\x81}" + text("w" * 100_000) + tensor() + b"sb"
    paths = text("s") + module + b"q\1" + b"".join(text(f"s{i}") + b"h\1" for i in range(2_000))
    yield "module-of-a-long-name", torchScript(state=paths, more='class S(Module):\n  __parameters__ = ["w", ]\n  w : Tensor\n')
    for name, (before, line) in loops(1000).items():
        yield f"loop-of-{name}", torchScript(before + f"    for i in range(1000000000):\n      y = {line}\n    return x\n")
    yield "loop-of-operators", torchScript("    for i in range(1000000000):\n      x = torch.relu(x)\n    return x\n")
    # Operators that are many ops of the graph each, so that few lines make the most of them.
    yield "loop-of-quantiles", torchScript("    for i in range(1000000000):\n      x = torch.quantile(x, 0.3, 0, True)\n    return x\n")
    # Calls whose lines are looked for in one long text.
    calls = "".join("    y = torch.relu(x)\n" for _ in range(100_000))
    yield "lines", torchScript(calls + "    return y\n")


# ExportedPrograms.

def meta(sizes, strides, type=7):
    return {"dtype": type, "sizes": [{"as_int": s} for s in sizes], "strides": [{"as_int": s} for s in strides],
            "storage_offset": {"as_int": 0}, "requires_grad": False, "layout": 7}


def called(value):
    return {"as_tensor": {"name": value}}


def exported(nodes=(), inputs=(), constants=None, outputs="x", sizes=(8, 2), deflated=False, more=""):
    """x goes in and one value comes out."""
    strides = [1]
    for size in sizes[:0:-1]:
        strides.insert(0, strides[0] * size)
    program = {"schema_version": {"major": 8, "minor": 1}, "torch_version": "2.12", "graph_module": {
        "graph": {"inputs": [called("x"), *(called(i) for i in inputs)], "outputs": [called(outputs)], "nodes": list(nodes),
                  "tensor_values": {"x": meta(sizes, strides)}},
        "signature": {"input_specs": [{"user_input": {"arg": called("x")}}, *({"tensor_constant": {
            "arg": {"name": i}, "tensor_constant_name": i}} for i in inputs)], "output_specs": [{"user_output": {"arg": called(outputs)}}]}}}
    text = json.dumps(program)[:-1] + more + "}"
    return archive({"m/models/model.json": text, "m/data/weights/model_weights_config.json": '{"config": {}}',
                    "m/data/constants/model_constants_config.json": json.dumps({"config": constants or {}}),
                    "m/data/constants/tensor_0": b"c" * 24}, deflated)


def node(target, arguments, outputs, **metadata):
    return {"target": target, "inputs": [{"name": key, "arg": value} for key, value in arguments.items()], "outputs": outputs, "metadata": metadata}


def exportedFiles(values=12 << 20):
    # What inflates: values, texts.
    yield "json-values", exported(deflated=True, more=', "x": [' + "1," * values + "1]")
    yield "json-lists", exported(deflated=True, more=', "x": [' + "[]," * (values * 3 // 4) + "1]")
    relu = [node("torch.ops.aten.relu.default", {"self": called("x")}, [called("y")])]
    yield "nodes", exported(relu * 600_000, deflated=True)
    # A million elements of one; so many constants.
    inputs = [f"c{i}" for i in range(1500)]
    table = {i: {"path_name": "tensor_0", "is_param": False, "use_pickle": False, "tensor_meta": meta([1 << 20, 1 + n], [0, 0])}
             for n, i in enumerate(inputs[:200])} | {i: {"path_name": "tensor_0", "is_param": False, "use_pickle": False,
             "tensor_meta": meta([(1 << 20) - n], [0])} for n, i in enumerate(inputs)}
    yield "constants", exported(inputs=inputs, constants=table)
    # Pieces, of each of which an operator is made.
    pieces = [node("torch.ops.aten.unbind.int", {"self": called("x")}, [{"as_tensors": [{"name": f"y{i}_{j}"} for j in range(4)]}]) for i in range(1000)]
    yield "pieces", exported(pieces, sizes=(65536, 2))
    stack = "L__self__,,M;L," + "a." * 300_000 + "a,B"
    yield "module-path", exported([node("torch.ops.aten.relu.default", {"self": called("x")}, [called("y")], nn_module_stack=stack)], outputs="y")
    unknown = [called(f"u{i}") for i in range(30_000)]
    yield "unknown-names", exported([node("torch.ops.aten.cat.default", {"tensors": {"as_tensors": [u["as_tensor"] for u in unknown]}}, [called("y" * 300_000)])])
    yield "outputs", exported([node("torch.ops.aten.relu.default", {"self": called("x")}, [called("y" * 300_000), *unknown])])


# ONNX.

def field(number, content):
    size, bytes = len(content), b""
    while size >= 0x80:
        bytes += struct.pack("B", size & 0x7f | 0x80)
        size >>= 7
    return struct.pack("B", number << 3 | 2) + bytes + struct.pack("B", size) + content


def onnxFiles():
    yield "attributes", field(7, field(1, field(5, b"") * 1_200_000))
    yield "nodes", field(7, field(1, b"") * 500_000)
    yield "values", field(7, field(13, b"") * 1_200_000)
    yield "integers", field(7, field(1, field(5, field(8, b"\0" * (12 << 20)))))


# Manifests of checkpoints, without their digest.

def manifests(split=14):
    """Chunks of one element, in a tensor of so many dims: each has two to the power of them corners."""
    chunks = [{"file": 0, "key": str(number), "offsets": [number >> d & 1 for d in range(split)], "sizes": [1] * split, "xxh3": ["0" * 16]}
              for number in range(1 << split)]
    tensor = {"name": "w", "role": "parameter", "dtype": "F32", "shape": [2] * split, "chunks": chunks}
    yield "corners", {
        "format": "polyrank checkpoint", "version": 1, "step": 1, "seed": 1, "program": "", "model": "", "plan": "", "mesh": "",
        "data": {"description": "", "fingerprint": "", "order": "", "samples": 1, "samples_per_step": 1, "origin": 0}, "metrics": {},
        "checksum_block": 4 << 20, "files": [{"name": "shard-00001-of-00001", "bytes": 1}], "tensors": [tensor]}


def seeds(target):
    """Those that a fuzzer has time for, in its own form; some of them with less of the same."""
    # The instrumented reader takes ten seconds for as many values as test_hostile.py has.
    archives = {"torchscript-reader": torchScripts, "exported-program": lambda: exportedFiles(values=1 << 19)}
    if target in archives:
        for name, content in archives[target]():
            if len(content) < 1 << 15 and not name.startswith("loop-of-"):
                yield content
    if target in ("torchscript-code", "torchscript-import"):
        for before, line in loops(8).values():
            yield (HEAD + before + f"    for i in range(1000000000):\n      y = {line}\n    return x\n").encode()
        yield (HEAD + "    return __torch__.f(x)\n" + blocks(40)).encode()
    if target == "onnx-reader":
        for number in (5, 13, 1):
            yield field(7, field(1 if number == 5 else 13, field(number, b"") * 1000))
    if target == "checkpoint":
        for _, content in manifests(4):
            yield json.dumps(content, separators=(",", ":")).encode() + b"\0" + b"s"
    if target == "schedules":
        yield b"F0\n" * 8 + b"F1048575\n"


def files():
    """(kind, name, bytes)."""
    for name, content in torchScripts():
        yield "pt", name, content
    for name, content in exportedFiles():
        yield "pt2", name, content
    for name, content in onnxFiles():
        yield "onnx", name, content


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for kind, name, content in files():
        (folder / f"{name}.{kind}").write_bytes(content)
        print(f"{len(content):>10} {name}.{kind}")


if __name__ == "__main__":
    main()
