// Recovers parameters from constants that an exporter computed from them.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// PyTorch's exporter evaluates `w.t()`, a slice or a sum of parameters and
/// stores the result as a constant: the file would train without the gradient
/// of that use. For each such constant this searches an expression of
/// parameters that gives its elements, and adds it to `state.folded`:
///
/// - a view (ParameterViews.h) with exactly these elements;
/// - a function of one to three views (a multiple, sum, product, quotient,
///   interpolation, exp, ...) that gives them up to rounding.
///
/// The record names the parameters from which a constant was computed; only
/// these are searched, preferring expressions that use all of them. Without a
/// record, only views are searched. Views are also searched in the parameters
/// `beside`, which the file lacks and which a record need not name. If several
/// expressions give a constant, for example one whose elements are all equal,
/// the names of the operators in the record decide, or it is left as it is.
///
/// Equal constants that were computed from different parameters are one in the
/// file. A use whose record names another parameter with the same elements
/// belongs to that parameter (`state.foldedOperands`).
///
/// A note lists what was found; a warning lists the rest and says what to do.
void recoverFolded(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, llvm::ArrayRef<size_t> beside,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
