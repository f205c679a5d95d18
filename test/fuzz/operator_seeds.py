"""Models of one operator each, from the calls in calls.txt, and what else TorchScript's language has: seeds for the
targets that execute a model.

calls.txt has what test/parity/aten_cases.py calls, one line for each operator and kind of arguments: f[4, 5] stands
for a tensor of float32 (i: int64, b: bool, ..).
"""

import json
import re
from pathlib import Path

import numpy as np


class Call:
    """A line of calls.txt: an operator, and what it is given by name."""

    TYPES = {"f": 7, "i": 5, "b": 12, "d": 8, "h": 6, "j": 4, "g": 13, "u": 1, "c": 2}  # as torch.export counts
    C10 = {"d": 7, "h": 5, "j": 3, "g": 15, "u": 0, "c": 1}

    def __init__(self, line):
        self.operator, _, arguments = line.partition("(")
        # What stands for a tensor becomes a text for Python: f[4, 5] is "f[4, 5]".
        arguments = re.sub(r"(?<![\w'])([a-z]\[[\d, ]*\])", r"'\1'", arguments)
        self.arguments = eval(f"dict({arguments}", {"inf": float("inf"), "nan": float("nan")})

    @staticmethod
    def tensor(value):
        """The letter of its type and its sizes; None for what is no tensor."""
        found = re.fullmatch(r"([a-z])\[([\d, ]*)\]", value) if isinstance(value, str) else None
        return found and (found[1], [int(size) for size in found[2].split(",") if size.strip()])


def calls():
    return [Call(line) for line in (Path(__file__).parent / "calls.txt").read_text().splitlines()]


def torchScriptCodes():
    """Each call alone, in a model as TorchScriptImport.cpp has it; and what else the language has."""
    def text(value, lines):
        if found := Call.tensor(value):
            letter, sizes = found
            pool = "self.i" if letter in "ij" else "self.w"
            lines.append(f"a{len(lines)} = torch.reshape(torch.slice({pool}, 0, 0, {int(np.prod(sizes))}), {sizes})")
            name = f"a{len(lines) - 1}"
            return f"torch.gt({name}, 0)" if letter == "b" else f"torch.to({name}, {Call.C10[letter]})" if letter in Call.C10 else name
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(text(each, lines) for each in value) + "]"
        return json.dumps(value) if isinstance(value, str) else repr(value)

    for call in calls():
        lines = []
        given = ", ".join(f"{name}={text(value, lines)}" if name != "self" else text(value, lines)
                          for name, value in call.arguments.items())
        name = call.operator.removeprefix("aten::").partition(".")[0]
        yield codeOf([*lines, f"r = torch.{name}({given})"]).encode()
    for lines in CODES:
        yield codeOf(lines).encode()


def codeOf(lines):
    head = "class M(Module):\n  __parameters__ = [\"w\", \"m\", ]\n  __buffers__ = [\"v\", \"q\", ]\n  def forward(self, x: Tensor) -> Tensor:\n"
    tail = "class S(Module):\n  __parameters__ = [\"m\", ]\n  __buffers__ = []\n  def forward(self, y: Tensor) -> Tensor:\n    return torch.matmul(y, self.m)\n"
    return head + "".join(f"    {line}\n" for line in lines) + "    return r\n" + tail


# Bodies of `forward` whose result is r.
CODES = [
    ["r = torch.linear(torch.matmul(x, torch.slice(self.m, 0, 0, 3)), self.s.m, self.v)"],
    ["r = (self.s).forward(self.m, )"],
    ["if self.training:", "  r = torch.dropout(x, self.f, True)", "else:", "  r = x"],
    ["r = x", "for i in range(self.n):", "  r = torch.add(r, x, alpha=i)"],
    ["r = x", "i = 0", "while torch.lt(i, torch.len(self.sizes)):", "  r, i, = torch.mul(r, 2.), torch.add(i, self.sizes[i])"],
    ["l = annotate(List[Tensor], [])", "_0 = torch.append(l, x)", "_1 = torch.append(l, torch.neg(x))", "r = torch.cat(l, 1)"],
    ["a, b, = torch.unbind(x, 0)", "r = torch.mul(a, b)"],
    ["v = torch.slice(x, 1, 0, 2)", "_0 = torch.mul_(v, 3)", "r = torch.add_(x, CONSTANTS.c0)"],
    ["n = torch.size(x, 0)", "k = int(torch.floor_divide(ops.prim.NumToTensor(n), 2))", "r = torch.view(x, [-1, torch.add(k, n)])"],
    ["t = self.table", "torch._set_item(t, \"b\", 2)", "r = torch.mul(x, t[\"b\"])", "assert_ = torch.__contains__(torch.keys(t), \"a\")"],
    ["o = self.none", "if torch.__is__(o, None):", "  r = x", "else:", "  r = unchecked_cast(Tensor, o)"],
    ["s = torch.format(\"{} {}\", self.word, str(self.sizes))", "if torch.eq(s, \"mean [2, 3]\"):", "  r = x", "else:",
     "  ops.prim.RaiseException(s, \"builtins.ValueError\")", "  r = x"],
    ["self.v = torch.add(self.v, 1)", "r = self.v"],
    ["_0 = torch.add_(self.v, 1.5)", "r = torch.where(self.q, x, torch.zeros_like(x, dtype=6))"],
    ["r = {\"a\": x, \"b\": torch.sum(x, [0], True, dtype=None)}"],
    ["r = (x, torch.embedding(self.m, torch.remainder(torch.slice(self.i, 0, 0, 5), 4)))"],
    ["k = sorted([3, 1, 2])", "r = torch.index_select(x, 1, torch.tensor(k))"],
    ["r = torch.index_put_(torch.clone(x), [None, torch.slice(self.i, 0, 0, 2)], CONSTANTS.c0, True)"],
    ["if isinstance(x, Tensor):", "  r = torch.to(x, 7)", "else:", "  r = x"],
    ["y = torch.batch_norm(self.m, self.v, self.v, self.v, self.v, self.training, 0.1, 1e-05, True)", "r = torch.relu(y)"],
]


