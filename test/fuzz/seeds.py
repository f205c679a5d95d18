"""The fuzzers' first inputs: small whole files of every kind, made by the libraries that users have.

What an example of each feature looks like is what a fuzzer finds slowest by itself.
"""

import io
import json
import pickle
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import hostile
import numpy as np
import onnx
from onnx import TensorProto, helper
from operator_seeds import exportedPrograms, torchScriptCodes
from safetensors.numpy import load, save

ROOT = Path(__file__).resolve().parents[2]
NODE_TESTS = Path("/usr/share/libonnx-testdata/data/node")

# Language (the target's first character) -> texts in it.
LANGUAGES = {
    "m": ["data=2", "data=2,tensor=4", " a_1=1 , b=1048576", "data=0", "data", "data=2,data=2"],
    "l": ["data=10:12.5", "tensor=0.5:300", "data=1e3:1e-3", "data=1", "data=x:y"],
    "n": ["compute=120,memory=16", "81.5:16.3", "memory=1e-3 , compute=1e7", "compute=120,memory=16,bf16=240,f16=1", "compute=1,compute=1", "120"],
    "s": ["*.c_fc.weight=[-,tensor]", "out(transformer.h.*.ln_*)=[data,tensor,-]@3",
          "fc1.weight=[data+tensor,?]", "{a,b}[0-9].w=[-]", "x=[]", "[!a]*.b=[tensor]"],
    "i": ["ids=int64[8,128]", "x=float32[]", " a.b = bfloat16[ 1 , 2 ]", "x=float32[-1]"],
    "c": ["cross_entropy(logits,labels)", "cross_entropy(logits,labels,axis=1,ignore_index=-100)",
          "mse(y,target)", "output(loss)", "adamw"],
    "t": ["cross_entropy(a,ya)+0.5*mse(b,yb)", "-1e-3*mse(a,t)/2 - output(b)*2e+1"],
    "o": ["torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95), amsgrad)",
          "sgd(lr=1e-3,momentum=0.9,nesterov=true)", "adamw(lr=1e-3,betas=0.9:0.999,eps=1e-8)",
          "adam(weight_decay=0.01,decay=*.weight:*_norm*)", "adamw"],
    "g": ["fc1.*: lr=x0.1, weight_decay=0", "*.bias:lr=1e-4,momentum=0.9,nesterov", "a:b: maximize"],
    "r": ["cosine(warmup=100, total=1000, min=x0.1)", "constant(warmup=3,warmup_start=1/3)", "step(size=5,gamma=0.5)",
          "one_cycle(total=20,pct_start=0.25,anneal_strategy=linear,three_phase=true)", "wsd(total=9,decay=3,decay_type=1-sqrt)"],
    "a": ['#sharding.mesh<["data" = 2, "tensor" = 4]>',
          '#sharding.layout<mesh<["data" = 2, "tensor" = 4]>, [{"data"}, {"tensor"}]>',
          '#sharding.layout<mesh<["data" = 4]>, [{"data":(1)2} pad 8 fill zero halo 1:1], '
          'partial = sum {"data":(2)2}>',
          '#sharding.layout<mesh<["data" = 2, "tensor" = 2]>, [{"data"}], at {"tensor" = 1}>'],
}


def languages():
    for language, texts in LANGUAGES.items():
        for text in texts:
            yield (language + text).encode()


def models():
    yield from (model.read_bytes() for model in sorted(NODE_TESTS.glob("*/model.onnx"))
                if model.stat().st_size < 4096)
    for name in ("mlp", "unsupported"):
        yield (ROOT / f"test/models/{name}.onnx").read_bytes()
    yield withExternalData().SerializeToString()
    yield withFunction().SerializeToString()


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def withExternalData():
    weight = TensorProto(name="fc.weight", data_type=TensorProto.FLOAT, dims=[4, 4])
    weight.data_location = TensorProto.EXTERNAL
    for key, entry in dict(location="data", offset="64", length="64").items():
        weight.external_data.add(key=key, value=entry)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "fc.weight"], ["y"])], "external",
                              [value("x", ["batch", 4])], [value("y", ["batch", 4])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def withFunction():
    """Calls a local function, whose attribute is the call's, and branches."""
    constant = helper.make_node("Constant", [], ["k"])
    constant.attribute.add(name="value_float", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    scale = helper.make_function("local", "Scale", ["a"], ["b"],
                                 [constant, helper.make_node("Mul", ["a", "k"], ["b"])], opsets, ["k"])
    branch = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "branch", [], [value("t", [2, 3])])
    turn = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["a", "s"], ["b"]),
         helper.make_node("SequenceInsert", ["q", "b"], ["r"])], "turn",
        [value("i", []), value("go", []), value("a", [2, 3]), value("q", [])],
        [value("on", []), value("b", [2, 3]), value("r", []), value("b", [2, 3])])
    nodes = [helper.make_node("Scale", ["x"], ["s"], domain="local", k=2.0),
             helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
             helper.make_node("SequenceEmpty", [], ["e"]),
             helper.make_node("Loop", ["n", "c", "z", "e"], ["y", "l", "all"], body=turn),
             helper.make_node("ConcatFromSequence", ["l"], ["w"], axis=0)]
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    turns = helper.make_tensor("n", TensorProto.INT64, [], [3])
    graph = helper.make_graph(nodes, "function", [value("x", [2, 3])],
                              [value("y", [2, 3]), value("w", [6, 3]), value("all", [3, 2, 3])], [condition, turns])
    return helper.make_model(graph, opset_imports=opsets, functions=[scale])


