// The binder through which the import function of an op sees its node:
// operands, attributes, results, and failures.

#pragma once

#include <map>

#include "frontends/emit/Emitter.h"
#include "frontends/import/ElementTypes.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

inline bool isUint64(mlir::IntegerType held) {
  return held && held.getWidth() == 64;
}

/// The `heldType` of the results of a node.
mlir::IntegerType heldTypeOf(mlir::MLIRContext *context, const Node &node,
                             llvm::ArrayRef<Imported> operands);

/// The elements of an initializer or attribute, as a known tensor.
Result<graph::Tensor> toTensor(mlir::MLIRContext *context, const Model &model,
                               const StoredTensor &tensor);

/// Returns true if PyTorch's exporter wrote `node` for an operator whose name
/// begins with `name`, as in "aten.max.dim": ONNX has one op for several
/// operators that differ in their gradients.
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
  /// The opset version of the row of the op table.
  const int64_t since;

  size_t getNumOperands() const { return operands.size(); }
  /// Returns true if operand `i` is given.
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

  /// Records why this node cannot be imported; all such reasons are reported
  /// together after the whole model has been read.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    this->reason = reason.str();
    return llvm::failure();
  }
  llvm::StringRef getReason() const { return reason; }

  /// Fails unless there are at least `count` operands, with none left out.
  llvm::LogicalResult need(size_t count);
  /// Fails unless operand `i` is given and known.
  llvm::LogicalResult needKnown(size_t i, llvm::StringRef what);
  /// Fails unless the elements of operand `i` are integers.
  llvm::LogicalResult needIntegers(size_t i, llvm::StringRef what);
  /// Fails if `shape` has negative dims or too many elements.
  llvm::LogicalResult fits(llvm::ArrayRef<int64_t> shape) {
    return emit.fits(shape);
  }
  /// The integers of a constant operand; fails if it is not known.
  llvm::FailureOr<llvm::SmallVector<int64_t>> integers(size_t i,
                                                       llvm::StringRef what);
  /// The element type of a result of type `type`: that of known tensors if all
  /// operands are known, else that of values.
  mlir::Type toResultType(ElementType type) const;
  /// The single integer or number of a constant operand.
  llvm::FailureOr<int64_t> integer(size_t i, llvm::StringRef what);
  llvm::FailureOr<double> number(size_t i, llvm::StringRef what);
  /// A list of integers that is attribute `name` in old opsets and operand `i`
  /// in new ones; nullopt if neither is given.
  llvm::FailureOr<std::optional<llvm::SmallVector<int64_t>>>
  integersFrom(llvm::StringRef name, size_t i);

  const Attribute *attribute(llvm::StringRef name) const;
  bool isOf(llvm::StringRef name) const;
  /// A number among the recorded arguments of the PyTorch operator, by position
  /// or name, since exporters drop some. `otherwise` if the record has none.
  double argument(size_t position, llvm::StringRef name,
                  double otherwise) const;
  int64_t getInt(llvm::StringRef name, int64_t otherwise) const;
  double getFloat(llvm::StringRef name, double otherwise) const;
  llvm::StringRef getString(llvm::StringRef name,
                            llvm::StringRef otherwise) const;

  /// Returns `axis` counted from the front; fails if it is outside [-rank,
  /// rank).
  llvm::FailureOr<int64_t> axis(int64_t axis, int64_t rank);
  llvm::FailureOr<llvm::SmallVector<int64_t>> axes(llvm::ArrayRef<int64_t> axes,
                                                   int64_t rank);

  /// Broadcasts all operands to their common shape.
  llvm::FailureOr<llvm::SmallVector<Imported>> broadcastOperands() {
    return emit.broadcastAll(operands);
  }

private:
  llvm::ArrayRef<Imported> operands;
  llvm::SmallVector<Imported> results;
  std::string reason;
};

/// The dropout rate of the PyTorch scaled_dot_product_attention that this node
/// is a part of; 0 for other nodes. The exporter's optimizer removes its
/// Dropout.
double attentionDropout(const Node &node);

/// See `frontends::clipped`; the gradient at the bound is that of the operator
/// from which the node was made.
Imported clipped(NodeImporter &n, const Imported &x, const Imported &bound,
                 bool isLower);

/// One row of the op table: how (domain, op) is imported from opset version
/// `since` on, until a row with a later version replaces it.
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

/// The newest opset that PyTorch 2.13 writes.
constexpr int64_t newestOpset = 25;

/// The row for `type` under opset `version`, or null.
const OpRow *findRow(llvm::StringRef domain, llvm::StringRef type,
                     int64_t version);
/// The first opset that has a row for `type`; 0 if none has.
int64_t oldestVersion(llvm::StringRef domain, llvm::StringRef type);

} // namespace polyrank::frontends::onnx
