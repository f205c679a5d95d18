// Searches for an expression of parameters that gives a constant.

#pragma once

#include <optional>
#include <vector>

#include "frontends/onnx/OperatorNames.h"
#include "frontends/onnx/ParameterViews.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// A constant, and the names of the operators from which it was computed
/// (`operatorOf`), including its own.
struct SearchedConstant {
  StoredFloats floats;
  ElementType type;
  llvm::SmallVector<llvm::StringRef> operators;
};

/// Returns the elements of a parameter by its index, or null if they cannot be
/// read. They must outlive the search.
using LoadParameter = llvm::function_ref<const StoredFloats *(size_t)>;

/// Finds the single expression that gives the constant (see FoldedConstants.h),
/// of all `parameters` or, failing that, of some of them. Returns nullopt if
/// there is none, or if there are several and the operators do not tell which
/// (then sets `several`).
std::optional<Expression> searchExpression(const SearchedConstant &constant,
                                           llvm::ArrayRef<size_t> parameters,
                                           LoadParameter load, bool &several);

/// For each parameter, the only view that has the constant's elements, if these
/// are distinctive enough without looking at operators. Sets `several` if a
/// parameter has more than one such view.
std::vector<Expression> searchViews(const SearchedConstant &constant,
                                    llvm::ArrayRef<size_t> parameters,
                                    LoadParameter load, bool &several);

} // namespace polyrank::frontends::onnx
