// The interface of all ops of a rank's program that produce values in its arena.

#ifndef POLYRANK_RANK_COMMAND_INTERFACE_TD
#define POLYRANK_RANK_COMMAND_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Rank_CommandOpInterface : OpInterface<"CommandOp"> {
  let cppNamespace = "::polyrank::rank";
  let description = [{
    An op of a rank's program that reads its operands in the arena, and writes
    its results and its scratch there. Once buffers are assigned, `buffers` says
    where each result lies.

    1. `buffers` has one entry for each result.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::ArrayAttr", "getBuffersAttr">,
    InterfaceMethod<"", "void", "setBuffersAttr", (ins "::mlir::ArrayAttr":$buffers)>,
    InterfaceMethod<"Memory that it needs while it runs, in addition to operands and results; null if it needs none.",
      "::polyrank::rank::BufferAttr", "getScratchAttr", (ins), "", "return {};">,
    InterfaceMethod<"Returns true if its results are written when the plan is loaded.",
      "bool", "isWrittenAtLoad", (ins), "", "return false;">,
    InterfaceMethod<"The bytes of an operand that result `result` is a view of: it need not be written if it lies there. nullopt "
                    "for a result that is always written.",
      "::std::optional<::polyrank::rank::View>", "getView", (ins "unsigned":$result), "", "return ::std::nullopt;">,
    InterfaceMethod<"How result `result` may share memory with operand `operand`. Otherwise they are disjoint.",
      "::polyrank::runtime::InPlace", "getInPlace", (ins "unsigned":$operand, "unsigned":$result), "",
      "return ::polyrank::runtime::InPlace::Never;">
  ];
  let extraClassDeclaration = [{
    /// Null before buffers are assigned.
    BufferAttr getBuffer(unsigned result);
    /// If the buffers make result `result` a view of an operand, which is not
    /// written: the byte of the operand at which it begins, on device number
    /// `device`. nullopt for a result that is written.
    std::optional<int64_t> getViewOffset(unsigned result, int64_t device);
  }];
  let verify = "return ::polyrank::rank::verifyBuffers($_op);";
}

#endif
