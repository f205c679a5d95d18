// Infers of which loop variables a kernel's values are functions.

#include "compiler/codegen/Domain.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

Affine polyrank::codegen::linearize(ArrayRef<Affine> indices,
                                    ArrayRef<int64_t> shape,
                                    size_t numVariables) {
  Affine offset(numVariables);
  for (auto [index, stride] :
       llvm::zip_equal(indices, graph::getStrides(shape)))
    offset += index * stride;
  return offset;
}

std::optional<IndexMap>
polyrank::codegen::delinearize(const Affine &offset, ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> sizes,
                               std::optional<VariableSplit> &split) {
  IndexMap indices(shape.size(), Affine(sizes.size()));
  Affine rest = offset;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (shape[d] == 1)
      continue;
    Affine quotient;
    if (!divide(rest, shape[d], sizes, quotient, indices[d], split))
      return std::nullopt;
    rest = quotient;
  }
  return indices;
}

const IndexMap *Domain::getMap(Value value) const {
  auto found = maps.find(value);
  return found == maps.end() ? nullptr : &found->second;
}

void Domain::collectOps(Body body) {
  arguments.insert(body.arguments.begin(), body.arguments.end());
  // Depth first without recursion: long chains of ops are common.
  SmallVector<std::pair<Operation *, unsigned>> stack;
  auto enter = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && !arguments.contains(value) && members.insert(op).second)
      stack.push_back({op, 0});
  };
  for (Value result : body.results) {
    enter(result);
    while (!stack.empty()) {
      auto &[op, next] = stack.back();
      if (next == op->getNumOperands()) {
        ops.push_back(op);
        stack.pop_back();
        continue;
      }
      enter(op->getOperand(next++));
    }
  }
}

bool Domain::chooseAnchor(Body body, std::string &reason) {
  auto consider = [&](Value value) {
    if (anchor && graph::numElements(shapeOf(value)) <=
                      graph::numElements(shapeOf(anchor)))
      return false;
    anchor = value;
    return true;
  };
  for (Operation *op : ops) {
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      if (consider(reduce.getInput()))
        reducedDims = llvm::to_vector(reduce.getDims());
    } else if (auto scatter = dyn_cast<graph::ScatterAddOp>(op)) {
      if (body.results.size() != 1 || body.results[0].getDefiningOp() != op) {
        reason = "a scatter_add has a kernel of its own";
        return false;
      }
      // The updates are the anchor even if a reduction was considered before.
      anchor = scatter.getUpdates();
      reducedDims.clear();
      int64_t numIndexDims =
          shapeOf(scatter.getIndices()).size() - scatter.getBatchDims();
      for (int64_t d = 0; d < numIndexDims; ++d)
        reducedDims.push_back(scatter.getAxis() + d);
      break;
    }
  }
  if (!anchor)
    for (Value result : body.results)
      consider(result);
  for (int64_t size : shapeOf(anchor))
    factors.push_back(size == 1 ? SmallVector<int64_t>{}
                                : SmallVector<int64_t>{size});
  return true;
}

FailureOr<Domain> Domain::infer(Body body, std::string &reason) {
  Domain domain;
  domain.collectOps(body);
  if (!domain.chooseAnchor(body, reason))
    return failure();
  while (!domain.spread()) {
  }
  return domain;
}

void Domain::cut(VariableSplit split) {
  size_t v = split.variable;
  for (SmallVector<int64_t> &dim : factors) {
    if (v >= dim.size()) {
      v -= dim.size();
      continue;
    }
    dim[v] /= split.minor;
    dim.insert(dim.begin() + v + 1, split.minor);
    return;
  }
}

void Domain::split(VariableSplit split) {
  cut(split);
  while (!spread()) {
  }
}

bool Domain::assign(Value value, std::optional<IndexMap> map,
                    Worklist &worklist) {
  if (wanted)
    return false;
  if (map && maps.try_emplace(value, *map).second)
    worklist.push_back(value);
  return true;
}

/// The map of a reshape's other side, given map `map` of shape `from`.
static std::optional<IndexMap>
reshapeMap(const IndexMap &map, ArrayRef<int64_t> from, ArrayRef<int64_t> to,
           ArrayRef<int64_t> sizes, std::optional<VariableSplit> &split) {
  return delinearize(linearize(map, from, sizes.size()), to, sizes, split);
}