def exportedPrograms():
    """Each call alone, as torch.export writes it, with the weights that ExportedProgramImport.cpp gives it."""
    def name(value):
        return {"as_tensor": {"name": value}}

    def meta(letter, sizes, needsGradient=False):
        strides = [int(np.prod(sizes[i + 1:])) for i in range(len(sizes))]
        return {"dtype": Call.TYPES[letter], "sizes": [{"as_int": size} for size in sizes], "requires_grad": needsGradient,
                "strides": [{"as_int": stride} for stride in strides], "storage_offset": {"as_int": 0}, "layout": 7}

    def argument(value, nodes):
        if found := Call.tensor(value):
            letter, sizes = found
            part = node("aten.slice.Tensor", nodes, self=name("c_i" if letter in "ij" else "p_w"), dim={"as_int": 0},
                        start={"as_int": 0}, end={"as_int": int(np.prod(sizes))})
            whole = node("aten.reshape.default", nodes, self=name(part), shape={"as_ints": sizes})
            if letter == "b":
                whole = node("aten.gt.Scalar", nodes, self=name(whole), other={"as_int": 0})
            elif letter in Call.C10:
                whole = node("aten.to.dtype", nodes, self=name(whole), dtype={"as_scalar_type": Call.TYPES[letter]})
            return name(whole)
        if isinstance(value, (list, tuple)):
            made = [argument(each, nodes) for each in value]
            for kind in ("as_tensor", "as_int", "as_float", "as_bool"):
                if made and all(kind in each for each in made):
                    return {kind + "s": [each[kind] for each in made]}
            if any("as_tensor" in each for each in made):
                return {"as_optional_tensors": made}
            return {"as_ints": []} if not made else {"as_floats": [list(each.values())[0] for each in made]}
        kinds = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string", type(None): "as_none"}
        return {kinds[type(value)]: True if value is None else value}

    def node(target, nodes, /, **inputs):
        made = f"v{len(nodes)}"
        nodes.append({"target": "torch.ops." + target, "inputs": [{"name": key, "arg": value, "kind": 1} for key, value in inputs.items()],
                      "outputs": [name(made)], "metadata": {}})
        return made

    def program(nodes, result, *mutated):
        inputs = {"p_w": ("parameter", "w", meta("f", [1024], True)), "p_m": ("parameter", "m", meta("f", [4, 6], True)),
                  "b_v": ("buffer", "v", meta("f", [6])), "c_i": ("tensor_constant", "i", meta("i", [1024])),
                  "x": ("user_input", "", meta("f", [2, 3]))}
        specs = [{kind: {"arg": {"name": key}, f"{kind}_name": target} | ({"persistent": True} if kind == "buffer" else {})}
                 if target else {kind: {"arg": name(key)}} for key, (kind, target, _) in inputs.items()]
        specs[3] = {"tensor_constant": {"arg": {"name": "c_i"}, "tensor_constant_name": "i"}}
        graph = {"inputs": [name(key) for key in inputs], "outputs": [name(each) for each in (*mutated, result)], "nodes": nodes,
                 "tensor_values": {key: value[2] for key, value in inputs.items()}, "sym_int_values": {}, "is_single_tensor_return": False}
        outputs = [{"buffer_mutation": {"arg": {"name": each}, "buffer_name": "v"}} for each in mutated]
        return json.dumps({"graph_module": {"graph": graph, "signature": {
            "input_specs": specs, "output_specs": [*outputs, {"user_output": {"arg": name(result)}}]}, "module_call_graph": []},
            "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 15}},
            separators=(",", ":")).encode()

    for call in calls():
        nodes = []
        inputs = {key: argument(value, nodes) for key, value in call.arguments.items()}
        target = call.operator.replace("::", ".")
        result = node(target if target.count(".") == 2 else target + ".default", nodes, **inputs)
        yield program(nodes, result)
    nodes = []
    changed = node("aten.add.Tensor", nodes, self=name("b_v"), other={"as_float": 1.5})
    yield program(nodes, node("aten.linear.default", nodes, input=name("p_m"), weight=name("p_m"), bias={"as_none": True}), changed)
