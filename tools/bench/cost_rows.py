"""The published rows of training times, and the commands of a step of each.

A row is a GPT that Megatron-LM trained on a mesh of `tensor`, `data` and `pipe`. Its commands are those of Megatron's
layer, in 16 bits and without flash attention: the products of a layer and their gradients, the kernels between them with
the bytes that they read and write, two all-reduces over `tensor` forward and two backward. What is not known of a row is
what its table says of all: whether layers are computed again for their backward, and in which type gradients are added.
"""

import csv
import json
from dataclasses import dataclass, field

DEVICES = 8  # of a node


@dataclass(frozen=True)
class Table:
    """What holds for all rows of a table."""
    name: str
    machine: str  # its file in tools/bench/machines
    vocab: int
    recompute: bool
    gradient: int  # bytes of an element of the gradients that are added and reduced
    overlaps: bool  # without a pipeline gradients are reduced while the last backward runs


TABLES = {
    "single": Table("vTrain, one node", "vtrain-single.toml", 51200, recompute=False, gradient=2, overlaps=True),
    "multi": Table("vTrain, many nodes", "vtrain-multi.toml", 51200, recompute=True, gradient=4, overlaps=False),
    "bloom": Table("BLOOM", "jean-zay.toml", 250880, recompute=True, gradient=2, overlaps=False),
}


@dataclass(frozen=True)
class Row:
    table: str
    batch: int  # of a step
    micro: int  # samples of a microbatch
    hidden: int
    heads: int
    layers: int
    sequence: int
    tensor: int
    data: int
    pipe: int
    seconds: float = field(compare=False)  # measured
    zero: int = 0

    @property
    def microbatches(self):
        return self.batch // (self.micro * self.data)

    @property
    def group(self):
        """Rows of one group do the same work on the same devices."""
        return self.tensor * self.data * self.pipe, self.batch, self.hidden, self.layers, self.heads

    def __str__(self):
        return (f"hidden {self.hidden}, {self.layers} layers, batch {self.batch} by {self.micro}, "
                f"data={self.data},tensor={self.tensor},pipe={self.pipe}")


def readCsv(path):
    with open(path, encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line and line[-1]]
    hasParameters = lines[0][0].startswith("Parameters")
    for line in lines[1:]:
        numbers = [int(float(text)) for text in line[1 + hasParameters:-1]]
        yield Row("multi" if hasParameters else "single", *numbers[:7], *numbers[7:10], seconds=float(line[-1]) / 1e3)


def readJson(path):
    with open(path) as file:
        entries = json.load(file)
    for entry in entries:
        if entry.get("group") != "bloom_prequel" or not entry["measured"].get("iteration_s"):
            continue
        model, mesh = entry["model"], entry["parallel"]
        yield Row("bloom", mesh["gbs"], mesh["mbs"], model["hidden"], model.get("heads") or 64, model["layers"],
                  model["seq"], mesh["tp"], mesh["dp"], mesh["pp"], zero=mesh["zero"],
                  seconds=entry["measured"]["iteration_s"])


def readRows(path):
    return list((readJson if str(path).endswith(".json") else readCsv)(path))


def product(rows, columns, depth, batch=1, count=1):
    size = 2 * batch * (rows * depth + depth * columns + rows * columns)
    return {"product": [batch, rows, columns, depth], "bytes": size, "count": count}


def kernels(*sizes):
    return [{"bytes": size} for size in sizes]


def collective(kind, size, *group):
    return [{"collective": kind, "bytes": size, "group": list(group)}] if group[0][0] > 1 else []