def plans(bin, folder):
    yield from kernels(bin, folder)
    compiled = folder / "mlp.plan"
    cpu, gpu = ["--cpu", "x86-64-v3"], ["--target", "cuda", "--ptxas", "none"]
    training = ["--mesh", "data=2", "--loss", "cross_entropy(logits,labels)"]
    for options in (cpu + training, cpu + ["--mode", "forward"], gpu + training):
        subprocess.run([bin / "polyrank-compile", ROOT / "test/models/mlp.onnx", "-o", compiled, "--quiet", *options], check=True)
        yield compiled.read_bytes()


def kernels(bin, folder):
    """Hand-built plans, and the image of kernels inside of one."""
    plan = folder / "linear.plan"
    for arguments in ("1 1 1", "2 2 2", "2 1 4 pipeline", "1 1 2 loops", "2 1 2 attention", "4 1 1 forward"):
        subprocess.run([bin / "runtime-test-plan", plan, "weights.bin", *arguments.split()], check=True)
        yield plan.read_bytes()
    whole = plan.read_bytes()
    yield whole[whole.index(b"\x7fELF"):]


def runFiles(bin, folder):
    """Times of the plan of RunFiles.cpp, and a trace of it; @ is its hash."""
    plan, times, trace = folder / "linear.plan", folder / "times.json", folder / "trace.json"
    subprocess.run([bin / "runtime-test-plan", plan, "weights.bin", "2", "1", "2"], check=True)
    subprocess.run([bin / "polyrank-inspect", plan, "--times", times], check=True)
    subprocess.run([bin / "polyrank-run", plan, "--rehearse", times, "--steps", "2", "--trace", trace, "--quiet"],
                   check=True)
    hash = json.loads(times.read_bytes())["plan"].encode()
    for file in (times, trace):
        yield file.read_bytes().replace(hash, b"@")


def checkpoints(bin, folder):
    """The manifest of a checkpoint, without its digest, and the bytes of its files."""
    np.savez(folder / "in.npz", x=np.ones((8, 16), np.float32), labels=np.zeros(8, np.int64))
    plan, saved = folder / "mlp.plan", folder / "saved"
    for mesh, optimizer in (("data=1", "sgd"), ("data=2", "adamw(lr=1e-3)")):
        subprocess.run([bin / "polyrank-compile", ROOT / "test/models/mlp.onnx", "-o", plan, "--quiet", "--mesh", mesh, "--threads", "1",
                        "--loss", "cross_entropy(logits,labels)", "--optimizer", optimizer, "--zero-threshold", "1"], check=True)
        subprocess.run([bin / "polyrank-run", plan, "--data", folder / "in.npz", "--steps", "1", "--checkpoint", saved, "--quiet"], check=True)
        (step,) = saved.glob("step-*")
        manifest = json.loads((step / "manifest.json").read_bytes())["manifest"]
        shards = [load((step / file["name"]).read_bytes()) for file in manifest["files"]]
        shutil.rmtree(saved)
        # Of the small tensors alone, since a fuzzer has more time for short inputs.
        manifest["tensors"] = [t for t in manifest["tensors"] if np.prod(t["shape"], initial=1) <= 64]
        keys = [{c["key"] for t in manifest["tensors"] for c in t["chunks"] if c["file"] == i} for i in range(len(shards))]
        shards = [save({key: shard[key] for key in sorted(kept)}) for shard, kept in zip(shards, keys)]
        for file, shard in zip(manifest["files"], shards):
            file["bytes"] = len(shard)
        yield json.dumps(manifest, separators=(",", ":")).encode() + b"\0" + b"".join(shards)


