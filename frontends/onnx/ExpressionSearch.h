// Searches for the expression of parameters that gives a constant.

#pragma once

#include <optional>
#include <vector>

#include "frontends/onnx/OperatorNames.h"
#include "frontends/onnx/ParameterViews.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// A constant and the names of the operators from which it was computed
/// (`operatorOf`), its own among them.
struct SearchedConstant {
  StoredFloats floats;
  DataType type;
  llvm::SmallVector<llvm::StringRef> operators;
};

/// The elements of a parameter by its number, which outlive the search; null
/// where they cannot be read.
using LoadParameter = llvm::function_ref<const StoredFloats *(size_t)>;

/// The one expression of `parameters`, of all or else of some, that gives the
/// constant: see FoldedConstants.h. Nothing where there is none, or, with
/// `several`, where there is more than one and the operators do not tell which.
std::optional<Expression> searchExpression(const SearchedConstant &constant,
                                           llvm::ArrayRef<size_t> parameters,
                                           LoadParameter load, bool &several);

/// Of each parameter the one view that has the constant's elements, where these
/// are different enough to tell without operators. Sets `several` where one has
/// more than one.
std::vector<Expression> searchViews(const SearchedConstant &constant,
                                    llvm::ArrayRef<size_t> parameters,
                                    LoadParameter load, bool &several);

} // namespace polyrank::frontends::onnx