class Megatron:
    """The lists of commands of one row. Bytes are of 16-bit elements unless said."""

    def __init__(self, row):
        self.row, self.table = row, TABLES[row.table]
        self.tokens = row.micro * row.sequence
        self.activation = self.tokens * row.hidden  # elements
        # Rows and columns that one device has: heads, and columns of the first product of the MLP.
        self.local = row.hidden // row.tensor
        self.matrices = row.micro * row.heads // row.tensor  # of scores
        self.scores = self.matrices * row.sequence**2
        # One kernel computes scale, mask and softmax where the number of matrices is a multiple of four.
        self.isFused = self.matrices % 4 == 0
        self.logits = self.tokens * self.table.vocab // row.tensor

    def reduced(self):
        """The all-reduce of an activation over `tensor`."""
        return collective("all_reduce", 2 * self.activation, [self.row.tensor, 1])

    def added(self, parameters):
        """The gradient of a microbatch is added to the sum: both are read, and one is written."""
        return kernels(parameters * (2 + 2 * self.table.gradient))

    def attention(self, *depths):
        """Products of the scores, one for each `depth`: over the head, or over the sequence."""
        row, head = self.row, self.row.hidden // self.row.heads
        return [product(row.sequence, row.sequence if over == "head" else head,
                        head if over == "head" else row.sequence, batch=self.matrices) for over in depths]

    def layerForward(self):
        n, s, h, wide = self.activation, self.scores, self.row.hidden, 4 * self.activation // self.row.tensor
        softmax = [4] if self.isFused else [6, 8, 9, 8, 6]
        return [*kernels(4 * n), product(self.tokens, 3 * self.local, h),
                *self.attention("head"), *kernels(*(size * s for size in softmax), 5 * s),
                *self.attention("sequence"), *kernels(wide), product(self.tokens, h, self.local),
                *self.reduced(), *kernels(7 * n),
                *kernels(4 * n), product(self.tokens, 4 * self.local, h), *kernels(4 * wide),
                product(self.tokens, h, 4 * self.local), *self.reduced(), *kernels(7 * n)]

    def layerBackward(self):
        n, s, h, wide = self.activation, self.scores, self.row.hidden, 4 * self.activation // self.row.tensor
        t, softmax = self.tokens, [6] if self.isFused else [6, 12, 9, 8, 6]
        recomputed = self.layerForward() if self.table.recompute else []
        return [*recomputed, *kernels(5 * n, 2 * n),
                product(t, 4 * self.local, h), product(h, 4 * self.local, t), *kernels(6 * wide, 2 * wide),
                product(t, h, 4 * self.local), product(4 * self.local, h, t), *self.reduced(),
                *kernels(6 * n, 4 * n, 6 * n, 5 * n, 2 * n),
                product(t, self.local, h), product(h, self.local, t), *kernels(wide),
                *self.attention("head", "sequence"), *kernels(5 * s, *(size * s for size in softmax)),
                *self.attention("sequence", "sequence"), *kernels(3 * wide, 6 * wide // 4),
                product(t, h, 3 * self.local), product(3 * self.local, h, t), *self.reduced(),
                *kernels(6 * n, 4 * n, 6 * n), *self.added(12 * h * self.local)]

    def embeddingForward(self):
        n = self.activation
        return [*kernels(4 * n, 5 * n, 4 * n), *self.reduced()]

    def embeddingBackward(self):
        n, parameters = self.activation, self.table.vocab * self.local
        return [*kernels(5 * n, 2 * parameters, 4 * n), *self.added(parameters)]

    def headForward(self):
        """The last norm, the logits, and the loss in f32, whose three sums over `tensor` are small."""
        v = self.logits
        return [*kernels(4 * self.activation), product(self.tokens, self.table.vocab // self.row.tensor, self.row.hidden),
                *kernels(6 * v, 4 * v, 8 * v, 8 * v, 4 * v, 8 * v),
                *3 * collective("all_reduce", 4 * self.tokens, [self.row.tensor, 1])]

    def headBackward(self):
        v, h, columns = self.logits, self.row.hidden, self.table.vocab // self.row.tensor
        return [*kernels(8 * v, 6 * v), product(self.tokens, h, columns), product(columns, h, self.tokens),
                *self.added(columns * h), *self.reduced(), *kernels(10 * self.activation)]

    def batch(self):
        """Samples and the mask of a microbatch."""
        return [{"bytes": 4 * self.row.sequence**2, "count": 4}, {"bytes": 8 * self.tokens, "count": 8}]

    def transfer(self):
        """An activation goes to the next stage: a part from each rank of `tensor`, which gather it there."""
        row, size = self.row, 2 * self.activation
        return [{"send": size // row.tensor, "stride": row.tensor * row.data},
                *collective("all_gather", size, [row.tensor, 1])]

    def parameters(self, layers, hasTable):
        return layers * 12 * self.row.hidden * self.local + hasTable * self.table.vocab * self.local

    def reduceGradients(self, parameters):
        group = [self.row.data, self.row.tensor]
        if self.row.zero:
            return collective("reduce_scatter", self.table.gradient * parameters, group)
        return collective("all_reduce", self.table.gradient * parameters, group)

    def update(self, parameters):
        """A fused Adam, a few commands for all parameters: it reads the gradient in 16 bits, the master copy and two
        moments in f32, writes these three and the parameter in 16 bits, and sets the gradient to zero: 30 bytes."""
        row, commands = self.row, 8
        updated = parameters // row.data if row.zero else parameters
        gathers = collective("all_gather", 2 * parameters, [row.data, row.tensor]) if row.zero else []
        return [{"bytes": 30 * updated // commands, "count": commands}, *gathers]

    def make(self):
        """The row as polyrank-bench-cost reads it."""
        row = self.row
        lists = {"layer forward": self.layerForward(), "layer backward": self.layerBackward(),
                 "embedding forward": self.embeddingForward(), "embedding backward": self.embeddingBackward(),
                 "head forward": self.headForward(), "head backward": self.headBackward(),
                 "batch": self.batch(), "transfer": self.transfer()}
        starts, stages = {}, []
        overlaps = self.table.overlaps and row.pipe == 1 and row.data > 1
        for number, count in self.kinds():
            isFirst, isLast = number == 0, number == row.pipe - 1
            held = row.layers // row.pipe + (number < row.layers % row.pipe)
            hasTable = isFirst or isLast
            transfers = [["transfer", 1]]
            forward = [["batch", 1], *(not isFirst) * transfers, *isFirst * [["embedding forward", 1]],
                       ["layer forward", held], *isLast * [["head forward", 1]], *(not isLast) * transfers]
            backward = [*(not isLast) * transfers, *isLast * [["head backward", 1]], ["layer backward", held],
                        *isFirst * [["embedding backward", 1]], *(not isFirst) * transfers]
            parameters = self.parameters(held, hasTable)
            name = f"end of {number}"
            tied = collective("all_reduce", self.table.gradient * self.table.vocab * self.local,
                              [2, row.tensor * row.data * (row.pipe - 1)]) if row.pipe > 1 and hasTable else []
            reduces = [] if overlaps else self.reduceGradients(parameters)
            lists[name] = [*reduces, *tied, *self.update(parameters)]
            stages.append({"count": count, "forward": forward, "backward": backward, "end": [[name, 1]]})
        if overlaps:
            starts = {"layer backward": self.reduceGradients(self.parameters(1, False))[0],
                      "embedding backward": self.reduceGradients(self.parameters(0, True))[0]}
        return {"lists": lists, "stages": stages, "microbatches": row.microbatches, "starts": starts}

    def kinds(self):
        """The first stage of each kind, and how many follow each other that are alike."""
        pipe, more = self.row.pipe, self.row.layers % self.row.pipe
        borders = sorted({0, 1, more, pipe - 1, pipe} & set(range(pipe + 1)))
        return [(first, after - first) for first, after in zip(borders, borders[1:])]