def safetensors():
    yield save({})
    yield save({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 4), np.int64)})
    yield save({"h.0.weight": np.ones(3, np.float16), "flag": np.array(True)}, metadata={"format": "pt"})
    # An index; both files that it names hold the same bytes.
    whole = save({"a": np.arange(3, dtype=np.float32)})
    yield json.dumps({"metadata": {"total_size": 12}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}).encode() + b"\0" + whole
    yield json.dumps({"weight_map": {"a": "../a", "b": "model-00002-of-00002.safetensors"}}).encode() + b"\0" + whole


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def arrays():
    x, y = np.arange(48, dtype=np.float32).reshape(8, 2, 3), np.arange(8) % 10
    for array in (x, y.astype(np.int32), np.float64(3), np.zeros((0, 2), np.uint16), np.asfortranarray(x[0])):
        yield npy(array)
    for write in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        write(file, x=x, y=y)
        yield file.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # 64-bit sizes
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(npy(x))
        archive.writestr("y.npy", npy(y))
    yield file.getvalue()


def samples():
    """A first byte as Samples.cpp reads it, then a file."""
    text = bytes(range(48, 112))
    tokens = (np.arange(40) % 256).astype(np.uint16)
    for first, data in [(0, text), (1, tokens.tobytes()), (2, tokens.astype(np.uint32).tobytes()),
                        (3, npy(tokens.astype(np.int64))), (7 + 16 + 32, text), (5 + 64, tokens.tobytes()),
                        (1 + 8 + 16 + 32, tokens.tobytes())]:
        yield bytes([first]) + data
    for array in list(arrays())[-3:]:
        for first in (4 + 128, 4 + 128 + 8 + 16 + 32):
            yield bytes([first]) + array


def feeds():
    """A first byte as Feed.cpp reads it, then blocks, which are safetensors files."""
    def block(rows, **metadata):
        return save({"x": np.ones((rows, 2, 3), np.float32), "ids": np.ones((2, rows), np.int64), "scale": np.ones(1, np.float16)},
                    metadata)
    end = b'{"__metadata__":{"end":"1"}}'
    for first in range(8):
        sample = 7 * (3 if first & 1 else 1) if first & 2 else 0
        yield bytes([first]) + block(2, sample=str(sample)) + block(5, sample=str(sample + 2)) + len(end).to_bytes(8, "little") + end
    yield b"\1" + block(7)
    # Two feeds, of which each has half of the bytes: two thirds and one third of the rows.
    yield bytes([8 + 1]) + block(6, sample="0") + block(6, sample="0")
    yield bytes([8 + 2 + 1]) + block(6, sample="14") + block(6, sample="7")


def megatronIndices():
    """A rule about documents, how many bytes of tokens, and Megatron-LM's index of them."""
    for rule in (0, 1, 2, 128, 129):
        for code, width in ((1, 1), (4, 4), (8, 2)):
            lengths, bounds = np.array([9, 0, 3, 1, 12], np.int32), np.array([0, 1, 4, 4, 5], np.int64)
            offsets = (np.concatenate([[0], np.cumsum(lengths[:-1])]) * width).astype(np.int64)
            header = b"MMIDIDX\0\0" + np.uint64(1).tobytes() + bytes([code]) + np.array([5, 5], np.uint64).tobytes()
            yield bytes([rule, 25 * width]) + header + lengths.tobytes() + offsets.tobytes() + bounds.tobytes()


def torchScripts():
    """The committed models, which are small enough for a fuzzer."""
    for name in ("scripted", "traced"):
        yield (ROOT / f"test/models/{name}.pt").read_bytes()


def members(*suffixes):
    """What the TorchScript models hold under such names."""
    for model in torchScripts():
        with zipfile.ZipFile(io.BytesIO(model)) as archive:
            for name in archive.namelist():
                if name.endswith(suffixes):
                    yield archive.read(name)


def pickles():
    yield from members(".pkl", ".debug_pkl")
    for value in ({"a": [1, 2.5, "x", None, True]}, (1, (2, (3,))), [2**40, -1, 2**63 - 1]):
        yield pickle.dumps(value, protocol=2)


def codes():
    yield from members(".py")
    yield b"""class A(Module):
  __parameters__ = ["w", ]
  __annotations__ = []
  __annotations__["0"] = Optional[Dict[str, Tensor]]
  k : Final[int] = -3
  def forward(self, x: Tensor=None) -> Tensor:
    a, b, = torch.f(x, 1.5e-3, k='t\\n')
    c, d = {1: [a, (b,)]}, -inf
    with m as n:
      return (x)[1:2]
"""


def schedules():
    yield b"# 1F1B\nF0 F1 B0 F2 B1 B2 # rank 0\nF0 B0 F1 B1 F2 B2\n"
    yield b"stages 0 1 1 0\nF0.0 F1.0 B1.0 W1.0 B0.0 W0.0\nF0.0 F1.0 B1.0 W1.0 B0.0 W0.0\n"
    yield b"F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1\n" * 2
    yield b"F0 B0 F1 B1\nF0 F1 B0 B1\n"
    yield b"stages 0\nF1048575\n"


def zips():
    yield from arrays()
    yield from torchScripts()


