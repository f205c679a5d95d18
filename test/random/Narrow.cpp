// Random programs whose ops compute with bf16 and f16.

#include "test/random/Narrow.h"

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

static Type elementOf(Value value) {
  return graph::getGlobalType(value).getElementType();
}

/// The operands and results that have the accumulator's type, whatever the
/// types of the others are.
static SmallVector<Value> sumsOf(Operation *op) {
  return TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([](graph::LayerNormOp op) {
        return SmallVector<Value>{op.getMean(), op.getRstd()};
      })
      .Case(
          [](graph::RmsNormOp op) { return SmallVector<Value>{op.getRstd()}; })
      .Case([](graph::CrossEntropyOp op) {
        return SmallVector<Value>{op.getLse()};
      })
      .Case([](graph::AttentionOp op) {
        return SmallVector<Value>{op.getLse(), op.getBias()};
      })
      .Case([](graph::ScatterAddOp op) {
        return SmallVector<Value>{op.getResult(), op.getInit()};
      })
      .Default({});
}

/// Products become narrow by lower-precision (Check.cpp). A conversion has its
/// types already, and a value without operands is one that others convert.
static bool mayBeNarrow(Operation &op) {
  return isa<graph::GraphOp>(op) && op.getNumRegions() == 0 &&
         !isa<graph::MatmulOp, graph::GroupedMatmulOp, graph::GroupedOuterOp,
              graph::ConvertOp, graph::ConstantOp, graph::IotaOp>(op) &&
         llvm::any_of(op.getOperands(),
                      [](Value value) { return elementOf(value).isF32(); });
}

static void narrow(Operation *op, Type type) {
  OpBuilder builder(op);
  graph::Parts parts(builder, op->getLoc());
  SmallVector<Value> sums = sumsOf(op);
  auto becomesNarrow = [&](Value value) {
    return elementOf(value).isF32() && !llvm::is_contained(sums, value);
  };
  SmallVector<bool> isResultNarrow =
      llvm::map_to_vector(op->getResults(), becomesNarrow);
  for (OpOperand &operand : op->getOpOperands())
    if (becomesNarrow(operand.get()))
      operand.set(parts.convert(operand.get(), type));
  builder.setInsertionPointAfter(op);
  for (auto [result, isNarrow] :
       llvm::zip_equal(op->getResults(), isResultNarrow)) {
    if (!isNarrow)
      continue;
    Type wide = elementOf(result);
    result.setType(graph::getGlobalType(result).clone(type));
    Value back = parts.convert(result, wide);
    result.replaceAllUsesExcept(back, back.getDefiningOp());
  }
}

void polyrank::test::narrowSomeOps(ModuleOp module, Random &random) {
  auto function = module.lookupSymbol<func::FuncOp>("forward");
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (mayBeNarrow(op))
      ops.push_back(&op);
  for (Operation *op : ops)
    if (random.chance(50))
      narrow(op, random.chance(50)
                     ? Type(BFloat16Type::get(module.getContext()))
                     : Type(Float16Type::get(module.getContext())));
}

bool polyrank::test::hasNarrowFloats(Operation *program) {
  return program
      ->walk([](Operation *op) {
        return llvm::any_of(op->getResultTypes(),
                            [](Type type) {
                              return graph::isNarrow(
                                  getElementTypeOrSelf(type));
                            })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}
