// Builds the loops of a kernel's body: its domain, then the value of each
// result.

#include "compiler/codegen/BuildLoops.h"

#include "compiler/codegen/ElementBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::getStrides;

/// Returns true if each element of a result is written exactly once: at each
/// point of the parallel variables or, if the offset depends on reduced ones,
/// at each point of all variables.
static bool isWrittenOnce(kernel::LoopsOp loops, const Affine &offset,
                          int64_t count) {
  bool mentionsReduced = false;
  for (auto [c, variable] :
       llvm::zip_equal(offset.coefficients, loops.getVariables()))
    mentionsReduced |= c != 0 && variable.isReduced;
  int64_t points = loops.getNumPoints(/*ofReduced=*/false);
  if (mentionsReduced)
    points *= loops.getNumPoints(/*ofReduced=*/true);
  return points == count && isDense(offset, loops.getSizes(), count);
}

static LogicalResult buildStores(OpBuilder &builder, Body body,
                                 const Domain &domain, kernel::LoopsOp loops,
                                 ElementBuilder &elements,
                                 std::string &reason) {
  struct Store {
    Value value;
    Affine offset;
  };
  SmallVector<Store> stores;
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
    Value value =
        elements.build(result, Indices(map->begin(), map->end()), Value());
    if (!value)
      return failure();
    stores.push_back({value, offset});
  }
  builder.setInsertionPointToEnd(&loops.getBlock());
  for (auto [i, store] : llvm::enumerate(stores))
    kernel::StoreOp::create(builder, loops.getLoc(), store.value, i,
                            store.offset);
  return success();
}

static LogicalResult buildScatter(OpBuilder &builder, graph::ScatterAddOp op,
                                  Body body, const Domain &domain,
                                  kernel::LoopsOp loops,
                                  ElementBuilder &elements,
                                  std::string &reason) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t numIndexDims = shapeOf(op.getIndices()).size() - batch;
  const IndexMap &map = *domain.getMap(op.getUpdates());
  Indices at(map.begin(), map.end());
  Indices indexAt(at.begin(), at.begin() + batch);
  indexAt.append(at.begin() + axis, at.begin() + axis + numIndexDims);
  if (op.getInit() && !llvm::is_contained(body.arguments, op.getInit())) {
    reason = "a scatter_add starts from what is in memory";
    return failure();
  }
  Value index = elements.build(op.getIndices(), indexAt, Value());
  Value update = index ? elements.build(op.getUpdates(), at, Value()) : Value();
  if (!update)
    return failure();
  update = elements.convert(update, loops.getResultType(0).getElementType());
  if (loops.hasReductions()) {
    reason = "a scatter adds what is computed in one pass";
    return failure();
  }
  IndexMap destination(map.begin(), map.begin() + axis);
  destination.push_back(Affine(domain.sizes.size()));
  destination.append(map.begin() + axis + numIndexDims, map.end());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  builder.setInsertionPointToEnd(&loops.getBlock());
  kernel::ScatterAddOp::create(
      builder, loops.getLoc(), update, index, op.getInit(),
      linearize(destination, shape, domain.sizes.size()),
      getStrides(shape)[axis], shape[axis]);
  return success();
}

FailureOr<kernel::LoopsOp>
polyrank::codegen::buildLoops(OpBuilder &builder, Location location, Body body,
                              HasCode hasCode, std::string &reason) {
  FailureOr<Domain> domain = Domain::infer(body, reason);
  if (failed(domain))
    return failure();
  SmallVector<Type> resultTypes(ValueRange(body.results).getTypes());
  while (true) {
    if (domain->variables.size() > 60) {
      reason = "more loops than a kernel has";
      return failure();
    }
    auto loops = kernel::LoopsOp::create(builder, location, resultTypes,
                                         body.arguments, domain->variables);
    ElementBuilder elements(body, *domain, hasCode, loops, reason);
    auto scatter = body.results.size() == 1
                       ? body.results[0].getDefiningOp<graph::ScatterAddOp>()
                       : graph::ScatterAddOp();
    bool isScatter = scatter && llvm::is_contained(domain->ops, scatter);
    OpBuilder::InsertionGuard guard(builder);
    if (succeeded(isScatter ? buildScatter(builder, scatter, body, *domain,
                                           loops, elements, reason)
                            : buildStores(builder, body, *domain, loops,
                                          elements, reason))) {
      loops.mergeVariables();
      return loops;
    }
    loops.erase();
    if (!elements.split)
      return failure();
    domain->split(*elements.split);
  }
}
