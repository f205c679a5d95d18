// Executes TorchScript's code on values that stand for what the model computes:
// operators become graph ops, everything else is done now.

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

/// Control flow is followed: branches that are taken, loops turn by turn, calls
/// of methods and functions. What decides it must be known: numbers, shapes,
/// attributes, flags. Operators are the table's (aten::call); one that cannot
/// be imported gives an unknown value, and the execution goes on as far as
/// nothing depends on that, so that all of them are reported at once.
class Interpreter {
public:
  /// `trained`: the arguments of @forward that are trained. `detached`:
  /// patterns over modules, through whose results no gradient
  /// passes; by pattern, `getDetached` says whether it was met.
  Interpreter(const Archive &archive, const ModelState &state,
              aten::Context &context, std::optional<bool> training,
              llvm::DenseSet<mlir::Value> trained,
              llvm::ArrayRef<std::string> detached)
      : archive(archive), state(state), context(context), training(training),
        trained(std::move(trained)), detachPatterns(detached),
        isDetached(detached.size()) {}

  /// Takes apart what the code made: see `keep`.
  ~Interpreter();

  /// What the method returns; `arguments` are those behind `self`. Nullopt
  /// where it cannot be executed further: `getError` says why, or where it is
  /// empty the context's failures do.
  std::optional<Value> call(const std::shared_ptr<Instance> &instance,
                            llvm::StringRef method, aten::List arguments);
  const std::string &getError() const { return error; }
  llvm::ArrayRef<bool> getDetached() const { return isDetached; }
  /// How often each operator of the table was called, by its name.
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
  /// So many elements that are copied or compared, or characters, are a step.
  static constexpr int64_t elementsPerStep = 4, charactersPerStep = 64;

  /// One more level of expressions or blocks, of all calls together, for as
  /// long as it lives: what bounds the stack.
  struct Level {
    explicit Level(int &depth) : depth(++depth) {}
    ~Level() { --depth; }
    int &depth;
  };
  /// Stops where all that is being executed is too deep.
  bool isTooDeep(const Frame &frame, uint32_t offset);

  /// Stops the execution: `message` about the code at `offset`.
  std::nullopt_t stop(const Frame &frame, uint32_t offset,
                      const llvm::Twine &message);
  /// Lists in lists, and objects, which a program may put into each other
  /// without an end, and into themselves: they are kept here and emptied one by
  /// one, since they would be destroyed by a recursion, or never.
  /// @{
  void keep(const Value &value) { kept.push_back(value); }
  /// The container `result`, where it has others in it.
  void keepNested(const Value &result);
  /// The container that is given others.
  void keepTaker(llvm::ArrayRef<Value> arguments,
                 const aten::Keywords &keywords);
  /// @}
  /// Counts statements, calls, operators of the graph, and what is made of
  /// lists and texts (`charge`), of which `ImportOptions::maxOps` are possible.
  /// `count` is at most 2^62.
  bool countStep(const Frame &frame, uint32_t offset, int64_t count = 1);
  /// Counts what an operator may copy or compare of its argument, all that lies
  /// in it included, so that the steps are a bound on time and memory.
  bool charge(const Value &argument, const Frame &frame, uint32_t offset);
  /// Counts a container's own elements, or a text's characters, which are new.
  bool chargeMade(const Value &made, const Frame &frame, uint32_t offset);
  /// How many values may be compared with the steps that are left.
  int64_t comparisonsLeft() const;
  /// Counts the comparisons that were made: `before` were left.
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
  /// Whether the branch is taken or the loop goes on.
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

  /// Calls (Calls.cpp; of the language itself LanguageCalls.cpp; what concerns
  /// tensors TensorAttributes.cpp).
  /// @{
  std::optional<Value> evaluateCall(const Expression &call, Frame &frame);
  /// int(x), annotate(T, x) and the like; nullopt in the outer optional where
  /// the name is none of them.
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
  /// `tensor.dtype` and the like; nullopt where `name` is none of these.
  std::optional<Value> tensorAttribute(llvm::StringRef name,
                                       const Value &tensor);
  bool requiresGrad(const Value &tensor);
  /// `value` as it leaves the module at `path`.
  std::optional<Value> leave(llvm::StringRef path, Value value,
                             const Frame &frame, uint32_t offset);
  std::optional<Value> detach(const Value &value, const Frame &frame,
                              uint32_t offset, int nesting = 0);
  bool toList(const Value &tensor, Value &result, Frame &frame);
  /// @}

  const Archive &archive;
  const ModelState &state;
  aten::Context &context;
  /// `--train` and `--eval`; unset: as saved.
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
