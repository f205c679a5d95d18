// The binder through which an op's import function sees its node: operands,
// attributes, results, and how to say what is wrong.

#pragma once

#include <map>

#include "frontends/emit/Emitter.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// The element type in which a tensor is computed: float32 for every float, and
/// int32 or int64 for integers that it holds exactly; uint64 is held as the
/// bits of an int64. Null where there is none.
mlir::Type toElementType(mlir::MLIRContext *context, DataType type);

/// Whether it is an integer type that is computed in a wider one, or uint64,
/// whose bits an int64 holds.
constexpr bool isHeldWider(DataType type) {
  return type == DataType::Int8 || type == DataType::Uint8 ||
         type == DataType::Int16 || type == DataType::Uint16 ||
         type == DataType::Uint32 || type == DataType::Uint64;
}

/// The type to which integers of the file are held while they are computed in a
/// wider one; null for those that need not be.
mlir::IntegerType toHeldType(mlir::MLIRContext *context, DataType type);
inline bool isUint64(mlir::IntegerType held) {
  return held && held.getWidth() == 64;
}

/// That of what a node computes.
mlir::IntegerType heldTypeOf(mlir::MLIRContext *context, const Node &node,
                             llvm::ArrayRef<Imported> operands);

/// The element type of a tensor whose elements are known now: floats as the
/// file has them, so that what is computed from them is rounded as the model's
/// own arithmetic rounds. The emitter turns them into `toElementType` where
/// they meet a value. Null where there is none.
mlir::Type toKnownType(mlir::MLIRContext *context, DataType type);

/// The element type as the file stores it; null where a parameter cannot have
/// it.
mlir::Type toStoredType(mlir::MLIRContext *context, DataType type);

/// The elements of an initializer or attribute as a tensor that is known now.
Result<graph::Tensor> toTensor(mlir::MLIRContext *context, const Model &model,
                               const StoredTensor &tensor);

/// Whether PyTorch's exporter wrote `node` for an operator whose name begins
/// with `name`, as in "aten.max.dim": ONNX has one op for several operators
/// that differ in their gradients.
bool isOf(const Node &node, llvm::StringRef name);

class NodeImporter {
public:
  NodeImporter(Emitter &emit, const ImportOptions &options, const Model &model,
               const Node &node, int64_t since,
               llvm::ArrayRef<Imported> operands)
      : emit(emit), options(options), model(model), node(node), since(since),
        operands(operands), results(node.outputs.size()) {}

  Emitter &emit;
  const ImportOptions &options;
  const Model &model;
  const Node &node;
  /// The opset version of the table's row.
  const int64_t since;

  size_t getNumOperands() const { return operands.size(); }
  /// Whether operand `i` is given and not left out.
  bool has(size_t i) const { return i < operands.size() && bool(operands[i]); }
  const Imported &operand(size_t i) const { return operands[i]; }
  bool wants(size_t result) const {
    return result < node.outputs.size() && !node.outputs[result].empty();
  }
  void result(size_t i, Imported value) {
    if (i < results.size())
      results[i] = std::move(value);
  }
  llvm::ArrayRef<Imported> getResults() const { return results; }

