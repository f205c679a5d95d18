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
  manager.addPass(createChooseOrders());
  FormSegmentsOptions segments;
  segments.ahead = options.ahead;
  manager.addPass(createFormSegments(segments));
  manager.addPass(createFormLoops());
  manager.addPass(createFormGemms());
  manager.addPass(codegen::createFormKernels());
  manager.addPass(codegen::createLowerKernels());
  ChooseCallsOptions calls;
  calls.threads = options.threads;
  calls.measure = options.measure;
  manager.addPass(createChooseCalls(calls));
  if (options.overlap) {
    overlap::OrderCommandsOptions order;
    order.links.assign(options.links.begin(), options.links.end());
    order.threads = options.threads;
    order.rates = options.rates;
    order.report = options.report;
    manager.addPass(overlap::createOrderCommands(order));
    overlap::StartCollectivesOptions starts;
    starts.prefetch = options.prefetch;
    starts.links.assign(options.links.begin(), options.links.end());
    starts.threads = options.threads;
    starts.rates = options.rates;
    starts.report = options.report;
    manager.addPass(overlap::createStartCollectives(starts));
  }
  AssignBuffersOptions buffers;
  buffers.threads = options.threads;
  manager.addPass(createAssignBuffers(buffers));
  manager.addPass(createCheckBuffers());
  manager.addPass(createCheckRanks());
  if (options.report) {
    ReportPipelineOptions report;
    report.links.assign(options.links.begin(), options.links.end());
    report.threads = options.threads;
    report.rates = options.rates;
    manager.addPass(createReportPipeline(report));
  }
}
