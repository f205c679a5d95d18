// evaluate: runs the functions of a module and prints their results.

#include <cstdio>

#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/NpzTensors.h"
#include "compiler/evaluate/Passes.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

/// What a file calls argument or result `number`.
static std::string nameOf(func::FuncOp function, unsigned number,
                          bool isResult) {
  for (StringRef key : {"graph.symbol", "graph.input", "graph.output"}) {
    Attribute name = isResult ? function.getResultAttr(number, key)
                              : function.getArgAttr(number, key);
    if (auto symbol = dyn_cast_if_present<FlatSymbolRefAttr>(name))
      return symbol.getValue().str();
    if (auto text = dyn_cast_if_present<StringAttr>(name))
      return text.str();
  }
  return (isResult ? "result" : "arg") + std::to_string(number);
}

static void print(StringRef name, const Tensor &tensor) {
  constexpr int64_t small = 64;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << name << ": " << tensor.getType() << " ";
  if (tensor.size() <= small) {
    out << "[";
    for (int64_t i = 0; i < tensor.size(); ++i)
      out << (i ? ", " : "") << llvm::format("%.6g", tensor.at(i));
    out << "]";
  } else {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      sum += tensor.at(i);
      squares += tensor.at(i) * tensor.at(i);
    }
    out << llvm::format("sum %.6g, norm %.6g", sum, std::sqrt(squares));
  }
  llvm::outs() << text << "\n";
}

namespace {
struct Evaluate : PassWrapper<Evaluate, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Evaluate)
  explicit Evaluate(EvaluateOptions options) : options(std::move(options)) {}
  StringRef getArgument() const override { return "evaluate"; }

  void runOnOperation() override {
    NpzTensors inputs;
    if (!options.inputs.empty()) {
      std::string error;
      if (!inputs.open(options.inputs, error)) {
        getOperation().emitError(error);
        return signalPassFailure();
      }
    }
    std::vector<std::pair<std::string, Tensor>> outputs;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      SmallVector<Tensor> arguments = randomArguments(function, options.seed);
      for (auto [i, tensor] : llvm::enumerate(arguments)) {
        std::string error;
        if (!inputs.read(nameOf(function, i, false), tensor, error)) {
          function.emitError(error);
          return signalPassFailure();
        }
      }
      FailureOr<SmallVector<Tensor>> results =
          options.mode == "global" ? evaluateGlobal(function, arguments)
          : options.mode == "distributed"
              ? evaluateDistributed(function, arguments, options.seed)
          : options.mode == "ranks"
              ? evaluateRanks(function, arguments, options.seed)
              : FailureOr<SmallVector<Tensor>>(function.emitError(
                    "evaluates globally, distributed or as ranks; not '" +
                    options.mode + "'"));
      if (failed(results))
        return signalPassFailure();
      llvm::outs() << "@" << function.getName() << " " << options.mode << "\n";
      for (auto [i, tensor] : llvm::enumerate(*results)) {
        print(nameOf(function, i, true), tensor);
        outputs.emplace_back(nameOf(function, i, true), std::move(tensor));
      }
    }
    std::string error;
    if (!options.outputs.empty() &&
        !writeNpz(options.outputs, outputs, error)) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
  }

  EvaluateOptions options;
};
} // namespace

std::unique_ptr<Pass>
polyrank::evaluate::createEvaluatePass(EvaluateOptions options) {
  return std::make_unique<Evaluate>(std::move(options));
}
