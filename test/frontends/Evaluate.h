// Runs an imported @forward op by op with each op's own `evaluate`, and
// compares it with the expected results in ONNX's test data layout.

#pragma once

#include <string>
#include <vector>

#include "dialects/graph/Graph.h"
#include "frontends/onnx/Model.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

namespace polyrank::test {

/// Returns the results of @forward for named inputs. Parameters are read from
/// the spans that the module names.
Result<std::vector<graph::Tensor>> evaluateForward(
    mlir::ModuleOp module,
    const std::vector<std::pair<std::string, graph::Tensor>> &inputs);

/// Imports FOLDER/model.onnx (or `model`), evaluates it on input_N.pb of
/// FOLDER/test_data_set_0 and compares with output_N.pb: |a - b| <= absolute +
/// relative * |b|. The first `arguments` inputs are arguments, the others are
/// known to the importer. Returns what is wrong, or an empty string.
std::string checkOnTestData(mlir::MLIRContext &context,
                            const std::string &model, const std::string &folder,
                            double relative, double absolute,
                            size_t arguments = SIZE_MAX);

/// Checks one of ONNX's node tests: with all inputs as arguments, which tests
/// the graph ops, with the first one only, and with none, which tests what is
/// computed at import. Shapes and axes must be known in any case.
std::string checkNodeTest(mlir::MLIRContext &context, const std::string &model,
                          const std::string &folder);

/// Returns why ONNX's node test `name` is not run: it has an op that the
/// importer's table lacks, or an unsupported feature of an op. Empty if it is
/// run.
std::string whyLeftOut(const frontends::onnx::Model &model,
                       const std::string &name);

} // namespace polyrank::test
