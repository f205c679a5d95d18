// The binder through which the function of an operator sees its call: arguments
// by the names of the schema, results, and failures.

#pragma once

#include <limits>

#include "frontends/aten/Operators.h"
#include "frontends/aten/Schema.h"

namespace polyrank::frontends::aten {

using TensorRef = std::shared_ptr<Tensor>;

class Call {
public:
  Call(Context &context, const Schema &schema, std::vector<Value> arguments)
      : context(context), emit(context.emit), options(context.options),
        schema(schema), arguments(std::move(arguments)) {}

  Context &context;
  Emitter &emit;
  const ImportOptions &options;
  const Schema &schema;

  //===-- arguments ------------------------------------------------------===//

  /// Returns the argument of a parameter, which the schema must have.
  const Value &operator[](llvm::StringRef name) const;
  /// Returns true if the schema has the parameter and the argument is not None.
  bool has(llvm::StringRef name) const;
  const std::vector<Value> &all() const { return arguments; }

  /// Each returns an argument of that type, or `otherwise` if it is None.
  /// @{
  const TensorRef &tensor(llvm::StringRef name) const {
    return (*this)[name].getTensor();
  }
  int64_t integer(llvm::StringRef name) const { return (*this)[name].getInt(); }
  int64_t integer(llvm::StringRef name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  double number(llvm::StringRef name) const {
    return (*this)[name].getNumber();
  }
  bool flag(llvm::StringRef name) const { return (*this)[name].getBool(); }
  llvm::StringRef text(llvm::StringRef name) const {
    return (*this)[name].getString();
  }
  llvm::SmallVector<int64_t> integers(llvm::StringRef name) const;
  std::vector<TensorRef> tensors(llvm::StringRef name) const;
  /// @}

  /// The elements of a tensor argument; empty if it is None.
  Imported read(llvm::StringRef name) const;
  ElementType typeOf(llvm::StringRef name) const {
    return tensor(name)->getType();
  }
  /// The argument `dtype`, or `otherwise` if it is None; fails for an
  /// unsupported type.
  mlir::FailureOr<ElementType> dtype(ElementType otherwise);

  //===-- types ----------------------------------------------------------===//

  /// The elements of a tensor, or a number as a 0-dim tensor, converted to
  /// `type`.
  Imported as(const Value &value, ElementType type) const;
  Imported as(const Imported &x, ElementType type) const;
  /// The type in which an operator on floats computes: `type` if it is a float,
  /// else float32.
  static ElementType floatOf(ElementType type) {
    return isFloat(type) ? type : ElementType::F32;
  }
  /// The scalar `value`, without rounding through another type.
  Imported scalar(const Value &value, ElementType type) const;

  /// Operands converted to their common type and broadcast to their common
  /// shape.
  struct Together {
    ElementType type;
    llvm::SmallVector<Imported> operands;
  };
  mlir::FailureOr<Together> promote(llvm::ArrayRef<Value> values,
                                    bool toFloat = false);

  /// Fails unless the elements of tensor `name` are integers.
  llvm::LogicalResult needIntegers(llvm::StringRef name);

  //===-- dims -----------------------------------------------------------===//

  /// Returns `dim` counted from the front; fails if it is outside [-rank,
  /// rank). A tensor without dims counts as having one.
  mlir::FailureOr<int64_t> dim(int64_t dim, int64_t rank);
  /// The sorted dims of list `name`; all dims if it is None or empty.
  mlir::FailureOr<llvm::SmallVector<int64_t>> dims(llvm::StringRef name,
                                                   int64_t rank);

  //===-- results --------------------------------------------------------===//

  /// Adds a new tensor to the results. Its elements are converted to `type`,
  /// and wrap to the range of a narrow integer type.
  llvm::LogicalResult give(const Imported &x, ElementType type);
  llvm::LogicalResult give(const mlir::FailureOr<Imported> &x,
                           ElementType type) {
    return failed(x) ? llvm::failure() : give(*x, type);
  }
  /// Adds any other result.
  llvm::LogicalResult give(Value value);
  /// Adds a view of `base` to the results.
  llvm::LogicalResult view(const TensorRef &base, View::Kind kind,
                           llvm::ArrayRef<int64_t> numbers);
  std::vector<Value> &getResults() { return results; }

  /// Records why this call cannot be imported.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    return emit.fail(reason);
  }

private:
  std::vector<Value> arguments;
  std::vector<Value> results;
};

/// The type that PyTorch gives to a result computed from `values`, tensors and
/// numbers: the widest type of the tensors with dims, unless a tensor without
/// dims or a number is of a higher kind (bool, integer, float).
ElementType promoteTypes(llvm::ArrayRef<Value> values);
/// The narrowest type that holds the values of both.
ElementType promoteTypes(ElementType a, ElementType b);

/// One row of the table: an overload and the function that imports it. If the
/// schema says that an argument is written ("Tensor(a!) self"), the single
/// result is written to it.
struct OperatorRow {
  llvm::StringRef schema; // with the namespace unless that is aten
  llvm::LogicalResult (*import)(Call &);
};

/// Advice for an operator that the table lacks, appended to "is not supported";
/// mostly empty.
llvm::StringRef explainUnsupported(llvm::StringRef name);
/// Returns true if run_decompositions() decomposes an operator that the table
/// lacks into operators that it has.
bool isDecomposed(llvm::StringRef name);

llvm::ArrayRef<OperatorRow> getArithmeticRows();
llvm::ArrayRef<OperatorRow> getSelectionRows();
llvm::ArrayRef<OperatorRow> getFunctionRows();
llvm::ArrayRef<OperatorRow> getActivationRows();
llvm::ArrayRef<OperatorRow> getComparisonRows();
llvm::ArrayRef<OperatorRow> getCreationRows();
llvm::ArrayRef<OperatorRow> getConversionRows();
llvm::ArrayRef<OperatorRow> getViewRows();
llvm::ArrayRef<OperatorRow> getPartRows();
llvm::ArrayRef<OperatorRow> getJoinRows();
llvm::ArrayRef<OperatorRow> getPaddingRows();
llvm::ArrayRef<OperatorRow> getProductRows();
llvm::ArrayRef<OperatorRow> getConvolutionRows();
llvm::ArrayRef<OperatorRow> getPoolingRows();
llvm::ArrayRef<OperatorRow> getResizeRows();
llvm::ArrayRef<OperatorRow> getNormalizationRows();
llvm::ArrayRef<OperatorRow> getAttentionRows();
llvm::ArrayRef<OperatorRow> getReductionRows();
llvm::ArrayRef<OperatorRow> getMomentRows();
llvm::ArrayRef<OperatorRow> getCumulativeRows();
llvm::ArrayRef<OperatorRow> getOrderStatisticRows();
llvm::ArrayRef<OperatorRow> getDistanceRows();
llvm::ArrayRef<OperatorRow> getWindowRows();
llvm::ArrayRef<OperatorRow> getGridRows();
llvm::ArrayRef<OperatorRow> getSolveRows();
llvm::ArrayRef<OperatorRow> getComplexRows();
llvm::ArrayRef<OperatorRow> getCtcRows();
llvm::ArrayRef<OperatorRow> getIndexRows();
llvm::ArrayRef<OperatorRow> getScatterRows();
llvm::ArrayRef<OperatorRow> getBagRows();
llvm::ArrayRef<OperatorRow> getMaskRows();
llvm::ArrayRef<OperatorRow> getRandomRows();
llvm::ArrayRef<OperatorRow> getLossRows();
llvm::ArrayRef<OperatorRow> getRecurrentRows();
llvm::ArrayRef<OperatorRow> getPackedRows();
llvm::ArrayRef<OperatorRow> getNumberRows();
llvm::ArrayRef<OperatorRow> getPropertyRows();
llvm::ArrayRef<OperatorRow> getListRows();

} // namespace polyrank::frontends::aten
