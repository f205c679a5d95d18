// Executes TorchScript's code on symbolic values: operators become graph ops,
// and everything else is executed at import.

#pragma once

#include <map>
#include <optional>

#include "frontends/aten/Operators.h"
#include "frontends/torchscript/ModelState.h"
#include "llvm/ADT/DenseSet.h"

namespace polyrank::frontends::torchscript {

/// The operands of a call without what is called.
inline llvm::ArrayRef<const Expression *> argumentsOf(const Expression &call) {
  return llvm::ArrayRef(call.operands).drop_front();
}

/// Control flow is executed: the taken branches, the iterations of loops, and
/// calls of methods and functions. Conditions must be known: numbers, shapes,
/// attributes, flags. Operators are those of the table (aten::call). One that
/// cannot be imported gives an unknown value, and execution continues as long
/// as nothing depends on that, so that all of them are reported together.
class Interpreter {
public:
  /// `trained`: the arguments of @forward that are trained. `detached`:
  /// patterns for modules through whose results no gradient passes;
  /// `getDetached` says for each pattern whether it has matched.
  Interpreter(const Archive &archive, const ModelState &state,
              aten::Context &context, std::optional<bool> training,
              llvm::DenseSet<mlir::Value> trained,
              llvm::ArrayRef<std::string> detached)
      : archive(archive), state(state), context(context), training(training),
        trained(std::move(trained)), detachPatterns(detached),
        isDetached(detached.size()) {}

  /// Empties the containers and objects that the code created: see `keep`.
  ~Interpreter();

  /// Executes the method and returns its result; `arguments` are those after
  /// `self`. Nullopt if execution cannot continue: `getError` says why, or if
  /// that is empty, the context's failures do.
  std::optional<Value> call(const std::shared_ptr<Instance> &instance,
                            llvm::StringRef method, aten::List arguments);
  const std::string &getError() const { return error; }
  llvm::ArrayRef<bool> getDetached() const { return isDetached; }
  /// The number of calls of each operator of the table, by name.
  const std::map<std::string, int64_t> &getCounts() const { return counts; }

private:
  struct Frame {
    const SourceFile &file;
    const std::string &module; // of the code: "__torch__.nn"
    std::string scope;         // of the model: "h.0.mlp"
    std::map<std::string, Value, std::less<>> locals = {};
    Value result = {};
  };
  enum class Flow { Next, Returned, Stopped };

  static constexpr int maxCalls = 200, maxDepth = 4000;
  /// One step covers so many copied or compared elements, or characters.
  static constexpr int64_t elementsPerStep = 4, charactersPerStep = 64;
  /// An op of the graph takes the time of so many steps: it is created,
  /// verified and erased again.
  static constexpr int64_t stepsPerOp = 6;

  /// While it lives, one more nesting level of expressions or blocks is
  /// counted, over all calls together; this bounds the stack.
  struct Level {
    explicit Level(int &depth) : depth(++depth) {}
    ~Level() { --depth; }
    int &depth;
  };
  /// Stops the execution if the total nesting is too deep.
  bool isTooDeep(const Frame &frame, uint32_t offset);

  /// Stops the execution with `message` about the code at `offset`.
  std::nullopt_t stop(const Frame &frame, uint32_t offset,
                      const llvm::Twine &message);
  /// Keeps nested containers and objects. A program may nest them arbitrarily
  /// deep and in cycles, so that their destruction would recurse, or never
  /// happen; the destructor empties them one by one instead.
  /// @{
  void keep(const Value &value) { kept.push_back(value); }
  /// Keeps the container `result` if it contains other containers.
  void keepNested(const Value &result);
  /// Keeps the first argument, a container to which the call may add others.
  void keepTaker(llvm::ArrayRef<Value> arguments,
                 const aten::Keywords &keywords);
  /// @}
  /// Counts `count` steps, at most 2^62: statements, calls, operators of the
  /// graph, and work on lists and strings (`charge`). Stops if there are more
  /// than `ImportOptions::maxOps`.
  bool countStep(const Frame &frame, uint32_t offset, int64_t count = 1);
  /// Counts what an operator may copy or compare of its argument, including all
  /// that is nested in it, so that the steps bound time and memory.
  bool charge(const Value &argument, const Frame &frame, uint32_t offset);
  /// Counts the elements of a new container itself, or the characters of a new
  /// string.
  bool chargeMade(const Value &made, const Frame &frame, uint32_t offset);
  /// The number of values that may be compared with the remaining steps.
  int64_t comparisonsLeft() const;
  /// Counts comparisons that were made, from the values of `left` before and
  /// after them.
  bool chargeComparisons(int64_t before, int64_t left, const Frame &frame,
                         uint32_t offset) {
    return countStep(frame, offset, (before - left) / elementsPerStep);
  }
  std::string placeOf(const Frame &frame, uint32_t offset);
  SourceLine lineOf(const Frame &frame, uint32_t offset);

