// Builds the update of @step: the new parameters and states.

#include "compiler/training/StepBuilder.h"
#include "support/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

/// Marks with `graph.gradient` where the update takes a gradient, of which the
/// loss scale is no part any more.
Value StepBuilder::takeGradient(Parameter &parameter) {
  auto role = graph::Boundary(step).getArgument<graph::ParameterAttr>(
      parameter.step.getArgNumber());
  Parts own(builder, NameLoc::get(builder.getStringAttr(parameter.name)));
  Value taken =
      graph::GradientOp::create(builder, own.location, parameter.gradient,
                                role.getSymbol(), role.getView());
  return lossScale.unscale(own, taken);
}

/// Emits remarks on which rule updates which parameters, if there are several
/// rules.
void StepBuilder::reportRules(const Optimizer &optimizer) {
  llvm::MapVector<StringRef, SmallVector<std::string>> names;
  llvm::SmallPtrSet<Operation *, 16> seen;
  for (Parameter &parameter : parameters)
    if (StringRef name = optimizer.getNameFor(parameter.stored);
        parameter.gradient && !name.empty() &&
        seen.insert(parameter.stored).second)
      names[name].push_back(parameter.name);
  for (auto &[rule, updated] : names)
    step.emitRemark() << rule << " updates " << groupNames(updated);
}

FailureOr<SmallVector<Value>>
StepBuilder::buildUpdates(const Optimizer &optimizer, const Clip &clip,
                          const Clip::Scale &scale, const Ema &ema,
                          ValueRange carried) {
  // The views of one stored tensor are updated together, since some optimizers
  // need its norm.
  llvm::MapVector<Operation *, SmallVector<Parameter *>> stored;
  SmallVector<std::string> unused;
  for (Parameter &parameter : parameters) {
    if (parameter.gradient)
      stored[parameter.stored].push_back(&parameter);
    else if (parameter.trainable)
      unused.push_back(parameter.name);
  }
  if (!unused.empty())
    step.emitWarning() << "the loss does not depend on "
                       << (unused.size() == 1 ? "parameter " : "parameters ")
                       << groupNames(unused)
                       << (unused.size() == 1 ? "; it is left as it is"
                                              : "; they are left as they are");
  reportRules(optimizer);
  // The optimizer starts from the value that the model left in a parameter.
  llvm::DenseMap<Parameter *, Value> next, left;
  auto carriedNext = carried.begin();
  for (Parameter &parameter : parameters)
    left[&parameter] =
        parameter.update < 0 ? Value(parameter.step) : *carriedNext++;
  for (auto &[op, views] : stored) {
    SmallVector<UpdatedTensor> tensors;
    for (Parameter *parameter : views) {
      Parts own(builder, NameLoc::get(builder.getStringAttr(parameter->name)));
      Value gradient = takesAllGradients(clip) ? parameter->gradient
                                               : takeGradient(*parameter);
      if (scale.factor)
        gradient = own.mul(gradient, own.spread(scale.factor, gradient));
      tensors.push_back(
          {parameter->stored,
           graph::Boundary(step).getView(parameter->step.getArgNumber()),
           own.location, /*decays=*/true, left[parameter],
           clip.limit(own, gradient), parameter->states});
    }
    SmallVector<Value> &whole = storedStates[op];
    SmallVector<Value> wholeBefore = whole;
    if (failed(optimizer.buildUpdates(builder, views.front()->names, tensors,
                                      whole)))
      return failure();
    for (auto [parameter, tensor] : llvm::zip_equal(views, tensors)) {
      Parts own(builder, tensor.location);
      next[parameter] = lossScale.keepParameter(
          own, tensor.parameter, parameter->step, parameter->gradient);
      for (auto [state, after] :
           llvm::zip_equal(parameter->states, tensor.states))
        state = lossScale.keep(own, after, state);
    }
    Parts own(builder, tensors.front().location);
    for (auto [state, before] : llvm::zip_equal(whole, wholeBefore))
      state = lossScale.keep(own, state, before);
  }
  SmallVector<Value> updated, updatedStates;
  for (Parameter &parameter : parameters) {
    Parts own(builder, NameLoc::get(builder.getStringAttr(parameter.name)));
    updated.push_back(parameter.gradient ? next[&parameter]
                                         : lossScale.keep(own, left[&parameter],
                                                          parameter.step));
    llvm::append_range(updatedStates, parameter.states);
    if (parameter.average)
      updatedStates.push_back(lossScale.keep(
          own, ema.buildNext(own, parameter.average, updated.back()),
          parameter.average));
  }
  llvm::append_range(updated, updatedStates);
  for (auto &[op, states] : storedStates)
    llvm::append_range(updated, states);
  return updated;
}
