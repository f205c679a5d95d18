// The binder through which an operator's function sees its call: arguments by
// their schema's names, results, and how to say what is wrong.

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

  /// The argument of a parameter of the schema, which must be there.
  const Value &operator[](llvm::StringRef name) const;
  /// Whether the schema has it and it is not None.
  bool has(llvm::StringRef name) const;
  const std::vector<Value> &all() const { return arguments; }

  /// Each for an argument of that type; what is None has `otherwise`.
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

  /// The elements of a tensor argument; empty where it is None.
  Imported read(llvm::StringRef name) const;
  ScalarType typeOf(llvm::StringRef name) const {
    return tensor(name)->getType();
  }
  /// `dtype` where it is given; fails where it is not supported.
  mlir::FailureOr<ScalarType> dtype(ScalarType otherwise);

  //===-- types ----------------------------------------------------------===//

  /// The elements of a tensor, or a number without dims, in another type.
  Imported as(const Value &value, ScalarType type) const;
  Imported as(const Imported &x, ScalarType type) const;
  /// A float tensor's type, else float32: of operators that compute floats.
  static ScalarType floatOf(ScalarType type) {
    return isFloat(type) ? type : ScalarType::Float;
  }
  /// The scalar `value`, exactly.
  Imported scalar(const Value &value, ScalarType type) const;

  /// Operands in their common type and shape.
  struct Together {
    ScalarType type;
    llvm::SmallVector<Imported> operands;
  };
  mlir::FailureOr<Together> promote(llvm::ArrayRef<Value> values,
                                    bool toFloat = false);

  /// Fails unless the elements of tensor `name` are integers.
  llvm::LogicalResult needIntegers(llvm::StringRef name);

  //===-- dims -----------------------------------------------------------===//

  /// `dim` counted from the front; fails where it is outside of [-rank, rank).
  /// A tensor without dims has one for this purpose.
  mlir::FailureOr<int64_t> dim(int64_t dim, int64_t rank);
  /// The sorted dims of list `name`; all where it is None or empty.
  mlir::FailureOr<llvm::SmallVector<int64_t>> dims(llvm::StringRef name,
                                                   int64_t rank);

  //===-- results --------------------------------------------------------===//

  /// Adds a new tensor to the results; its elements are converted, and held to
  /// the range of a narrow integer type.
  llvm::LogicalResult give(const Imported &x, ScalarType type);
  llvm::LogicalResult give(const mlir::FailureOr<Imported> &x,
                           ScalarType type) {
    return failed(x) ? llvm::failure() : give(*x, type);
  }
  /// Adds anything else.
  llvm::LogicalResult give(Value value);
  /// Adds a view.
  llvm::LogicalResult view(const TensorRef &base, View::Kind kind,
                           llvm::ArrayRef<int64_t> numbers);
  std::vector<Value> &getResults() { return results; }

  /// Says why this call cannot be imported.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    return emit.fail(reason);
  }

private:
  std::vector<Value> arguments;
  std::vector<Value> results;
};

/// The type that PyTorch gives to what is computed from `values`, tensors and
/// numbers: the widest of the tensors with dims, unless one without dims, or a
/// number, is of a higher kind (bool, integer, float).
ScalarType promoteTypes(llvm::ArrayRef<Value> values);
/// The narrowest type that has the values of both.
ScalarType promoteTypes(ScalarType a, ScalarType b);

/// One row of the table: an overload, and what imports it. Where the schema
/// says that it writes an argument ("Tensor(a!) self"), the one result is
/// written to it.
struct OperatorRow {
  llvm::StringRef schema; // with the namespace where that is not aten
  llvm::LogicalResult (*import)(Call &);
};

/// What to do instead of an operator that the table lacks, after "is not
/// supported"; mostly empty.
llvm::StringRef explainUnsupported(llvm::StringRef name);
/// Whether run_decompositions() writes an operator that the table lacks with
/// those that it has.
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
