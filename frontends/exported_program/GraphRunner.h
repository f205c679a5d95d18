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
  /// `budget`: of the file, from which operators and values are taken.
  GraphRunner(aten::Context &context, const Program &program, Budget &budget);

  /// Fills `values`, which has the graph's inputs, with what its nodes compute.
  /// What cannot be imported is in the context's failures.
  void run(Scope &values);

  /// The value of `argument`; unknown, with a failure, where nothing computes
  /// it.
  aten::Value valueOf(const Argument &argument, const Scope &values);

  /// By pattern of `--detach`: whether it has named any float.
  std::vector<bool> isDetached;
  /// Modules and values that a pattern may name.
  std::vector<std::string> detachableNames;
  /// Of a training step.
  LostGradients lost;
  DependentNumbers numbers;

private:
  void runNodes(const Graph &graph, Scope &values, int depth);
  aten::Value runNode(const Node &node, const Scope &values, int depth);
  /// The result of a node of `graph` that gives or takes a number which depends
  /// on values; nullopt where the node is to be run.
  std::optional<aten::Value> runDependent(const Graph &graph, const Node &node,
                                          const Scope &values);
  aten::Value runOperator(llvm::StringRef name, llvm::StringRef overload,
                          const Node &node, const Scope &values);
  /// Python's own operators on sizes: "_operator.mul", "torch.sym_max", ..
  aten::Value runPython(llvm::StringRef target, const Node &node,
                        const Scope &values);
  aten::Value runHigherOrder(llvm::StringRef name, const Node &node,
                             const Scope &values, int depth);
  /// The results of `graph`, as a tuple.
  aten::Value runGraph(const Graph &graph, llvm::ArrayRef<aten::Value> inputs,
                       int depth);
  void bind(const Node &node, const aten::Value &result, Scope &values);
  aten::Value fail(const Node &node, const std::string &reason);
  void setOrigin(const Node &node);

  aten::Value detached(const aten::Value &value);
  /// Which values of the graph a pattern of `--detach` names.
  void findDetached();
  /// What a node gives through which no gradient passes, by a pattern or since
  /// the file has lost it.
  void detachResults(const Node &node, Scope &values);

  aten::Context &context;
  const Graph &graph;
  Budget &budget;
  Transforms transforms;
  int64_t numOps = 0;  // of the graph dialect
  bool isOver = false; // the budget
  /// By the names of values: the pattern that names them.
  llvm::StringMap<size_t> toDetach;
};

/// The path of the module that a node is of: "h.0.mlp.c_fc"; empty for the
/// whole model.
std::string moduleOf(const Node &node);

} // namespace polyrank::frontends::exported_program
