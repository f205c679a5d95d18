// Properties of the PyTorch operators that an exporter recorded, by name.

#pragma once

#include "frontends/onnx/Expression.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// The operator in the name of a value: "select" of "select_1", "tmp" of
/// "tmp_0_2".
llvm::StringRef operatorOf(llvm::StringRef name);

/// True for operators that keep the elements in their order, and for `val`, the
/// exporter's name for other computed values.
bool keepsOrder(llvm::StringRef name);

/// True for operators that only move elements.
bool moves(llvm::StringRef name);

/// Returns true if an operator of that name computes `kind`.
bool computes(llvm::StringRef name, Expression::Kind kind);

/// Returns true if expressions may contain the operator. Others could give the
/// same values with other gradients: a / a.norm() is a multiple of a.
bool isUnderstood(llvm::StringRef name);

/// Returns true if `operators` contains one for each function in `e`.
bool areNamed(const Expression &e, llvm::ArrayRef<llvm::StringRef> operators);

} // namespace polyrank::frontends::onnx
