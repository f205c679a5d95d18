// What the names of operators say that an exporter recorded.

#pragma once

#include "frontends/onnx/Expression.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// The operator in the name of a value: "select" of "select_1", "tmp" of
/// "tmp_0_2".
llvm::StringRef operatorOf(llvm::StringRef name);

/// Operators that leave the elements in their order, and what they are given.
bool keepsOrder(llvm::StringRef name);

/// Operators that only move elements.
bool moves(llvm::StringRef name);

/// Whether an operator of that name computes `kind`.
bool computes(llvm::StringRef name, Expression::Kind kind);

/// Whether the operator is among those of which expressions are made. Others
/// could give the same values with other gradients: a / a.norm() is a multiple
/// of a.
bool isUnderstood(llvm::StringRef name);

/// Whether there is an operator for each function in `e`.
bool areNamed(const Expression &e, llvm::ArrayRef<llvm::StringRef> operators);

} // namespace polyrank::frontends::onnx