  /// Statements (Interpreter.cpp).
  /// @{
  Flow execute(const std::vector<Statement> &body, Frame &frame);
  Flow execute(const Statement &statement, Frame &frame);
  bool assign(const Statement &statement, Frame &frame);
  bool assignTo(const Expression &target, Value value, Frame &frame);
  bool setAttribute(const Expression &target, Value value, Frame &frame);
  /// Returns true if the branch is taken or the loop continues.
  std::optional<bool> condition(const Statement &statement, Frame &frame);
  Flow executeWith(const Statement &statement, Frame &frame);
  std::optional<Value> callFunction(const Function &function,
                                    const SourceFile &file,
                                    const std::string &module,
                                    std::string scope, aten::List positional,
                                    const aten::Keywords &keywords,
                                    const Frame *caller, uint32_t offset);
  /// @}

  /// Expressions (Expressions.cpp).
  /// @{
  std::optional<Value> evaluate(const Expression &expression, Frame &frame);
  std::optional<Value> evaluateKind(const Expression &expression, Frame &frame);
  std::optional<aten::List>
  evaluateAll(llvm::ArrayRef<const Expression *> expressions, Frame &frame);
  std::optional<Value> evaluateName(const Expression &expression,
                                    const Frame &frame);
  std::optional<Value> evaluateAttribute(const Expression &expression,
                                         Frame &frame);
  std::optional<Value> evaluateSubscript(const Expression &expression,
                                         Frame &frame);
  std::optional<Value> evaluateGlobal(const std::string &name,
                                      const Expression &expression,
                                      const Frame &frame);
  std::optional<Value> attributeOf(const Value &value, llvm::StringRef name,
                                   const Expression &expression, Frame &frame);
  /// @}

  /// Calls (Calls.cpp; those of the language itself in LanguageCalls.cpp; those
  /// on tensors in TensorAttributes.cpp).
  /// @{
  std::optional<Value> evaluateCall(const Expression &call, Frame &frame);
  /// Evaluates int(x), annotate(T, x) and the like; the outer optional is
  /// nullopt if `name` is none of them.
  std::optional<std::optional<Value>>
  callLanguage(llvm::StringRef name, const Expression &call, Frame &frame);
  std::optional<Value> annotated(const Expression &call, Frame &frame);
  std::optional<Value> converted(llvm::StringRef name, const Expression &call,
                                 Frame &frame);
  std::optional<Value> isInstance(const Expression &call, Frame &frame);
  std::optional<Value> construct(const std::string &className,
                                 const Expression &call, Frame &frame);
  std::optional<Value> callMethod(const Value &object, llvm::StringRef method,
                                  const Expression &call, Frame &frame);
  std::optional<Value> callOperator(std::string name, const Expression &call,
                                    Frame &frame);
  std::optional<Value> callTable(llvm::StringRef name, aten::List arguments,
                                 const aten::Keywords &keywords,
                                 uint32_t offset, Frame &frame);
  /// Evaluates `tensor.dtype` and the like; nullopt if `name` is none of these.
  std::optional<Value> tensorAttribute(llvm::StringRef name,
                                       const Value &tensor);
  bool requiresGrad(const Value &tensor);
  /// Returns `value` as it leaves the module at `path`, detached if a pattern
  /// matches.
  std::optional<Value> leave(llvm::StringRef path, Value value,
                             const Frame &frame, uint32_t offset);
  std::optional<Value> detach(const Value &value, const Frame &frame,
                              uint32_t offset, int nesting = 0);
  bool toList(const Value &tensor, Value &result, Frame &frame);
  /// @}

  const Archive &archive;
  const ModelState &state;
  aten::Context &context;
  /// `--train` and `--eval`; unset: the mode in which the model was saved.
  const std::optional<bool> training;
  const llvm::DenseSet<mlir::Value> trained;
  llvm::ArrayRef<std::string> detachPatterns;
  llvm::SmallVector<bool> isDetached;
  std::vector<Value> kept;
  std::string error;
  int calls = 0, depth = 0;
  bool isGradEnabled = true;
  int64_t steps = 0;
  std::map<std::string, int64_t> counts;
  std::map<std::pair<const SourceFile *, uint32_t>, SourceLine> lines;
};

} // namespace polyrank::frontends::torchscript
