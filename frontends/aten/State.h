// Parameters, buffers and constants as PyTorch's files store them.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/archive/StoredTensor.h"
#include "frontends/aten/Value.h"
#include "frontends/import/Freeze.h"
#include "frontends/import/ModuleBuilder.h"
#include "frontends/import/Options.h"

namespace polyrank::frontends::aten {

/// The mapped file that holds the tensors of a model, and the memory budget of
/// the import; both outlive the import.
struct MappedModel {
  std::string path;
  std::string_view bytes;
  Budget &budget;
};

enum class Role { Parameter, Buffer, Constant };

/// Says why an entry cannot have its type ("is complex32, ..."), else "".
/// Complex numbers are allowed for entries that are not trained.
std::string explainType(const archive::StoredTensor &tensor, Role role);

/// One entry of the state: its name, its tensor and its role in the model.
struct StateEntry {
  std::string name; // in the state dict: "h.0.attn.c_attn.weight"
  /// Its type is allowed, see `explainType`.
  archive::StoredTensor tensor;
  Role role = Role::Parameter;
};

/// Loads the elements of a tensor of `model`; complex numbers as pairs in a
/// last dim of 2.
graph::Tensor load(mlir::MLIRContext *context, const MappedModel &model,
                   const archive::StoredTensor &tensor);

/// Parameters and buffers of a model as @forward declares them.
///
/// - Entries that are one tensor (same storage, offset, sizes and strides) are
///   one parameter, named by the first, with the other names as aliases.
/// - A constant is no parameter: its elements are known.
/// - An integer buffer is a parameter, since the whole state is saved; its
///   elements are also known, as long as nothing writes them.
/// - Complex numbers are pairs of floats, in a last dim of 2.
/// - A tensor that is not contiguous in the file keeps its span if it is a
///   transposed matrix; otherwise its elements are copied.
struct DeclaredState {
  std::vector<ParameterSpec> parameters;
  /// For each entry, its index in `parameters`, or -1 for a constant.
  std::vector<int64_t> numbers;
};

/// Declares the entries. Emits an error at `location` that says which entry is
/// wrong and why.
mlir::FailureOr<DeclaredState> declare(mlir::Location location,
                                       const MappedModel &model,
                                       llvm::ArrayRef<StateEntry> entries);

/// The parameters as `freeze` sees them; their flags refer to `parameters`,
/// which must outlive the result.
std::vector<Freezable>
getFreezable(llvm::MutableArrayRef<ParameterSpec> parameters);

/// Freezes parameters as `options` ask (freeze, train-only), and emits a remark
/// on how many are left. Emits an error at `location` if a pattern fits no
/// parameter or the options contradict each other.
mlir::LogicalResult freezeParameters(mlir::Location location,
                                     const ImportOptions &options,
                                     std::vector<ParameterSpec> &parameters);

/// The values of the entries in a function with the arguments `arguments`, one
/// for each of `state.parameters`. Complex tensors cannot be written.
std::vector<Value> valuesOf(Emitter &emit, const MappedModel &model,
                            llvm::ArrayRef<StateEntry> entries,
                            const DeclaredState &state,
                            mlir::ValueRange arguments);

} // namespace polyrank::frontends::aten
