// The loops of a kernel's body: its domain, then a node for each result.

#include "compiler/codegen/NodeBuilder.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::getStrides;

/// A result is written at each parallel point once, or at every point once.
static bool isWrittenOnce(const Loops &loops, const Affine &offset,
                          int64_t count) {
  bool mentionsReduced = false;
  for (auto [c, variable] :
       llvm::zip_equal(offset.coefficients, loops.variables))
    mentionsReduced |= c != 0 && variable.isReduced;
  int64_t points = loops.product(false);
  if (mentionsReduced)
    points *= loops.product(true);
  return points == count && isDense(offset, loops.sizes(), count);
}

static LogicalResult buildStores(Body body, const Domain &domain, Loops &loops,
                                 NodeBuilder &builder, std::string &reason) {
  for (auto [i, result] : llvm::enumerate(body.results)) {
    const IndexMap *map = domain.getMap(result);
    if (!map) {
      reason = ("result " + Twine(i) + " is no function of the loop variables")
                   .str();
      return failure();
    }
    Affine offset = linearize(*map, shapeOf(result), domain.sizes.size());
    if (!isWrittenOnce(loops, offset, graph::numElements(shapeOf(result)))) {
      reason =
          ("result " + Twine(i) + " has other loop variables than the rest")
              .str();
      return failure();
    }
    int node = builder.build(result, Indices(map->begin(), map->end()), -1);
    if (node < 0)
      return failure();
    loops.stores.push_back({node, static_cast<unsigned>(i), offset});
  }
  return success();
}

static LogicalResult buildScatter(graph::ScatterAddOp op, Body body,
                                  const Domain &domain, Loops &loops,
                                  NodeBuilder &builder, std::string &reason) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t numIndexDims = shapeOf(op.getIndices()).size() - batch;
  const IndexMap &map = *domain.getMap(op.getUpdates());
  Indices at(map.begin(), map.end());
  Indices indexAt(at.begin(), at.begin() + batch);
  indexAt.append(at.begin() + axis, at.begin() + axis + numIndexDims);
  Scatter scatter;
  if (op.getInit()) {
    auto argument = llvm::find(body.arguments, op.getInit());
    if (argument == body.arguments.end()) {
      reason = "a scatter_add starts from what is in memory";
      return failure();
    }
    scatter.init = argument - body.arguments.begin();
  }
  scatter.indices = builder.build(op.getIndices(), indexAt, -1);
  scatter.updates = builder.build(op.getUpdates(), at, -1);
  if (scatter.indices < 0 || scatter.updates < 0)
    return failure();
  if (loops.hasReductions()) {
    reason = "a scatter adds what is computed in one pass";
    return failure();
  }
  IndexMap destination(map.begin(), map.begin() + axis);
  destination.push_back(Affine(domain.sizes.size()));
  destination.append(map.begin() + axis + numIndexDims, map.end());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  scatter.offset = linearize(destination, shape, domain.sizes.size());
  scatter.stride = getStrides(shape)[axis];
  scatter.limit = shape[axis];
  loops.scatter = scatter;
  return success();
}

FailureOr<Loops> polyrank::codegen::buildLoops(Body body,
                                               HasFunction hasFunction,
                                               std::string &reason) {
  FailureOr<Domain> domain = Domain::infer(body, reason);
  if (failed(domain))
    return failure();
  while (true) {
    if (domain->variables.size() > 60) {
      reason = "more loops than a kernel has";
      return failure();
    }
    Loops loops;
    loops.variables = domain->variables;
    loops.numArguments = body.arguments.size();
    for (Value argument : body.arguments)
      loops.argumentTypes.push_back(cast<RankedTensorType>(argument.getType()));
    for (Value result : body.results)
      loops.resultTypes.push_back(cast<RankedTensorType>(result.getType()));
    NodeBuilder builder(body, *domain, hasFunction, loops, reason);
    auto scatter = body.results.size() == 1
                       ? body.results[0].getDefiningOp<graph::ScatterAddOp>()
                       : graph::ScatterAddOp();
    bool isScatter = scatter && llvm::is_contained(domain->ops, scatter);
    if (succeeded(isScatter
                      ? buildScatter(scatter, body, *domain, loops, builder,
                                     reason)
                      : buildStores(body, *domain, loops, builder, reason)))
      return loops;
    if (!builder.split)
      return failure();
    domain->split(*builder.split);
  }
}
