// The list of lowering passes.

#include "compiler/lowering/Stage.h"

#include "compiler/codegen/Passes.h"
#include "compiler/overlap/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace polyrank;

void lowering::loweringStage(OpPassManager &manager,
                             const LoweringStageOptions &options) {
  manager.addPass(createLocalize());
  // The copies that it writes are transposes, which the following passes merge
  // with others.
  manager.addPass(createNormalizeCollectives());
  manager.addPass(createChooseOrders());
  FormSegmentsOptions segments;
  segments.ahead = options.ahead;
  manager.addPass(createFormSegments(segments));
  manager.addPass(createFormLoops());
  FormAttentionOptions attention;
  attention.attention = options.attention;
  manager.addPass(createFormAttention(attention));
  manager.addPass(createFormGemms());
  manager.addPass(codegen::createFormKernels());
  manager.addPass(codegen::createLowerKernels());
  ChooseCallsOptions calls;
  calls.measure = options.measure;
  manager.addPass(createChooseCalls(calls));
  if (options.overlap) {
    overlap::OrderCommandsOptions order;
    order.report = options.report;
    manager.addPass(overlap::createOrderCommands(order));
    overlap::StartCollectivesOptions starts;
    starts.prefetch = options.prefetch;
    starts.report = options.report;
    manager.addPass(overlap::createStartCollectives(starts));
  }
  manager.addPass(createAssignBuffers());
  manager.addPass(createCheckBuffers());
  manager.addPass(createCheckRanks());
}
