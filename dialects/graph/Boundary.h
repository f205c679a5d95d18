// The boundary of a model's functions: the role of each argument and result.
//
// `@forward` and `@step` take parameters, state, inputs, counters and learning
// rates, and give outputs, means and the next values of arguments. The
// attribute `graph.role` says which (Boundary.td); only this class reads or
// writes it.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "support/BatchDim.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.h.inc"

namespace polyrank::graph {

class Boundary {
public:
  explicit Boundary(mlir::FunctionOpInterface function) : function(function) {}
  /// Returns true if `value` is a parameter or state of the function whose
  /// entry block has it as an argument; false for other values.
  static bool isParameterOrState(mlir::Value value);

  /// Returns null if the argument or result has another role, or none.
  template <typename Role = mlir::Attribute>
  Role getArgument(unsigned number) const {
    return llvm::dyn_cast_if_present<Role>(
        function.getArgAttr(number, attrName));
  }
  template <typename Role = mlir::Attribute>
  Role getResult(unsigned number) const {
    return llvm::dyn_cast_if_present<Role>(
        function.getResultAttr(number, attrName));
  }
  void setArgument(unsigned number, mlir::Attribute role);
  void setResult(unsigned number, mlir::Attribute role);
  /// The attributes of an argument or result of that role.
  static mlir::DictionaryAttr asDictionary(mlir::Attribute role);

  unsigned getNumArguments() const { return function.getNumArguments(); }
  unsigned getNumResults() const { return function.getNumResults(); }

  /// Returns true for a parameter or state, which the runtime keeps from step
  /// to step.
  bool isKept(unsigned argument) const;
  /// The view of a parameter or state; null if its elements are the stored ones
  /// in their order.
  mlir::DenseI64ArrayAttr getView(unsigned argument) const;
  void setView(unsigned argument, llvm::ArrayRef<int64_t> view);
  /// The symbol of a parameter, or of the parameter to which a state belongs;
  /// null for other roles.
  mlir::FlatSymbolRefAttr getParameter(unsigned argument) const;
  /// The name that users see: "h.0.w", "h.0.w.exp_avg", "ids", or "argument 3"
  /// without a role.
  std::string getName(unsigned argument) const;
  /// "parameter `h.0.w`", "state `h.0.w.exp_avg`", "input `ids`".
  std::string describe(unsigned argument) const;

  /// The result that replaces the argument in the next step.
  std::optional<unsigned> getNext(unsigned argument) const;
  /// The argument that the result replaces.
  std::optional<unsigned> getReplaced(unsigned result) const;

  /// Inserts an argument as number `number`. Results that replace later
  /// arguments follow their new numbers.
  mlir::BlockArgument insertArgument(unsigned number, mlir::Type type,
                                     mlir::Attribute role,
                                     mlir::Location location);
  void eraseArgument(unsigned number);

  /// Verifies that a role fits its argument or result: rules B1 to B9 of
  /// Graph.td.
  /// @{
  static mlir::LogicalResult verifyArgument(mlir::Operation *op,
                                            unsigned number,
                                            mlir::NamedAttribute attribute);
  static mlir::LogicalResult verifyResult(mlir::Operation *op, unsigned number,
                                          mlir::NamedAttribute attribute);
  /// @}

private:
  static constexpr llvm::StringLiteral attrName = "graph.role";
  /// Adds `change` to the argument numbers, from `first` on, that results name.
  void renumber(unsigned first, int change);
  mlir::LogicalResult verifyDistinct() const;
  mlir::LogicalResult verifyRates() const;
  mlir::LogicalResult verifyTies() const;

  // Mutable because its accessors are not const.
  mutable mlir::FunctionOpInterface function;
};

} // namespace polyrank::graph
