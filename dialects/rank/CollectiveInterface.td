// The interface of all collectives.

#ifndef POLYRANK_RANK_COLLECTIVE_INTERFACE_TD
#define POLYRANK_RANK_COLLECTIVE_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Rank_CollectiveOpInterface : OpInterface<"CollectiveOp"> {
  let cppNamespace = "::polyrank::rank";
  let description = [{
    An op that moves operand i of each member of a group to result i of members.
    Which bytes go where, which memory they may share and how many bytes are sent
    follows from its kind and shapes (runtime/plan/Collectives.h).
  }];
  let methods = [
    InterfaceMethod<"", "::polyrank::runtime::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"The group: devices that differ in these axes only.",
      "::polyrank::rank::AxesAttr", "getAxes">,
    InterfaceMethod<"The id of the global value that moves; equal on all devices.", "uint64_t", "getId">,
    InterfaceMethod<"The reason, to be read by people: value, user, from, to, constraint.",
      "::std::optional<::polyrank::sharding::ReasonAttr>", "getWhy">,
    InterfaceMethod<"", "::polyrank::runtime::Reduction", "getReduction", (ins), "",
      "return ::polyrank::runtime::Reduction::None;">,
    InterfaceMethod<"For a permute: the member from which each member takes its result.",
      "::llvm::ArrayRef<int64_t>", "getSourceMembers", (ins), "", "return {};">,
    InterfaceMethod<"The extents of operand and result `number`.",
      "::polyrank::runtime::TransferShape", "getTransferShape", (ins "unsigned":$number), "", [{
        ::polyrank::runtime::TransferShape shape;
        shape.inner = ::llvm::cast<::mlir::ShapedType>($_op->getOperand(number).getType()).getNumElements();
        return shape;
      }]>,
    InterfaceMethod<"Result `number` on member `me` of a group whose members' operands are `parts`, in group order: the reference that "
                    "communicators are compared with.",
      "::polyrank::graph::Tensor", "evaluate",
      (ins "::llvm::ArrayRef<::polyrank::graph::Tensor>":$parts, "int64_t":$me, "unsigned":$number)>
  ];
  let extraClassDeclaration = [{
    /// Returns true if a `rank.wait` gives the results.
    bool isStarted() {
      return (*this)->getNumResults() && ::llvm::isa<PendingType>((*this)->getResult(0).getType());
    }
    /// Says how result `number` may share memory with operand `number`.
    ::polyrank::runtime::InPlace getInPlace(unsigned number);
    /// The bytes of the device's block of operand (InPlace::Block) or result
    /// (Whole) `number`, which consists of g adjacent blocks.
    int64_t getBlockBytes(unsigned number);
    /// The bytes that one device sends.
    uint64_t getSentBytes();
  }];
}

#endif
