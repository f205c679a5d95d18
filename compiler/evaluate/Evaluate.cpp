// evaluate: runs the functions of a module and prints their results.

#include <cstdio>

#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/NpzTensors.h"
#include "compiler/evaluate/Passes.h"
#include "dialects/graph/Boundary.h"
#include "support/Names.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

/// The name that the user's file gives to argument or result `number`, which is
/// `value`.
static std::string nameOf(const BoundaryValue &value, unsigned number,
                          bool isResult) {
  graph::Boundary boundary(value.function);
  if (!isResult && boundary.getArgument(value.number))
    return boundary.getName(value.number);
  if (isResult)
    if (auto output = boundary.getResult<graph::OutputAttr>(value.number))
      return output.getName().str();
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
    // Diagnostics do not print the module: it is long, and the message
    // suffices.
    getContext().printOpOnDiagnostic(false);
    if (failed(run()))
      signalPassFailure();
  }

  LogicalResult run() {
    auto require = [&](const Result<void> &done) -> LogicalResult {
      return done ? success() : getOperation().emitError(done.error().message);
    };
    NpzTensors inputs, expected;
    for (const std::string &text : options.inputs)
      if (failed(require(inputs.open(text))))
        return failure();
    if (!options.expected.empty() &&
        failed(require(expected.open(options.expected))))
      return failure();
    std::vector<std::pair<std::string, Tensor>> outputs;
    FailureOr<std::vector<JointFunction>> all =
        JointFunction::allOf(getOperation());
    if (failed(all))
      return failure();
    for (const JointFunction &joint : *all) {
      SmallVector<Tensor> arguments = randomArguments(joint, options.seed);
      for (auto [i, tensor] : llvm::enumerate(arguments))
        if (failed(require(inputs.read(
                nameOf(joint.getArguments()[i], i, false), tensor))))
          return failure();
      FailureOr<SmallVector<Tensor>> results = evaluate(joint, arguments);
      if (failed(results))
        return failure();
      llvm::outs() << joint.getName() << " " << options.mode << "\n";
      for (auto [i, tensor] : llvm::enumerate(*results)) {
        std::string name = nameOf(joint.getResults()[i], i, true);
        print(name, tensor);
        Tensor other = tensor;
        if (failed(require(expected.read(name, other))))
          return failure();
        std::string error;
        if (!agree(tensor, other, error, options.tolerance))
          return func::FuncOp(joint.getResults()[i].function).emitError()
                 << name << " is not what " << options.expected
                 << " holds: " << error;
        // A set with two arrays of one name cannot be read.
        if (!options.outputs.empty() &&
            llvm::is_contained(llvm::make_first_range(outputs), name))
          return func::FuncOp(joint.getResults()[i].function).emitError()
                 << "two results are called '" << name << "', and "
                 << options.outputs
                 << " has one array for each name: evaluate one function at a "
                    "time";
        outputs.emplace_back(std::move(name), std::move(tensor));
      }
    }
    for (bool results : {false, true})
      if (auto unread = (results ? expected : inputs).getUnread();
          !unread.empty())
        return getOperation().emitError()
               << "no " << (results ? "result" : "argument") << " is called '"
               << unread.front() << "'"
               << nearestNames(unread.front(), getNames(*all, results));
    return options.outputs.empty()
               ? success()
               : require(writeNpz(options.outputs, outputs));
  }

  /// The names of all arguments or results.
  static std::vector<std::string> getNames(ArrayRef<JointFunction> all,
                                           bool results) {
    std::vector<std::string> names;
    for (const JointFunction &joint : all)
      for (auto [i, value] :
           llvm::enumerate(results ? joint.getResults() : joint.getArguments()))
        names.push_back(nameOf(value, i, results));
    return names;
  }

  FailureOr<SmallVector<Tensor>> evaluate(const JointFunction &joint,
                                          ArrayRef<Tensor> arguments) {
    func::FuncOp function = joint.getFunctions().front();
    if (joint.isPlaced() &&
        (options.mode == "global" || options.mode == "distributed"))
      return function.emitError()
             << joint.getName()
             << " are what ranks run: evaluate them as ranks or by their arena";
    if (options.mode == "global")
      return evaluateGlobal(function, arguments, options.rounding);
    if (options.mode == "distributed" && options.rounding != Rounding::Exact)
      return function.emitError(
          "is evaluated distributed to compare it with the exact results; "
          "rounded results are those of global, ranks or arena");
    if (options.mode == "distributed")
      return evaluateDistributed(function, arguments, options.seed);
    if (options.mode == "ranks")
      return evaluateRanks(joint, arguments, options.seed, options.rounding);
    if (options.mode == "arena")
      return evaluateArena(joint, arguments, options.seed, options.rounding);
    return function.emitError(
        "evaluates globally, distributed, as ranks or by their arena; "
        "not '" +
        options.mode + "'" +
        nearestWords(options.mode,
                     {"global", "distributed", "ranks", "arena"}));
  }

  EvaluateOptions options;
};
} // namespace

std::unique_ptr<Pass>
polyrank::evaluate::createEvaluatePass(EvaluateOptions options) {
  return std::make_unique<Evaluate>(std::move(options));
}
