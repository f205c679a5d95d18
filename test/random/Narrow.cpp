// Random programs whose ops compute with bf16 and f16, or with f64.

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

/// Makes an op of f32 one of `type`, but for the operands and results `kept`.
static void setType(Operation *op, Type type, ArrayRef<Value> kept) {
  OpBuilder builder(op);
  graph::Parts parts(builder, op->getLoc());
  auto changes = [&](Value value) {
    return elementOf(value).isF32() && !llvm::is_contained(kept, value);
  };
  SmallVector<bool> doesResultChange =
      llvm::map_to_vector(op->getResults(), changes);
  for (OpOperand &operand : op->getOpOperands())
    if (changes(operand.get()))
      operand.set(parts.convert(operand.get(), type));
  builder.setInsertionPointAfter(op);
  for (auto [result, doesChange] :
       llvm::zip_equal(op->getResults(), doesResultChange)) {
    if (!doesChange)
      continue;
    Type before = elementOf(result);
    result.setType(graph::getGlobalType(result).clone(type));
    Value back = parts.convert(result, before);
    result.replaceAllUsesExcept(back, back.getDefiningOp());
  }
}

/// The ops of `@forward` that may compute with another type.
static SmallVector<Operation *> opsOf(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("forward");
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (mayBeNarrow(op))
      ops.push_back(&op);
  return ops;
}

void polyrank::test::narrowSomeOps(ModuleOp module, Random &random) {
  for (Operation *op : opsOf(module))
    if (random.chance(50))
      setType(op,
              random.chance(50) ? Type(BFloat16Type::get(module.getContext()))
                                : Type(Float16Type::get(module.getContext())),
              sumsOf(op));
}

void polyrank::test::widenSomeOps(ModuleOp module, Random &random) {
  // There is no code for a tanh or erf of f64.
  auto isComputed = [](Operation *op) {
    return !isa<graph::TanhOp, graph::ErfOp, graph::GeluOp, graph::AttentionOp>(
        op);
  };
  for (Operation *op : opsOf(module))
    if (isComputed(op) && random.chance(40))
      setType(op, Float64Type::get(module.getContext()), {});
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