void Domain::start(Worklist &worklist) {
  maps.clear();
  variables.clear();
  reducedIndices.clear();
  wanted.reset();
  for (auto [d, dim] : llvm::enumerate(factors))
    for (int64_t size : dim)
      variables.push_back(
          {size, llvm::is_contained(reducedDims, static_cast<int64_t>(d))});
  sizes.clear();
  for (const Variable &variable : variables)
    sizes.push_back(variable.size);

  IndexMap map;
  size_t v = 0;
  for (auto [d, dim] : llvm::enumerate(factors)) {
    Affine index(sizes.size());
    int64_t stride = graph::numElements(dim);
    for (int64_t size : dim) {
      stride /= size;
      index.coefficients[v++] = stride;
    }
    map.push_back(index);
    if (llvm::is_contained(reducedDims, static_cast<int64_t>(d)))
      reducedIndices.push_back(index);
  }
  assign(anchor, map, worklist);
}

void Domain::spreadDown(Operation *op, const IndexMap &map,
                        Worklist &worklist) {
  TypeSwitch<Operation *>(op)
      .Case([&](graph::BroadcastOp broadcast) {
        IndexMap operand;
        for (int64_t dim : broadcast.getDims())
          operand.push_back(map[dim]);
        assign(broadcast.getInput(), operand, worklist);
      })
      .Case([&](graph::TransposeOp transpose) {
        IndexMap operand(map.size());
        for (auto [d, from] : llvm::enumerate(transpose.getPermutation()))
          operand[from] = map[d];
        assign(transpose.getInput(), operand, worklist);
      })
      .Case([&](graph::ReshapeOp reshape) {
        assign(reshape.getInput(),
               reshapeMap(map, shapeOf(reshape.getResult()),
                          shapeOf(reshape.getInput()), sizes, wanted),
               worklist);
      })
      .Case([&](graph::ReduceOp reduce) {
        // A reduction over other dims of the same sizes runs over the same
        // variables.
        ArrayRef<int64_t> shape = shapeOf(reduce.getInput());
        IndexMap operand;
        size_t kept = 0, reduced = 0;
        for (auto [d, size] : llvm::enumerate(shape)) {
          if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(d))) {
            operand.push_back(map[kept++]);
            continue;
          }
          if (reduced == reducedIndices.size() ||
              shapeOf(anchor)[reducedDims[reduced]] != size)
            return;
          operand.push_back(reducedIndices[reduced++]);
        }
        if (reduced == reducedIndices.size())
          assign(reduce.getInput(), operand, worklist);
      })
      .Default([&](Operation *op) {
        bool sameShapes =
            op->getNumOperands() &&
            llvm::all_of(op->getOperands(), [&](Value operand) {
              return shapeOf(operand) == shapeOf(op->getResult(0));
            });
        if (isa<graph::DropoutOp>(op))
          assign(op->getOperand(0), map, worklist);
        else if (isa<graph::UniformOp>(op))
          return;
        else if (sameShapes && !isa<graph::SliceOp, graph::PadOp,
                                    graph::ConcatOp, graph::GatherOp>(op))
          for (Value operand : op->getOperands())
            assign(operand, map, worklist);
      });
}

void Domain::spreadUp(Operation *op, Value from, const IndexMap &map,
                      Worklist &worklist) {
  TypeSwitch<Operation *>(op)
      .Case([&](graph::TransposeOp transpose) {
        IndexMap result;
        for (int64_t dim : transpose.getPermutation())
          result.push_back(map[dim]);
        assign(transpose.getResult(), result, worklist);
      })
      .Case([&](graph::ReshapeOp reshape) {
        assign(reshape.getResult(),
               reshapeMap(map, shapeOf(reshape.getInput()),
                          shapeOf(reshape.getResult()), sizes, wanted),
               worklist);
      })
      .Case([&](graph::ReduceOp reduce) {
        IndexMap result;
        for (auto [d, index] : llvm::enumerate(map))
          if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(d)))
            result.push_back(index);
        assign(reduce.getResult(), result, worklist);
      })
      .Case([&](graph::DropoutOp dropout) {
        if (from == dropout.getInput())
          assign(dropout.getResult(), map, worklist);
      })
      .Case<graph::BroadcastOp, graph::SliceOp, graph::PadOp, graph::ConcatOp,
            graph::GatherOp, graph::ScatterAddOp>([](Operation *) {})
      .Default([&](Operation *op) {
        if (shapeOf(op->getResult(0)) == shapeOf(from))
          for (Value result : op->getResults())
            assign(result, map, worklist);
      });
}

bool Domain::spread() {
  Worklist worklist;
  start(worklist);
  while (!worklist.empty() && !wanted) {
    Value value = worklist.pop_back_val();
    IndexMap map = maps[value];
    if (Operation *op = value.getDefiningOp(); op && members.contains(op))
      spreadDown(op, map, worklist);
    for (Operation *user : value.getUsers())
      if (members.contains(user))
        spreadUp(user, value, map, worklist);
  }
  if (!wanted)
    return true;
  cut(*wanted);
  return false;
}
