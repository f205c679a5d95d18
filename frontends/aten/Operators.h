// PyTorch's operators: by name and overload, on values that are known or that
// the graph computes.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/aten/Value.h"
#include "frontends/import/Failures.h"
#include "frontends/import/Options.h"

namespace polyrank::frontends::aten {

/// What the operators of one model have in common.
struct Context {
  Emitter &emit;
  const ImportOptions &options;
  Failures &failures;
  /// Where the call stands that is imported now, for failures: "`linear_3` in
  /// h.0.mlp", or "model.py:12". The reader sets it together with
  /// Emitter::setOrigin before each call.
  std::string place;
  /// Ops that `--dropout` and `--batch-norm` have had a meaning for.
  int64_t numDropouts = 0, numBatchNorms = 0;
  /// What the file says of the first result of that call, where its shape
  /// depends on values: the shape, or else how the user may give it ("; where
  /// it is always the same number, give it with --dim u0=N").
  std::optional<Shape> resultShape = std::nullopt;
  std::string wayOut = {};
  /// Whether the file is of a format, and a program of a kind, that PyTorch can
  /// decompose.
  bool mayDecompose = false;
};

/// An error at `location` where `--dropout` or `--batch-norm` is given for a
/// model that, once imported, had no such layer: the option would change
/// nothing.
llvm::LogicalResult checkLayerOptions(mlir::Location location,
                                      const Context &context);

using Keywords = std::vector<std::pair<std::string, Value>>;

/// Calls operator `name` ("aten::add", "prim::NumToTensor"). Without an
/// overload
/// ("Tensor" in "add.Tensor") the one is taken that PyTorch's own resolution
/// would take: the first whose schema fits the arguments, exactly if there is
/// one, else with the conversions that TorchScript makes (int to float, a
/// number to a tensor, one number to a list of them, a 0-dim tensor to a
/// number). Arguments that are not given have the schema's defaults.
///
/// Several results are a tuple. Operators whose name ends in `_` write their
/// first argument and return it. What cannot be imported is recorded in
/// `failures`, once for each reason with all the places, and the result is
/// `Value::unknown()`; so it is, without a further record, where an argument is
/// unknown.
///
/// Arithmetic on numbers (sizes of tensors above all) is done at once; so is
/// all that is computed from known tensors alone.
Value call(Context &context, llvm::StringRef name,
           std::optional<llvm::StringRef> overload,
           llvm::ArrayRef<Value> positional, const Keywords &keywords = {});

/// Why a number that depends on values is none that Python can have.
llvm::StringRef explainDependentNumber();

/// Whether the table has the operator, whichever overload.
bool hasOperator(llvm::StringRef name);

/// An operator of the table with all of its schemas, in the order in which they
/// are tried: what the documentation lists.
struct OperatorEntry {
  std::string name; // "aten::add"
  std::vector<std::string> schemas;
};
std::vector<OperatorEntry> listOperators();

} // namespace polyrank::frontends::aten
