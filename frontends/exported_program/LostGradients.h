// Where no gradient passes although the file no longer has the operator that
// said so, and where the file does not say what passes.

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

/// `run_decompositions()` writes `alias` in the place of `detach`, and the
/// operators of a `torch.no_grad()` region in the place of the region. What is
/// known of each node all the same:
///
/// - An `alias` that the model does not have itself (`x[...]`, as the node's
///   record says) is a `detach`.
/// - A node whose record names `wrap_with_set_grad_enabled` was in a
///   `no_grad()` region. No other region is a graph of its own in a model that
///   was exported with gradients.
/// - A node of another region, or of one without a record, may have been in
///   one: a warning.
///
/// In every file the backward of an autograd.Function is missing: a warning.
class LostGradients {
public:
  LostGradients(const Graph &graph, bool isDecomposed);

  /// `argument` of @forward is a parameter that trains.
  void addTrained(mlir::Value argument) { trained.insert(argument); }

  bool knows(const std::string &name) const { return origins.contains(name); }

  /// Whether no gradient passes through `value`, the one that the graph calls
  /// `name`; else it is noted where the file does not say.
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
  /// Whether `value` is computed from a parameter that trains, also where no
  /// gradient passes.
  bool isTrained(mlir::Value value, bool throughDetach);

  /// By the names of values that leave what made them.
  llvm::StringMap<Origin> origins;
  llvm::DenseSet<mlir::Value> trained;
  llvm::DenseMap<mlir::Value, bool> known[2]; // by `throughDetach`
  std::vector<std::string> detached, withoutGrad, ofRegions;
  std::map<std::string, std::vector<std::string>> ofFunctions;
};

} // namespace polyrank::frontends::exported_program
