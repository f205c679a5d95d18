// Executes the nodes of a program's graphs on the values of its inputs.

#pragma once

#include <string>
#include <vector>

#include "frontends/aten/Operators.h"
#include "frontends/exported_program/DependentNumbers.h"
#include "frontends/exported_program/LostGradients.h"
#include "frontends/exported_program/Program.h"
#include "frontends/exported_program/Transforms.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::exported_program {

/// Values of a graph by name.
using Scope = llvm::StringMap<aten::Value>;

class GraphRunner {
public:
  /// Operators and values are charged to `budget`, that of the file.
  GraphRunner(aten::Context &context, const Program &program, Budget &budget);

  /// Adds the results of all nodes to `values`, which holds the graph's inputs.
  /// What cannot be imported is in the context's failures.
  void run(Scope &values);

  /// The value of `argument`; unknown, with a failure, if nothing computes it.
  aten::Value valueOf(const Argument &argument, const Scope &values);

  /// For each pattern of `--detach`, true once it has matched a float.
  std::vector<bool> isDetached;
  /// The modules and values that a pattern may match.
  std::vector<std::string> detachableNames;
  /// Used in a training step only.
  LostGradients lost;
  DependentNumbers numbers;

private:
  void runNodes(const Graph &graph, Scope &values, int depth);
  aten::Value runNode(const Node &node, const Scope &values, int depth);
  /// The result of a node of `graph` that produces or takes a number that
  /// depends on values; nullopt if the node is to be run normally.
  std::optional<aten::Value> runDependent(const Graph &graph, const Node &node,
                                          const Scope &values);
  aten::Value runOperator(llvm::StringRef name, llvm::StringRef overload,
                          const Node &node, const Scope &values);
  /// Runs Python's own operators on sizes: "_operator.mul", "torch.sym_max", ..
  aten::Value runPython(llvm::StringRef target, const Node &node,
                        const Scope &values);
  aten::Value runHigherOrder(llvm::StringRef name, const Node &node,
                             const Scope &values, int depth);
  /// Runs `graph` and returns its results as a tuple.
  aten::Value runGraph(const Graph &graph, llvm::ArrayRef<aten::Value> inputs,
                       int depth);
  void bind(const Node &node, const aten::Value &result, Scope &values);
  aten::Value fail(const Node &node, const std::string &reason);
  void setOrigin(const Node &node);

  aten::Value detached(const aten::Value &value);
  /// Finds the values of the graph that patterns of `--detach` match.
  void findDetached();
  /// Detaches results of a node through which no gradient passes, either
  /// because of a pattern or because the file has lost the operator that
  /// stopped it.
  void detachResults(const Node &node, Scope &values);

  aten::Context &context;
  const Graph &graph;
  Budget &budget;
  Transforms transforms;
  int64_t numOps = 0;  // of the graph dialect
  bool isOver = false; // the budget
  /// By name of value, the index of the pattern that matches it.
  llvm::StringMap<size_t> toDetach;
};

/// The path of the module that a node belongs to: "h.0.mlp.c_fc"; empty for the
/// whole model.
std::string moduleOf(const Node &node);

} // namespace polyrank::frontends::exported_program
