// Passes that evaluate or describe a program, and the evaluation of a module.

#pragma once

#include "dialects/graph/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::evaluate {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/evaluate/Passes.h.inc"

struct EvaluateOptions {
  /// One of global, distributed, ranks, arena.
  std::string mode;
  /// SET.npz files and NAME=FILE.npy, with one array per argument, by its
  /// role's name, or argN. Arguments without an array are drawn from `seed`. A
  /// name that no argument has is an error.
  std::vector<std::string> inputs;
  /// The .npz file to write the results to; empty: none.
  std::string outputs;
  /// A .npz file that an earlier run wrote as `outputs`. The results must agree
  /// with it up to the relative `tolerance`.
  std::string expected;
  double tolerance = 1e-9;
  graph::Rounding rounding = graph::Rounding::Exact;
  uint64_t seed = 0;
};

/// Evaluates every function of a module that has a body, those of different
/// places (rank.at) together, and prints the results to standard output: small
/// tensors with all elements, others as a digest.
std::unique_ptr<mlir::Pass> createEvaluatePass(EvaluateOptions options);

} // namespace polyrank::evaluate
