// attach-loss: replaces the model's outputs by its loss and metrics.

#include "compiler/training/LossBuilder.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Forward.h"

namespace polyrank::training {
#define GEN_PASS_DEF_ATTACHLOSSPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

namespace {
class AttachLoss : public training::impl::AttachLossPassBase<AttachLoss> {
public:
  using AttachLossPassBase::AttachLossPassBase;
  void runOnOperation() override;
};
} // namespace

void AttachLoss::runOnOperation() {
  FailureOr<func::FuncOp> forward = graph::getForward(getOperation());
  if (failed(forward))
    return signalPassFailure();
  FailureOr<SmallVector<NamedMean>> means = LossBuilder(*forward).build(
      loss, SmallVector<std::string>(metrics.begin(), metrics.end()));
  if (failed(means))
    return signalPassFailure();
  OpBuilder builder(&getContext());
  Operation *terminator = forward->getBody().front().getTerminator();
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  graph::Boundary boundary(*forward);
  auto add = [&](Value value, Attribute role) {
    results.push_back(value);
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  for (const NamedMean &each : *means) {
    auto weight =
        each.weight ? builder.getF64FloatAttr(*each.weight) : FloatAttr();
    for (auto [number, part] : llvm::enumerate(each.parts)) {
      add(part.sum,
          graph::MeanAttr::get(&getContext(), builder.getStringAttr(each.name),
                               weight, part.kind, /*further=*/number != 0));
      add(part.count,
          graph::CountAttr::get(
              &getContext(), part.targets,
              part.least ? builder.getF64FloatAttr(*part.least) : FloatAttr()));
    }
  }
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (auto next = boundary.getResult<graph::NextAttr>(i))
      add(value, next);
  terminator->setOperands(results);
  forward->setType(builder.getFunctionType(forward->getArgumentTypes(),
                                           terminator->getOperandTypes()));
  forward->setAllResultAttrs(attributes);
  graph::eraseDeadOps(forward->getBody().front());
}
