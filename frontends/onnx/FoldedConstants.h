// Finds parameters again in constants that an exporter computed from them.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/RenamedWeights.h"

namespace polyrank::frontends::onnx {

/// PyTorch's exporter computes `w.t()`, a slice or a sum of parameters at once
/// and stores what it gives as a constant: the file would train without the
/// gradient of that use. For each such constant this looks for an expression of
/// parameters that gives its elements, and adds it to `state.folded`:
///
/// - a view (ParameterViews.h) has exactly these elements;
/// - a function of one to three views (a multiple, sum, product, quotient, an
///   interpolation, exp, ...) gives them up to rounding.
///
/// The record names what a constant was computed from; only these parameters
/// are looked at, all of them if possible. Files without a record are searched
/// for views alone, and so are the parameters `beside`, which the file lacks
/// and of which no record needs to speak. Constants that several expressions
/// give, such as those whose elements are all equal, are told by the names of
/// the operators in the record, or not at all.
///
/// Equal constants that had been computed from several parameters are one in
/// the file; uses whose records name another parameter with the elements of the
/// one that was found are of that (`state.foldedOperands`).
///
/// A note says what was found. What was not is a warning with the way out.
void recoverFolded(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, llvm::ArrayRef<size_t> beside,
                   ModelState &state);

} // namespace polyrank::frontends::onnx
