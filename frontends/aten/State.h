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

/// The file in which the tensors of a model lie, mapped, and the budget of what
/// is made of it; both outlive the import.
struct MappedModel {
  std::string path;
  std::string_view bytes;
  Budget &budget;
};

enum class Role { Parameter, Buffer, Constant };

/// Why an entry may not have its type ("is complex32, ..."), else "". Complex
/// numbers may be what does not train.
std::string explainType(const archive::StoredTensor &tensor, Role role);

/// What an entry of the state is in the model.
struct StateEntry {
  std::string name; // in the state dict: "h.0.attn.c_attn.weight"
  /// Of a type that may be, see `explainType`.
  archive::StoredTensor tensor;
  Role role = Role::Parameter;
};

/// The elements of a tensor of `model`; of complex numbers both parts, as a
/// last dim of 2.
graph::Tensor load(mlir::MLIRContext *context, const MappedModel &model,
                   const archive::StoredTensor &tensor);

/// Parameters and buffers of a model as @forward declares them.
///
/// - Entries that are one tensor (one storage, offset, sizes and strides) are
///   one parameter, named by the first, with the other names as aliases.
/// - A constant is no parameter: its elements are known.
/// - An integer buffer is a parameter, since what is saved is the whole state,
///   and its elements are known too, as long as nothing writes them.
/// - Complex numbers are pairs of floats, in a last dim of 2.
/// - A tensor whose elements do not lie one behind the other in the file keeps
///   its span where it is a transposed matrix; else the elements are copied.
struct DeclaredState {
  std::vector<ParameterSpec> parameters;
  /// By entry: its number in `parameters`, or -1 for a constant.
  std::vector<int64_t> numbers;
};

/// Emits an error at `location` that says which entry is wrong and why.
mlir::FailureOr<DeclaredState> declare(mlir::Location location,
                                       const MappedModel &model,
                                       llvm::ArrayRef<StateEntry> entries);

/// What freezing asks of parameters, and sets of them, which outlive it.
std::vector<Freezable>
getFreezable(llvm::MutableArrayRef<ParameterSpec> parameters);

/// Keeps parameters from training as `options` ask (freeze, train-only), with a
/// remark on how many are left. Emits an error at `location` where they ask for
/// what the parameters do not have.
mlir::LogicalResult freezeParameters(mlir::Location location,
                                     const ImportOptions &options,
                                     std::vector<ParameterSpec> &parameters);

/// The values of the entries in a function whose arguments are `arguments`, one
/// for each of `state.parameters`. Complex numbers do not change.
std::vector<Value> valuesOf(Emitter &emit, const MappedModel &model,
                            llvm::ArrayRef<StateEntry> entries,
                            const DeclaredState &state,
                            mlir::ValueRange arguments);

} // namespace polyrank::frontends::aten