  /// Says why this node cannot be imported; all such reasons are reported
  /// together when the whole model has been read.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    this->reason = reason.str();
    return llvm::failure();
  }
  llvm::StringRef getReason() const { return reason; }

  /// Fails unless there are at least `count` operands, none left out.
  llvm::LogicalResult need(size_t count);
  /// Fails unless operand `i` is there and can be looked at now.
  llvm::LogicalResult needKnown(size_t i, llvm::StringRef what);
  /// Fails unless the elements of operand `i` are integers.
  llvm::LogicalResult needIntegers(size_t i, llvm::StringRef what);
  /// Fails where `shape` has negative dims or too many elements.
  llvm::LogicalResult fits(llvm::ArrayRef<int64_t> shape) {
    return emit.fits(shape);
  }
  /// The integers of a constant operand; fails where it is not known.
  llvm::FailureOr<llvm::SmallVector<int64_t>> integers(size_t i,
                                                       llvm::StringRef what);
  /// The element type that a result of type `type` gets: that of known tensors
  /// where all operands are known, else that of values.
  mlir::Type toResultType(DataType type) const;
  /// The one integer or number of a constant operand.
  llvm::FailureOr<int64_t> integer(size_t i, llvm::StringRef what);
  llvm::FailureOr<double> number(size_t i, llvm::StringRef what);
  /// An integer list that is attribute `name` in old opsets and operand `i` in
  /// new ones; nullopt where it is neither.
  llvm::FailureOr<std::optional<llvm::SmallVector<int64_t>>>
  integersFrom(llvm::StringRef name, size_t i);

  const Attribute *attribute(llvm::StringRef name) const;
  bool isOf(llvm::StringRef name) const;
  /// A number among the arguments of that operator, by its position or name:
  /// exporters drop some. `otherwise` where the record has none.
  double argument(size_t position, llvm::StringRef name,
                  double otherwise) const;
  int64_t getInt(llvm::StringRef name, int64_t otherwise) const;
  double getFloat(llvm::StringRef name, double otherwise) const;
  llvm::StringRef getString(llvm::StringRef name,
                            llvm::StringRef otherwise) const;

  /// `axis` counted from the front; failure where it is outside [-rank, rank).
  llvm::FailureOr<int64_t> axis(int64_t axis, int64_t rank);
  llvm::FailureOr<llvm::SmallVector<int64_t>> axes(llvm::ArrayRef<int64_t> axes,
                                                   int64_t rank);

  /// All operands in their common shape.
  llvm::FailureOr<llvm::SmallVector<Imported>> broadcastOperands() {
    return emit.broadcastAll(operands);
  }

private:
  llvm::ArrayRef<Imported> operands;
  llvm::SmallVector<Imported> results;
  std::string reason;
};

/// The rate of the dropout in PyTorch's scaled_dot_product_attention, one of
/// whose nodes this is; 0 for other nodes. The exporter's optimizer takes its
/// Dropout away.
double attentionDropout(const Node &node);

/// See `frontends::clipped`, with the gradient of the operator that the node
/// was made for.
Imported clipped(NodeImporter &n, const Imported &x, const Imported &bound,
                 bool isLower);

/// One row of the op table: how (domain, op) is imported from opset version
/// `since` on, until a row with a later version takes over.
struct OpRow {
  llvm::StringRef domain, type;
  int64_t since;
  llvm::LogicalResult (*import)(NodeImporter &);
};

llvm::ArrayRef<OpRow> getElementwiseRows();
llvm::ArrayRef<OpRow> getActivationRows();
llvm::ArrayRef<OpRow> getIntegerRows();
llvm::ArrayRef<OpRow> getGridRows();
llvm::ArrayRef<OpRow> getShapeRows();
llvm::ArrayRef<OpRow> getSliceRows();
llvm::ArrayRef<OpRow> getIndexRows();
llvm::ArrayRef<OpRow> getScatterRows();
llvm::ArrayRef<OpRow> getResizeRows();
llvm::ArrayRef<OpRow> getContractionRows();
llvm::ArrayRef<OpRow> getEinsumRows();
llvm::ArrayRef<OpRow> getNormalizationRows();
llvm::ArrayRef<OpRow> getAttentionRows();
llvm::ArrayRef<OpRow> getConvolutionRows();
llvm::ArrayRef<OpRow> getPoolingRows();
llvm::ArrayRef<OpRow> getTrainingRows();
llvm::ArrayRef<OpRow> getLossRows();
llvm::ArrayRef<OpRow> getRecurrentRows();
llvm::ArrayRef<OpRow> getComposedRows();

/// What PyTorch 2.13 writes at most.
constexpr int64_t newestOpset = 25;

/// The row for `type` under opset `version`, or null.
const OpRow *findRow(llvm::StringRef domain, llvm::StringRef type,
                     int64_t version);
/// The first opset that has a row for `type`; 0 where none has.
int64_t oldestVersion(llvm::StringRef domain, llvm::StringRef type);

} // namespace polyrank::frontends::onnx
