// Passes that evaluate or describe a program, and the evaluation of a module.

#pragma once

#include "mlir/Pass/Pass.h"

namespace polyrank::evaluate {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/evaluate/Passes.h.inc"

struct EvaluateOptions {
  /// global, distributed, ranks or arena.
  std::string mode;
  /// SET.npz files and NAME=FILE.npy, with one array per argument, by
  /// its role's name, or argN; others are drawn from `seed`. A
  /// name that no argument has is an error.
  std::vector<std::string> inputs;
  /// Where to write the results (.npz), if anywhere.
  std::string outputs;
  /// A .npz file that `outputs` wrote, with which the results must agree up to
  /// `tolerance`, relative.
  std::string expected;
  double tolerance = 1e-9;
  uint64_t seed = 0;
};

/// Evaluates every function of a module that has a body, those of different
/// places (rank.at) together, and prints the results to standard output: all
/// elements of small ones, else a digest.
std::unique_ptr<mlir::Pass> createEvaluatePass(EvaluateOptions options);

} // namespace polyrank::evaluate
