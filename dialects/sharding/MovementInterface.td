// The interface of all ops that change a layout.

#ifndef POLYRANK_SHARDING_MOVEMENT_INTERFACE_TD
#define POLYRANK_SHARDING_MOVEMENT_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Sharding_MovementOpInterface : OpInterface<"MovementOp"> {
  let cppNamespace = "::polyrank::sharding";
  let description = [{
    An op whose results are its operands in other layouts: result i is operand i.
  }];
  let methods = [
    InterfaceMethod<"Identifies the op.", "::polyrank::sharding::MovementKind", "getMovementKind">,
    InterfaceMethod<"The reason of the movement, to be read by people: an op, two layouts and a constraint.",
      "::std::optional<::polyrank::sharding::ReasonAttr>", "getWhy">
  ];
  let verify = "return ::polyrank::sharding::verifyMovement($_op);";
  let extraClassDeclaration = [{
    /// The movement of operand `number`; a verified op has one.
    ::polyrank::sharding::Movement getMovement(unsigned number = 0);
    /// The collective that devices run; nullopt if each device acts alone.
    ::std::optional<::polyrank::runtime::CollectiveKind> getCollectiveKind();
  }];
}

#endif
