// The boundary of a model's functions: what each argument and result is.
//
// `@forward` and `@step` take parameters, state, inputs, counters and learning
// rates, and give outputs, means and what takes an argument's place. One
// attribute, `graph.role`, says which (Boundary.td); this is the only place
// that reads or writes it.

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
  /// Of the function whose entry block has the argument; false where `value` is
  /// none.
  static bool isParameterOrState(mlir::Value value);

  /// Null where the argument or result has another role, or none.
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

  /// A parameter or state: what the runtime keeps from step to step.
  bool isKept(unsigned argument) const;
  /// Of a parameter or state: null where its elements are the stored ones in
  /// their order.
  mlir::DenseI64ArrayAttr getView(unsigned argument) const;
  void setView(unsigned argument, llvm::ArrayRef<int64_t> view);
  /// The parameter of a parameter or of its state; null for others.
  mlir::FlatSymbolRefAttr getParameter(unsigned argument) const;
  /// What a user calls it: "h.0.w", "h.0.w.exp_avg", "ids"; "argument 3" where
  /// it has no role.
  std::string getName(unsigned argument) const;
  /// "parameter `h.0.w`", "state `h.0.w.exp_avg`", "input `ids`".
  std::string describe(unsigned argument) const;

  /// The result that takes the argument's place in the next step.
  std::optional<unsigned> getNext(unsigned argument) const;
  /// The argument whose place the result takes.
  std::optional<unsigned> getReplaced(unsigned result) const;

  /// Inserts an argument that becomes number `number`. Results that take the
  /// place of later arguments still do, under their new numbers.
  mlir::BlockArgument insertArgument(unsigned number, mlir::Type type,
                                     mlir::Attribute role,
                                     mlir::Location location);
  void eraseArgument(unsigned number);

  /// That a role fits its argument or result: rules B1 to B8 of Graph.td.
  /// @{
  static mlir::LogicalResult verifyArgument(mlir::Operation *op,
                                            unsigned number,
                                            mlir::NamedAttribute attribute);
  static mlir::LogicalResult verifyResult(mlir::Operation *op, unsigned number,
                                          mlir::NamedAttribute attribute);
  /// @}

private:
  static constexpr llvm::StringLiteral attrName = "graph.role";
  /// Adds `change` to the arguments from `first` on that results name.
  void renumber(unsigned first, int change);
  mlir::LogicalResult verifyDistinct() const;
  mlir::LogicalResult verifyRates() const;
  mlir::LogicalResult verifyTies() const;

  // Its accessors are not const.
  mutable mlir::FunctionOpInterface function;
};

} // namespace polyrank::graph
