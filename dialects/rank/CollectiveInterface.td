// What all collectives have, for those who need not know which one it is.

#ifndef POLYRANK_RANK_COLLECTIVE_INTERFACE_TD
#define POLYRANK_RANK_COLLECTIVE_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Rank_CollectiveOpInterface : OpInterface<"CollectiveOp"> {
  let cppNamespace = "::polyrank::rank";
  let description = [{
    An op that moves operand i of each member of a group to result i of members.
    Which bytes go where, who may share them and how many are sent follows from
    its kind and shapes (runtime/plan/Collectives.h).
  }];
  let methods = [
    InterfaceMethod<"", "::polyrank::runtime::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"The group: devices that differ in these axes only.",
      "::polyrank::rank::AxesAttr", "getAxes">,
    InterfaceMethod<"Of the global value that moves; equal on all devices.", "uint64_t", "getId">,
    InterfaceMethod<"For people: value, user, from, to, constraint.",
      "::std::optional<::polyrank::sharding::ReasonAttr>", "getWhy">,
    InterfaceMethod<"", "::polyrank::runtime::Reduction", "getReduction", (ins), "",
      "return ::polyrank::runtime::Reduction::None;">,
    InterfaceMethod<"Of a permute: from which member each one takes.",
      "::llvm::ArrayRef<int64_t>", "getSourceMembers", (ins), "", "return {};">,
    InterfaceMethod<"The extents of operand and result `number`.",
      "::polyrank::runtime::TransferShape", "getTransferShape", (ins "unsigned":$number), "", [{
        ::polyrank::runtime::TransferShape shape;
        shape.inner = ::llvm::cast<::mlir::ShapedType>($_op->getOperand(number).getType()).getNumElements();
        return shape;
      }]>,
    InterfaceMethod<"Result `number` on member `me` of a group whose members' operands are `parts`, in group order: the reference that "
                    "transports are compared with.",
      "::polyrank::graph::Tensor", "evaluate",
      (ins "::llvm::ArrayRef<::polyrank::graph::Tensor>":$parts, "int64_t":$me, "unsigned":$number)>
  ];
  let extraClassDeclaration = [{
    /// Whether a `rank.wait` is to give the results.
    bool isStarted() {
      return (*this)->getNumResults() && ::llvm::isa<PendingType>((*this)->getResult(0).getType());
    }
    /// Where result `number` may lie on operand `number`.
    ::polyrank::runtime::InPlace getInPlace(unsigned number);
    /// The device's block of operand (InPlace::Block) or result (Whole)
    /// `number`, in bytes: g of these lie one behind the other.
    int64_t getBlockBytes(unsigned number);
    /// What one device sends.
    uint64_t getSentBytes();
  }];
}

#endif
