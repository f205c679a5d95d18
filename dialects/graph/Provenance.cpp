// The origin of an op in the user's model.

#include "dialects/graph/Provenance.h"

#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using graph::CompositeOp;

static constexpr StringLiteral scopeName = "graph.scope",
                               originName = "graph.origin",
                               phaseName = "graph.phase",
                               stageName = "graph.stage",
                               modelName = "graph.model",
                               ruleName = "graph.sharding_rule";

static std::optional<StringRef> findUserName(Operation *op) {
  auto location = op->getLoc()->findInstanceOf<NameLoc>();
  return location ? std::optional(location.getName().getValue()) : std::nullopt;
}

std::string graph::getUserName(Operation *op) {
  return findUserName(op).value_or(op->getName().stripDialect()).str();
}

std::string graph::describe(Operation *op) {
  std::string kind = op->getName().stripDialect().str();
  std::optional<StringRef> name = findUserName(op);
  return name ? kind + " '" + name->str() + "'" : kind;
}

StringRef graph::getScope(Operation *op) {
  auto scope = op->getAttrOfType<StringAttr>(scopeName);
  return scope ? scope.getValue() : StringRef();
}

void graph::setScope(Operation *op, StringAttr scope) {
  if (scope)
    op->setAttr(scopeName, scope);
}

StringAttr graph::getOrigin(Operation *op) {
  return op->getAttrOfType<StringAttr>(originName);
}

void graph::setOrigin(Operation *op, StringAttr origin) {
  op->setAttr(originName, origin);
}

std::optional<graph::Phase> graph::getMarkedPhase(Operation *op) {
  if (auto phase = op->getAttrOfType<PhaseAttr>(phaseName))
    return phase.getValue();
  return std::nullopt;
}

void graph::markPhase(Operation *op, Phase phase) {
  op->setAttr(phaseName, PhaseAttr::get(op->getContext(), phase));
}

std::optional<int64_t> graph::getStage(Operation *op) {
  if (auto stage = op->getAttrOfType<IntegerAttr>(stageName))
    return stage.getInt();
  return std::nullopt;
}

void graph::setStage(Operation *op, std::optional<int64_t> stage) {
  if (stage)
    op->setAttr(stageName, Builder(op->getContext()).getI64IntegerAttr(*stage));
  else
    op->removeAttr(stageName);
}

void graph::copyProvenance(Operation *from, Operation *to) {
  for (StringRef name : {scopeName, originName, phaseName, stageName})
    if (Attribute attribute = from->getAttr(name);
        attribute && !to->hasAttr(name))
      to->setAttr(name, attribute);
}

void graph::copyProvenance(ArrayRef<Operation *> from, Operation *to) {
  bool areDerivatives = llvm::all_of(from, getOrigin);
  Phase phase = Phase::Update;
  for (Operation *op : from)
    phase = std::min(phase, getMarkedPhase(op).value_or(Phase::Forward));
  if (phase != Phase::Forward && !to->hasAttr(phaseName))
    markPhase(to, phase);
  for (Operation *op : llvm::reverse(from))
    for (StringRef name : {scopeName, originName, stageName})
      if (Attribute attribute = op->getAttr(name);
          attribute && !to->hasAttr(name) &&
          (name != originName || areDerivatives))
        to->setAttr(name, attribute);
}

void graph::decomposeComposites(Operation *root,
                                function_ref<bool(Operation *)> filter) {
  SmallVector<CompositeOp> composites;
  root->walk([&](CompositeOp op) {
    if (filter(op))
      composites.push_back(op);
  });
  for (CompositeOp op : composites) {
    ProvenanceCopier copier(op);
    auto builder = OpBuilder(op, &copier);
    op->replaceAllUsesWith(decompose(builder, op));
    op->erase();
  }
}

void graph::setPrintedRule(Operation *op, StringRef rule) {
  op->setAttr(ruleName, StringAttr::get(op->getContext(), rule));
}

StringRef graph::getModelName(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(modelName);
  return name ? name.getValue() : StringRef();
}

void graph::setModelName(ModuleOp module, StringRef name) {
  module->setAttr(modelName, StringAttr::get(module.getContext(), name));
}

// 1. The attributes are graph.scope, graph.origin, graph.phase, graph.stage,
//    graph.model and graph.sharding_rule, which a test prints.
// 2. graph.phase is a #graph.phase, graph.stage a number from 0 on, each other
//    attribute a string; graph.model is only on the module.
LogicalResult graph::verifyProvenance(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (!llvm::is_contained(
          {scopeName, originName, phaseName, stageName, modelName, ruleName},
          name))
    return op->emitOpError("the graph dialect has no attribute '")
           << name << "'";
  if (name == phaseName) {
    if (isa<PhaseAttr>(attribute.getValue()))
      return success();
    return op->emitOpError()
           << name << " is a #graph.phase, not " << attribute.getValue();
  }
  if (name == stageName) {
    auto stage = dyn_cast<IntegerAttr>(attribute.getValue());
    if (stage && stage.getInt() >= 0)
      return success();
    return op->emitOpError()
           << name << " is a number from 0 on, not " << attribute.getValue();
  }
  if (!isa<StringAttr>(attribute.getValue()))
    return op->emitOpError()
           << name << " is a string, not " << attribute.getValue();
  if (name == modelName && !isa<ModuleOp>(op))
    return op->emitOpError() << name << " belongs to the module";
  return success();
}
