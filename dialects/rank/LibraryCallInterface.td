// The interface of ops that one call of a library computes.

#ifndef POLYRANK_RANK_LIBRARY_CALL_INTERFACE_TD
#define POLYRANK_RANK_LIBRARY_CALL_INTERFACE_TD

include "dialects/rank/CommandInterface.td"

def Rank_LibraryCallOpInterface : OpInterface<"LibraryCallOp", [Rank_CommandOpInterface]> {
  let cppNamespace = "::polyrank::rank";
  let description = [{
    A command that one call of a library computes. Passes that form such an op know
    what it means, and the target knows which function of which library computes it
    (`call`). All others, from the order of commands to the plan, see what this
    interface says: what the call reads, adds to and works in, and what it costs.
    Which results may take the place of operands is `getInPlace` of all commands.
  }];
  let methods = [
    InterfaceMethod<"The target's choice of the function that computes the op; null before `choose-calls`.",
      "::mlir::Attribute", "getCallAttr">,
    InterfaceMethod<"", "void", "setCallAttr", (ins "::mlir::Attribute":$call)>,
    InterfaceMethod<"", "void", "setScratchAttr", (ins "::polyrank::rank::BufferAttr":$scratch)>,
    InterfaceMethod<"The number of the operand to which the call adds what it computes. The first result is the sum, and lies in "
                    "that operand's buffer. nullopt if it adds to none.",
      "::std::optional<unsigned>", "getAddendNumber", (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"The first byte of operand `operand` that the call reads.",
      "int64_t", "getReadBegin", (ins "unsigned":$operand), "", "return 0;">,
    InterfaceMethod<"", "int64_t", "getFlops">,
    InterfaceMethod<"The bytes that the call reads and writes, those in caches included.",
      "int64_t", "getBytes", (ins), "", "return ::polyrank::rank::getOperandAndResultBytes($_op);">,
    InterfaceMethod<"Equal for ops that are one call on different buffers, so that what is found out about one holds for all.",
      "::mlir::Attribute", "getKey", (ins), "", "return ::polyrank::rank::getCallKey($_op);">,
    InterfaceMethod<"What the call computes, in one line for traces, profiles and reports. It begins with the op's name in the "
                    "dialect: `gemm 8x32x16 B^T`.",
      "::std::string", "getText">,
    InterfaceMethod<"The reference implementation: `results` come with types and zeros.",
      "::llvm::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::polyrank::graph::Tensor>":$operands,
           "::llvm::MutableArrayRef<::polyrank::graph::Tensor>":$results)>
  ];
}

#endif
