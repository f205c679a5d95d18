// Finds values through which no gradient passes although the file has lost the
// operator that said so, and those for which the file does not tell.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/exported_program/Program.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::exported_program {

/// `run_decompositions()` replaces `detach` by `alias`, and a `torch.no_grad()`
/// region by its operators. The record of a node still tells:
///
/// - An `alias` that the model does not have itself (`x[...]`, according to the
///   record) is a `detach`.
/// - A node whose record names `wrap_with_set_grad_enabled` was in a
///   `no_grad()` region. In a model that was exported with gradients no other
///   region is a graph of its own.
/// - A node of another region, or of a region without a record, may have been
///   in a `no_grad()` region: this is a warning.
///
/// No file has the backward of an autograd.Function: this is a warning too.
class LostGradients {
public:
  LostGradients(const Graph &graph, bool isDecomposed);

  /// Notes that `argument` of @forward is a parameter that trains.
  void addTrained(mlir::Value argument) { trained.insert(argument); }

  bool knows(const std::string &name) const { return origins.contains(name); }

  /// Returns true if no gradient passes through `value`, which the graph calls
  /// `name`. If the file does not tell, returns false and records a warning.
  bool isLost(const std::string &name, mlir::Value value);

  std::vector<std::string> getNotes() const;
  std::vector<std::string> getWarnings() const;

private:
  enum class Kind { Detach, NoGrad, Region, Function };
  struct Origin {
    Kind kind;
    std::string function;
    bool operator==(const Origin &other) const {
      return kind == other.kind && function == other.function;
    }
  };
  std::optional<Origin> originOf(const Node &node, bool isDecomposed) const;
  /// Returns true if `value` is computed from a parameter that trains; with
  /// `throughDetach` also through ops that pass no gradient.
  bool isTrained(mlir::Value value, bool throughDetach);

  /// By name of value: the origin of the nodes that it leaves.
  llvm::StringMap<Origin> origins;
  llvm::DenseSet<mlir::Value> trained;
  llvm::DenseMap<mlir::Value, bool> known[2]; // by `throughDetach`
  std::vector<std::string> detached, withoutGrad, ofRegions;
  std::map<std::string, std::vector<std::string>> ofFunctions;
};

} // namespace polyrank::frontends::exported_program
