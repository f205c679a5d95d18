// localize: lowers global tensors with layouts to the tensors of one device.
//
// For a pipeline this builds a function for each coordinate of the pipe axis,
// with the values that live at that coordinate, and those of the values living
// everywhere that it needs.

#include "compiler/lowering/Localizer.h"
#include "compiler/lowering/Passes.h"
#include "compiler/lowering/PipelineSchedule.h"
#include "dialects/graph/Phase.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Movement.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_LOCALIZE
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// Numbers, in program order, the ops that become a collective or a transfer.
static Ids numberMovements(func::FuncOp function) {
  Ids ids;
  function.walk([&](Operation *op) {
    auto movement = dyn_cast<sharding::MovementOp>(op);
    if (isa<pipeline::TransferOp>(op) ||
        (movement && sharding::getCollectiveKind(movement.getMovementKind())))
      ids.try_emplace(op, ids.size());
  });
  return ids;
}

/// Returns true if some value lives at one coordinate of the pipe axis.
static bool isPlaced(func::FuncOp function, int32_t axis) {
  auto isAt = [&](Type type) {
    sharding::LayoutAttr layout = sharding::getLayout(type);
    return layout && llvm::any_of(layout.getPlaces(), [&](sharding::Place at) {
             return at.axis == axis;
           });
  };
  return llvm::any_of(function.getArgumentTypes(), isAt) ||
         function
             .walk([&](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isAt)
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Builds a function for each coordinate of the pipe axis, or one for all
/// ranks.
static LogicalResult localize(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  sharding::MeshAttr mesh = sharding::getMesh(module);
  std::optional<pipeline::Stages> stages = pipeline::getStages(module);
  int32_t axis = mesh && stages ? mesh.lookup(stages->axis) : -1;
  graph::markPhases(function);
  Ids ids = numberMovements(function);
  if (axis < 0 || !isPlaced(function, axis)) {
    if (failed(Localizer(function, ids, std::nullopt).run()))
      return failure();
  } else {
    int64_t slots = 1;
    for (auto op : function.getOps<graph::MicrobatchesOp>()) {
      FailureOr<int64_t> found = lowering::getSlots(module, op);
      if (failed(found))
        return failure();
      slots = *found;
    }
    std::vector<std::unique_ptr<Localizer>> localizers;
    DenseSet<unsigned> read, all;
    for (int64_t i = 0; i < mesh.getAxisSizes()[axis]; ++i) {
      localizers.push_back(std::make_unique<Localizer>(
          function, ids, PipePlace{axis, i, slots}));
      if (failed(localizers.back()->run()))
        return failure();
      localizers.back()->addRead(read);
    }
    // Arguments that no function reads stay in the first one, so that nothing
    // is lost.
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      all.insert(i);
    for (auto &localizer : localizers)
      localizer->eraseUnread(localizer == localizers.front() ? read : all);
  }
  function.erase();
  return success();
}

namespace {
struct LocalizePass : lowering::impl::LocalizeBase<LocalizePass> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(localize(function)))
        return signalPassFailure();
  }
};
} // namespace
