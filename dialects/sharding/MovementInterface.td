// What all ops that change a layout have.

#ifndef POLYRANK_SHARDING_MOVEMENT_INTERFACE_TD
#define POLYRANK_SHARDING_MOVEMENT_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Sharding_MovementOpInterface : OpInterface<"MovementOp"> {
  let cppNamespace = "::polyrank::sharding";
  let description = [{
    An op whose results are its operands in other layouts: result i is operand i.
  }];
  let methods = [
    InterfaceMethod<"Which op it is.", "::polyrank::sharding::MovementKind", "getMovementKind">,
    InterfaceMethod<"For people: an op, two layouts and a constraint.",
      "::std::optional<::polyrank::sharding::ReasonAttr>", "getWhy">
  ];
  let verify = "return ::polyrank::sharding::verifyMovement($_op);";
  let extraClassDeclaration = [{
    /// What operand `number` does; the verifier has seen to it that it can.
    ::polyrank::sharding::Movement getMovement(unsigned number = 0);
    /// The collective that devices run; none where each does it alone.
    ::std::optional<::polyrank::runtime::CollectiveKind> getCollectiveKind();
  }];
}

#endif