def programs():
    """The committed files of torch.export, and the JSON in them."""
    for path in sorted((ROOT / "test/models").glob("*.pt2")):
        yield path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield archive.read(name)
    for size in ("2*s0 + 1", "Add(Mul(Integer(2), Symbol('s0')), Integer(1))", "(s0 - 1)//2"):
        meta = {"dtype": 7, "sizes": [{"as_expr": {"expr_str": size}}], "strides": [{"as_int": 1}],
                "storage_offset": {"as_int": 0}, "requires_grad": False}
        graph = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {"x": meta}}
        signature = {"input_specs": [], "output_specs": []}
        yield json.dumps({"schema_version": {"major": 8, "minor": 1},
                          "graph_module": {"graph": graph, "signature": signature}}).encode()


def configs():
    yield b'plan = "a.plan"\nsteps = 3\nrate = 1e-3\nquiet = true\neval-data = ["a", "b"]\n'
    yield b"log = 'run.jsonl' # a comment\neval-data = \"x\"\nquiet = false\nsteps = -0x10\nrate = inf\n"
    yield b'[section]\nsteps = 1979-05-27\n"eval-data" = """\na"""\n'


def wires():
    """A byte for the kind, then the body of a control message (runtime/job/net/Messages.cpp)."""
    yield struct.pack("<Bi", 10, 15)  # StopMessage
    yield struct.pack("<Bqq", 7, 123, 456)  # PongMessage
    yield struct.pack("<BIIQi", 5, 2, 2, 17, 15)  # CoordinatorPulse
    yield struct.pack("<BiiI", 8, 1, 2, 4) + b"died" + struct.pack("<I", 2)  # FailMessage
    yield struct.pack("<BII", 9, 2, 3) + b"one" + struct.pack("<I", 0)  # TellMessage
    rank = struct.pack("<iBbQIiQIQIBQBQI", 4711, 1, 83, 9, 2, 4711, 7, 12, 7, 13, 0, 99, 1, 5, 1) + struct.pack("<IiI", 1, 0, 6)
    yield struct.pack("<BIQqII", 4, 1, 3, -5, 0, 1) + rank + struct.pack("<IIQ", 1, 3, 1234)  # NodePulse
    yield struct.pack("<BII", 12, 2, 1) + rank  # RanksMessage
    yield struct.pack("<BIi", 13, 3, 2)  # BarrierMessage
    yield struct.pack("<BQI", 14, 1 << 20, 3) + b"\0\1\2"  # WindowMessage
    yield struct.pack("<BIIBI", 15, 1, 2, 1, 4) + b"line"  # ReportsMessage
    yield struct.pack("<BIII", 16, 4, 2, 1) + b"a" + struct.pack("<I", 0)  # ExchangeMessage
    text = struct.pack("<I", 1) + b"x"
    yield struct.pack("<BI", 1, 1) + text + struct.pack("<Q", 99) + 3 * text + struct.pack("<IQQ", 2, 1 << 30, 1024) + text  # JoinMessage
    yield struct.pack("<BI", 2, 1) + text + struct.pack("<IIQQ", 0, 2, 1, 2)  # StartMessage


def handshakes():
    hello = b"polynet\n" + struct.pack("<IIIQ", 1, 1, 2, 99) + bytes(32)
    yield hello
    yield hello + bytes(32)
    yield b"polynet\n" + struct.pack("<IQ", 1, 42) + bytes(64)  # a challenge
    yield bytes(32)


def nodeLists():
    """Lists of hosts, and the values of Slurm's variables line by line."""
    for text in ("a", "a,b.example.org", "node[01-03,7],b-[1-2]-x", "r[0-1]n[08-11]", "n[0-65535]", "n[0-255][0-255]", "[fd00::1]:29400", "a:5"):
        yield text.encode()
    yield b"node[01-02]\n1(x2)\n23001-23002\n2\n2\n1\n1\n0"
    yield b"a,b\n2,1\n23001\n2\n3\n2\n1\n0"


def seeds(target, bin, folder):
    """The seeds of a target; tools of ours that are needed lie in `bin`, `folder` is for their files."""
    makers = {"onnx-reader": models, "onnx-import": models, "npz": arrays, "samples": samples, "feed": feeds, "megatron-index": megatronIndices,
              "safetensors": safetensors, "languages": languages, "zip": zips, "schedules": schedules, "pickle": pickles,
              "torchscript-code": codes, "torchscript-reader": torchScripts,
              "exported-program": programs, "torchscript-import": torchScriptCodes,
              "exported-program-import": exportedPrograms, "config": configs, "wire": wires, "handshake": handshakes,
              "nodelist": nodeLists}
    withTools = {"plan": plans, "run-files": runFiles, "checkpoint": checkpoints}
    made = withTools[target](bin, folder) if target in withTools else makers[target]()
    return [*made, *hostile.seeds(target)]
