// Imports the nodes of a model, of the functions that they call, and of
// branches and loops whose control flow is known.

#pragma once

#include "frontends/onnx/Detach.h"
#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Failures.h"
#include "frontends/onnx/MaskedScatters.h"
#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSet.h"

namespace polyrank::frontends::onnx {

/// Calls `callback` with each name that `node` or a graph in it uses. Names
/// that these graphs do not define belong to the enclosing graphs.
void forEachUse(const Node &node,
                llvm::function_ref<void(std::string_view)> callback);

/// Returns true for a branch or a loop, which no row of the table imports.
bool isControlFlow(std::string_view domain, std::string_view type);

/// The graph in attribute `name`, or null.
const Graph *graphOf(const Node &node, std::string_view name);

/// Values by their ONNX names; each call, branch and iteration has its own
/// scope.
using Scope = llvm::StringMap<Imported>;

class GraphImporter {
public:
  GraphImporter(Emitter &emit, const Model &model, const ImportOptions &options,
                Opsets opsets)
      : emit(emit), model(model), options(options), opsets(std::move(opsets)),
        record(model), masked(findMaskedScatters(model)) {}

  /// Adds to `values`, which holds inputs and initializers, the values that the
  /// model's outputs and the names `kept` need. Failures are in `failures`.
  void run(Scope &values, llvm::ArrayRef<std::string> kept = {});
  /// Reports all failures as an error at `location`, or in
  /// `options.unsupported`.
  mlir::LogicalResult report(mlir::Location location) const;

  /// Names of values that are parameters.
  llvm::StringSet<> held;
  /// Operands that refer to another parameter than their name says.
  std::map<std::pair<const Node *, size_t>, Imported> replaced;
  Detached detached;
  /// For each pattern of `--detach`, true once it has matched a float.
  std::vector<bool> isDetached;

private:
  /// The opsets of the nodes that are being imported, and the calls and graphs
  /// around them.
  struct Place {
    const Opsets &opsets;
    /// The innermost call around them, and the function that it calls.
    const Node *call = nullptr;
    const Function *function = nullptr;
    int calls = 0, graphs = 0; // nesting depths
    bool isModel() const { return calls == 0 && graphs == 0; }
  };

  void fail(const Node &node, std::string reason) {
    failures.add(node, std::move(reason));
  }
  void importNodes(const std::vector<Node> &nodes, Scope &scope, Place place);
  /// Returns `node` specialised for the call around it: attribute references
  /// are replaced by values, and operands that the call does not give are
  /// dropped.
  const Node &resolve(const Node &node, Place place);
  /// Operand `i` in `scope`. Nullopt if the node, one of `nodes`, cannot be
  /// imported; empty if the operand is left out or the node that computes it
  /// has failed.
  std::optional<Imported> operandOf(const Node &node, size_t i,
                                    const std::vector<Node> &nodes,
                                    const Scope &scope);
  /// All operands; nullopt if the node cannot be imported.
  std::optional<llvm::SmallVector<Imported>>
  operandsOf(const Node &node, const std::vector<Node> &nodes,
             const Scope &scope);
  std::optional<llvm::SmallVector<Imported>>
  operandsOf(const Node &scatter, const MaskedScatter &masked,
             const std::vector<Node> &nodes, const Scope &scope);
  std::string explainMissing(const std::vector<Node> &nodes, const Node &node,
                             std::string_view name);
  void importNode(const Node &node, const OpRow &row,
                  llvm::ArrayRef<Imported> operands, Scope &scope);
  void importCall(const Node &call, const Function &function,
                  llvm::ArrayRef<Imported> operands, Scope &scope, Place place);
  /// Control flow (ControlFlow.cpp, Scan.cpp).
  /// @{
  void importControlFlow(const Node &node, llvm::ArrayRef<Imported> operands,
                         Scope &scope, Place place);
  void importIf(const Node &node, llvm::ArrayRef<Imported> operands,
                Scope &scope, Place place);
  void importLoop(const Node &node, llvm::ArrayRef<Imported> operands,
                  Scope &scope, Place place);
  void importScan(const Node &node, llvm::ArrayRef<Imported> operands,
                  Scope &scope, Place place);
  /// A sequence that a scan iterates over, along `dim`.
  struct ScannedSequence {
    Imported tensor;
    int64_t dim;
  };
  /// Imports a scan as one op and returns its last states and its stacks along
  /// dim 0; nullopt if its body must be unrolled (ScanLoop.cpp).
  std::optional<llvm::SmallVector<Imported>>
  importScanAsLoop(const Node &node, const Graph &body,
                   llvm::ArrayRef<Imported> carried,
                   llvm::ArrayRef<ScannedSequence> sequences, bool isBackward,
                   const Scope &scope, Place place);
  /// Gives the results of a scan that was imported as one op their names, and
  /// moves the steps of its stacks to their dims.
  void giveStacks(const Node &node, llvm::ArrayRef<Imported> results,
                  size_t numCarried, Scope &scope);
  /// Imports the body of a scan once for each step. `directions` are those of
  /// sequences and stacks; true is backward.
  void unrollScan(const Node &node, const Graph &body,
                  llvm::SmallVector<Imported> carried,
                  llvm::ArrayRef<ScannedSequence> scanned,
                  llvm::ArrayRef<bool> directions, Scope &scope, Place place);
  /// The results of `graph`, which sees `outer` and receives `arguments`;
  /// nullopt if one cannot be imported.
  std::optional<llvm::SmallVector<Imported>>
  importGraph(const Node &node, const Graph &graph,
              llvm::ArrayRef<Imported> arguments, const Scope &outer,
              Place place);
  /// The distinct names that `graph` and the graphs in it use.
  const std::vector<std::string_view> &usedNames(const Graph &graph);
  /// @}
  Imported detach(const Imported &x);
  void detachResults(const Node &node, Scope &scope);

  Emitter &emit;
  const Model &model;
  const ImportOptions &options;
  const Opsets opsets;
  const ExportRecord record;
  const MaskedScatters masked;
  Failures failures;
  /// For each name, the number of its uses by all nodes, and by those not yet
  /// imported.
  std::map<std::string_view, int64_t> uses, remaining;
  std::map<const Graph *, std::vector<std::string_view>> used;
  int64_t importedNodes = 0;
  /// The resolved nodes of functions, by call; failures point to them.
  std::map<std::pair<const Node *, const Node *>, Node> resolved;
};

} // namespace polyrank::frontends::onnx
