// PyTorch's operators by name and overload, on values that are known at import
// or computed by the graph.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/aten/Value.h"
#include "frontends/import/Failures.h"
#include "frontends/import/Options.h"

namespace polyrank::frontends::aten {

/// The state that the operators of one model share.
struct Context {
  Emitter &emit;
  const ImportOptions &options;
  Failures &failures;
  /// The place of the call that is being imported, for failures: "`linear_3` in
  /// h.0.mlp", or "model.py:12". The reader sets it together with
  /// Emitter::setOrigin before each call.
  std::string place;
  /// The number of ops that `--dropout` and `--batch-norm` apply to.
  int64_t numDropouts = 0, numBatchNorms = 0;
  /// For a call whose first result has a shape that depends on values:
  /// `resultShape` is the shape according to the file; else `wayOut` says how
  /// the user may give it ("; where it is always the same number, give it with
  /// --dim u0=N").
  std::optional<Shape> resultShape = std::nullopt;
  std::string wayOut = {};
  /// True if PyTorch can decompose this kind of program in this file format.
  bool mayDecompose = false;
};

/// Emits an error at `location` if `--dropout` or `--batch-norm` is given but
/// the imported model has no such layer, so that the option would have no
/// effect.
llvm::LogicalResult checkLayerOptions(mlir::Location location,
                                      const Context &context);

using Keywords = std::vector<std::pair<std::string, Value>>;

/// Calls operator `name` ("aten::add", "prim::NumToTensor"). Without an
/// overload ("Tensor" in "add.Tensor") it picks the one that PyTorch's own
/// resolution would pick: the first whose schema fits the arguments exactly,
/// else the first that fits with the conversions that TorchScript makes (int to
/// float, a number to a tensor, one number to a list of them, a 0-dim tensor to
/// a number). Arguments that are not given have the schema's defaults.
///
/// Several results are returned as a tuple. Operators whose name ends in `_`
/// write their first argument and return it. What cannot be imported is
/// recorded in `failures`, once for each reason with all its places, and the
/// result is `Value::unknown()`. If an argument is unknown, so is the result,
/// without a further record.
///
/// Arithmetic on numbers (above all on sizes of tensors) is done at once, and
/// so is every computation on known tensors alone.
Value call(Context &context, llvm::StringRef name,
           std::optional<llvm::StringRef> overload,
           llvm::ArrayRef<Value> positional, const Keywords &keywords = {});

/// Says why a number that depends on the values of tensors cannot be a Python
/// number at import.
llvm::StringRef explainDependentNumber();

/// Returns true if the table has an overload of the operator.
bool hasOperator(llvm::StringRef name);

/// An operator of the table with all of its schemas, in the order in which they
/// are tried. The documentation lists them.
struct OperatorEntry {
  std::string name; // "aten::add"
  std::vector<std::string> schemas;
};
std::vector<OperatorEntry> listOperators();

} // namespace polyrank::frontends::aten
