#include "compiler/codegen/Repeats.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;

static bool isOfBackward(Operation *op) {
  return graph::getMarkedPhase(op) == graph::Phase::Backward;
}

bool codegen::repeatsForward(ArrayRef<Operation *> ops,
                             ArrayRef<Operation *> others) {
  using Equivalence = OperationEquivalence;
  for (Operation *op : ops)
    for (Operation *other : others)
      if (op->getName() == other->getName() &&
          isOfBackward(op) != isOfBackward(other) &&
          graph::getOrigin(op) == graph::getOrigin(other) &&
          Equivalence::isEquivalentTo(op, other, Equivalence::exactValueMatch,
                                      /*markEquivalent=*/nullptr,
                                      Equivalence::IgnoreLocations |
                                          Equivalence::IgnoreDiscardableAttrs))
        return true;
  return false;
}
