// The nodes of a model, of the functions that they call, and of the branches
// and loops whose course is known.

#pragma once

#include "frontends/onnx/Detach.h"
#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/Failures.h"
#include "frontends/onnx/MaskedScatters.h"
#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSet.h"

namespace polyrank::frontends::onnx {

/// Calls `callback` with each name that `node` uses, in its graphs too: what
/// these do not compute themselves is of the graphs around them.
void forEachUse(const Node &node,
                llvm::function_ref<void(std::string_view)> callback);

/// Whether it is a branch or a loop, which no row of the table imports.
bool isControlFlow(std::string_view domain, std::string_view type);

/// The graph that attribute `name` is, or null.
const Graph *graphOf(const Node &node, std::string_view name);

/// Values by their ONNX names; each call, branch and iteration has its own.
using Scope = llvm::StringMap<Imported>;

class GraphImporter {
public:
  GraphImporter(Emitter &emit, const Model &model, const ImportOptions &options,
                Opsets opsets)
      : emit(emit), model(model), options(options), opsets(std::move(opsets)),
        record(model), masked(findMaskedScatters(model)) {}

  /// Fills `values`, which holds inputs and initializers, with what the model's
  /// nodes compute and its outputs need, and those called `kept`. What fails is
  /// in `failures`.
  void run(Scope &values, llvm::ArrayRef<std::string> kept = {});
  /// An error at `location` with all failures, or in `options.unsupported`.
  mlir::LogicalResult report(mlir::Location location) const;

  /// Names of values that are parameters.
  llvm::StringSet<> held;
  /// Operands that are another parameter than their name says.
  std::map<std::pair<const Node *, size_t>, Imported> replaced;
  Detached detached;
  /// By pattern of `--detach`: whether it has named any float.
  std::vector<bool> isDetached;

private:
  /// Where nodes stand.
  struct Place {
    const Opsets &opsets;
    /// The innermost call that they are inside of, and what it calls.
    const Node *call = nullptr;
    const Function *function = nullptr;
    int calls = 0, graphs = 0; // that they are inside of
    bool isModel() const { return calls == 0 && graphs == 0; }
  };

  void fail(const Node &node, std::string reason) {
    failures.add(node, std::move(reason));
  }
  void importNodes(const std::vector<Node> &nodes, Scope &scope, Place place);
  /// `node` as the call that it is inside of makes it: with its attributes in
  /// place of references, and without the operands that it does not give.
  const Node &resolve(const Node &node, Place place);
  /// Operand `i` in `scope`: nullopt where the node, one of `nodes`, cannot be
  /// imported, empty where it is left out or the node that computes it has
  /// failed.
  std::optional<Imported> operandOf(const Node &node, size_t i,
                                    const std::vector<Node> &nodes,
                                    const Scope &scope);
  /// All of them; nullopt where the node cannot be imported.
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
  /// A sequence that a scan goes through along `dim`.
  struct ScannedSequence {
    Imported tensor;
    int64_t dim;
  };
  /// The last states and the stacks along dim 0 of a scan as one op; nullopt
  /// where its body must be written out turn by turn (ScanLoop.cpp).
  std::optional<llvm::SmallVector<Imported>>
  importScanAsLoop(const Node &node, const Graph &body,
                   llvm::ArrayRef<Imported> carried,
                   llvm::ArrayRef<ScannedSequence> sequences, bool isBackward,
                   const Scope &scope, Place place);
  /// The results of `graph`, which sees `outer` and is given `arguments`;
  /// nullopt where one cannot be imported.
  std::optional<llvm::SmallVector<Imported>>
  importGraph(const Node &node, const Graph &graph,
              llvm::ArrayRef<Imported> arguments, const Scope &outer,
              Place place);
  /// The names that `graph` and the graphs in it use, each once.
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
  /// Of each name: by any node, and by those that are still to come.
  std::map<std::string_view, int64_t> uses, remaining;
  std::map<const Graph *, std::vector<std::string_view>> used;
  int64_t importedNodes = 0;
  /// Nodes of functions by the call: failures point to them.
  std::map<std::pair<const Node *, const Node *>, Node> resolved;
};

} // namespace polyrank::frontends::onnx
