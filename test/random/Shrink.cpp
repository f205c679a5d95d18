// Shrinks a failing program to a minimal lit test.

#include "test/random/Shrink.h"

#include "dialects/graph/Boundary.h"
#include "dialects/sharding/Constraint.h"
#include "test/random/Processes.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

namespace {

/// One clone of a module, with one thing left out.
class Edit {
public:
  explicit Edit(ModuleOp original) : module(original.clone()) {
    for (auto each : module->getOps<func::FuncOp>())
      function = each;
  }

  /// Makes edit number `index`, counted over all kinds. Returns false if it
  /// cannot be made; `isLast` is set if there are no more.
  bool apply(int64_t index, bool &isLast);

  OwningOpRef<ModuleOp> module;

private:
  bool dropResult(unsigned number);
  bool returnOperand(unsigned number, unsigned operand);
  bool dropConstraint(unsigned argument);
  bool inlineMicrobatches(graph::MicrobatchesOp op);
  bool dropYielded(graph::MicrobatchesOp op, unsigned number);
  bool becomeInput(Operation *op);
  bool becomeOperand(Operation *op);
  Value addInput(Type type, StringRef name);
  void clean();

  func::FuncOp function;
};

} // namespace

Value Edit::addInput(Type type, StringRef name) {
  auto text = StringAttr::get(function.getContext(), name);
  return graph::Boundary(function).insertArgument(
      function.getNumArguments(), type, graph::InputAttr::get(text),
      NameLoc::get(text));
}

/// Removes an output, or a mean with its count. If the result replaced an
/// argument, the argument becomes an input of the step.
bool Edit::dropResult(unsigned number) {
  graph::Boundary boundary(function);
  if (boundary.getResult<graph::CountAttr>(number))
    return false; // goes with its mean
  if (std::optional<unsigned> replaced = boundary.getReplaced(number);
      replaced && function.getName() == "step")
    boundary.setArgument(
        *replaced, graph::InputAttr::get(StringAttr::get(
                       function.getContext(), boundary.getName(*replaced))));
  for (int left = boundary.getResult<graph::MeanAttr>(number) ? 2 : 1; left > 0;
       --left) {
    function.getBody().front().getTerminator()->eraseOperand(number);
    if (failed(function.eraseResult(number)))
      return false;
  }
  return true;
}

/// An output becomes what it was computed from.
bool Edit::returnOperand(unsigned number, unsigned operand) {
  Operation *terminator = function.getBody().front().getTerminator();
  Operation *op = terminator->getOperand(number).getDefiningOp();
  if (!graph::Boundary(function).getResult<graph::OutputAttr>(number) || !op ||
      operand >= op->getNumOperands())
    return false;
  Value value = op->getOperand(operand);
  sharding::LayoutAttr layout = sharding::getLayout(value);
  if (layout && layout.isPartial())
    return false; // outputs are whole
  terminator->setOperand(number, value);
  SmallVector<Type> results(function.getResultTypes());
  results[number] = value.getType();
  function.setFunctionType(
      function.getFunctionType().clone(function.getArgumentTypes(), results));
  return true;
}

bool Edit::dropConstraint(unsigned argument) {
  if (!sharding::getConstraint(function, argument))
    return false;
  sharding::setConstraint(function, argument, {});
  return true;
}

/// Inlines its body once, with new inputs.
bool Edit::inlineMicrobatches(graph::MicrobatchesOp op) {
  Block &body = op.getBody().front();
  IRMapping mapping;
  mapping.map(op.getIndex(), addInput(op.getIndex().getType(), "index"));
  for (auto [i, slice] : llvm::enumerate(op.getSlices()))
    mapping.map(slice, addInput(slice.getType(), "slice" + std::to_string(i)));
  for (auto [argument, value] : llvm::zip_equal(op.getCarried(), op.getCarry()))
    mapping.map(argument, value);
  OpBuilder builder(op);
  for (Operation &each : body.without_terminator())
    builder.clone(each, mapping);
  for (auto [result, value] :
       llvm::zip_equal(op.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  op.erase();
  return true;
}

bool Edit::dropYielded(graph::MicrobatchesOp op, unsigned number) {
  if (number >= op.getNumSums() || !op->getResult(number).use_empty())
    return false;
  SmallVector<Type> types(op->getResultTypes());
  types.erase(types.begin() + number);
  OpBuilder builder(op);
  auto smaller = graph::MicrobatchesOp::create(
      builder, op.getLoc(), types, op.getCount(), op.getOf(), op.getCarry());
  smaller.getBody().takeBody(op.getBody());
  auto yield = cast<graph::YieldOp>(smaller.getBody().front().getTerminator());
  SmallVector<Value> sums(yield.getSum());
  sums.erase(sums.begin() + number);
  builder.setInsertionPoint(yield);
  graph::YieldOp::create(builder, yield.getLoc(), sums,
                         SmallVector<Value>(yield.getCarry()));
  yield.erase();
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (i != number)
      result.replaceAllUsesWith(smaller->getResult(next++));
  op.erase();
  return true;
}

bool Edit::becomeInput(Operation *op) {
  if (op->use_empty() || isa<graph::MicrobatchesOp>(op))
    return false;
  for (OpResult result : op->getResults()) {
    sharding::LayoutAttr layout = sharding::getLayout(result);
    if (layout && layout.isPartial())
      return false; // arguments are whole
    if (!result.use_empty())
      result.replaceAllUsesWith(addInput(
          result.getType(), "in" + std::to_string(function.getNumArguments())));
  }
  return true;
}

bool Edit::becomeOperand(Operation *op) {
  if (op->getNumResults() != 1 || op->use_empty())
    return false;
  for (Value operand : op->getOperands())
    if (operand.getType() == op->getResult(0).getType()) {
      op->getResult(0).replaceAllUsesWith(operand);
      return true;
    }
  return false;
}

/// Removes unused ops, unused arguments, and parameters without references.
void Edit::clean() {
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<Operation *> dead;
    function.walk([&](Operation *op) {
      if (op != function && op->use_empty() && op->getNumResults() > 0)
        dead.push_back(op);
    });
    for (Operation *op : dead)
      op->erase();
    changed = !dead.empty();
  }
  // A step returns what takes a parameter's place; @forward what is given one.
  graph::Boundary boundary(function);
  auto isReplaced = [&](unsigned i) {
    return function.getName() == "forward" ? boundary.getNext(i).has_value()
                                           : boundary.isKept(i);
  };
  for (unsigned i = function.getNumArguments(); i-- > 0;)
    if (function.getArgument(i).use_empty() && !isReplaced(i))
      boundary.eraseArgument(i);
  for (auto parameter :
       llvm::make_early_inc_range(module->getOps<graph::ParameterOp>()))
    if (SymbolTable::symbolKnownUseEmpty(parameter, *module))
      parameter.erase();
}

bool Edit::apply(int64_t index, bool &isLast) {
  auto take = [&](int64_t count) {
    if (index < count)
      return true;
    index -= count;
    return false;
  };
  SmallVector<Operation *> ops;
  SmallVector<graph::MicrobatchesOp> regions;
  function.walk([&](Operation *op) {
    if (graph::isInScan(op))
      return;
    if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
      regions.push_back(region);
    if (isa<graph::GraphOp>(op) || isa<sharding::ReshardOp>(op))
      ops.push_back(op);
  });
  std::reverse(ops.begin(), ops.end());
  constexpr unsigned operands = 3;
  bool made = false;
  isLast = false;
  if (take(function.getNumResults())) {
    made = function.getNumResults() > 1 && dropResult(index);
  } else if (take(regions.size())) {
    made = inlineMicrobatches(regions[index]);
  } else if (take(ops.size())) {
    made = becomeInput(ops[index]);
  } else if (take(ops.size())) {
    made = becomeOperand(ops[index]);
  } else if (take(function.getNumResults() * operands)) {
    made = returnOperand(index / operands, index % operands);
  } else if (take(function.getNumArguments())) {
    made = dropConstraint(index);
  } else if (take(ops.size())) {
    made = bool(sharding::getConstraint(ops[index]));
    sharding::setConstraint(ops[index], {});
  } else {
    for (graph::MicrobatchesOp region : regions)
      if (take(region->getNumResults())) {
        made = dropYielded(region, index);
        index = 0;
        clean();
        return made;
      }
    isLast = true;
    return false;
  }
  if (made)
    clean();
  return made;
}

void polyrank::test::shrink(OwningOpRef<ModuleOp> &module,
                            function_ref<bool(ModuleOp)> fails) {
  ScopedDiagnosticHandler quiet(module->getContext(),
                                [](Diagnostic &) { return success(); });
  for (bool changed = true; changed;) {
    changed = false;
    bool isLast = false;
    for (int64_t i = 0; !isLast;) {
      Edit edit(*module);
      if (edit.apply(i, isLast) && succeeded(verify(*edit.module)) &&
          fails(*edit.module)) {
        module = std::move(edit.module);
        changed = true; // what is now edit number i is another one
      } else {
        ++i;
      }
    }
  }
}

static int childPipe = -1;

static void reportCrash(int) {
  std::string text = atWork.substr(atWork.find(", ") + 2) + "\ncrashed";
  if (write(childPipe, text.data(), text.size()) < 0)
    _exit(3);
  _exit(2);
}

std::optional<std::pair<std::string, std::string>>
polyrank::test::runInChild(function_ref<std::optional<Failure>()> run) {
  int ends[2];
  if (pipe(ends) != 0)
    return std::nullopt;
  std::fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    childPipe = ends[1];
    for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL})
      std::signal(signal, reportCrash);
    // An assertion says where it is, once per edit.
    if (!std::freopen("/dev/null", "w", stderr))
      _exit(3);
    if (auto failure = run()) {
      std::string text = failure->stage + "\n" + failure->message;
      if (write(childPipe, text.data(), text.size()) < 0)
        _exit(3);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, size);
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  if (text.empty())
    return std::nullopt;
  auto [stage, message] = StringRef(text).split('\n');
  return std::pair(stage.str(), message.str());
}

/// Returns the part of a message that is equal for the same failure of other
/// programs.
static std::string kindOf(StringRef message) {
  std::string kind;
  for (char c : message)
    if (!isdigit(c))
      kind += c;
  return kind.substr(0, 24);
}

/// Returns the passes that the tool runs to reach a stage, by part.
static std::string passesTo(StringRef stage, int start, uint64_t seed,
                            StringRef updateOptions) {
  static const std::vector<const char *> passes[] = {
      {"raise-composites", "unflatten", "find-logical-parameters", "cse",
       "build-step", "canonicalize"},
      {"propagate-layouts", "shard-updates", "decompose-composites"},
      {"plan-reshards", "mark-stages", "bucket-collectives", "place-values",
       "check-partition", "localize", "choose-orders", "form-segments",
       "form-loops", "form-attention", "form-gemms", "form-kernels",
       "lower-kernels", "choose-calls", "order-commands", "start-collectives",
       "assign-buffers", "check-buffers", "check-ranks"}};
  std::string flags;
  for (const char *pass : passes[start]) {
    if (!stage.contains(pass) && llvm::none_of(passes[start], [&](auto *other) {
          return stage.contains(other);
        }))
      break;
    flags += std::string(" --") + pass;
    if (StringRef(pass) == "shard-updates")
      flags += "=\"" + updateOptions.str() + "\"";
    if (StringRef(pass) == "choose-orders")
      flags += "=always";
    if (StringRef(pass) == "form-segments")
      flags += "=ahead=" + std::to_string(drawAhead(seed));
    if (StringRef(pass) == "form-attention")
      flags += drawAttention(seed) == lowering::AttentionKind::Fused
                   ? "=attention=fused"
                   : "=attention=parts";
    if (stage.contains(pass))
      break;
  }
  return flags;
}

std::string polyrank::test::shrinkToTest(MLIRContext &context, uint64_t seed,
                                         int64_t machines) {
  // With real processes if the failure needs them.
  std::string mode = drawProgram(context, seed).mode;
  bool onProcesses = false;
  auto makeChecker = [&] {
    Checker checker(seed);
    if (onProcesses)
      checker.onLowered = [&](ModuleOp, ModuleOp partitioned,
                              const Program *) -> std::string {
        Program program;
        program.mode = mode;
        return checkOnProcesses(partitioned, program, seed, machines);
      };
    return checker;
  };
  auto runAll = [&] { return makeChecker().runProgram(context); };
  auto first = runInChild(runAll);
  if (!first) {
    onProcesses = true;
    first = runInChild(runAll);
  }
  if (!first)
    return "";
  // Runs again in this process to get the module, up to the part that crashes.
  OwningOpRef<ModuleOp> module;
  int start = 0;
  Checker checker = makeChecker();
  checker.onPart = [&](ModuleOp part, int number) {
    module = part.clone();
    start = number;
    return !runInChild([&] {
      OwningOpRef<ModuleOp> copy(part.clone());
      return makeChecker().run(*copy, static_cast<Checker::Start>(number));
    });
  };
  (void)checker.runProgram(context);
  std::string stage = first->first, kind = kindOf(first->second);
  auto fails = [&](ModuleOp candidate) {
    auto failure = runInChild([&] {
      OwningOpRef<ModuleOp> copy(candidate.clone());
      return makeChecker().run(*copy, static_cast<Checker::Start>(start));
    });
    return failure && failure->first == stage &&
           kindOf(failure->second) == kind;
  };
  std::string text;
  llvm::raw_string_ostream out(text);
  if (onProcesses)
    out << "// By polyrank-run only: no RUN line shows it.\n";
  if (module && fails(*module))
    shrink(module, fails);
  else
    out << "// Not reproduced from the part that fails: the whole program.\n";
  std::string flags = passesTo(stage, start, seed, checker.updateOptions);
  StringRef evaluation = StringRef(stage).contains("ranks") &&
                                 flags.find("localize") != std::string::npos
                             ? "ranks --tolerance=1e-5"
                         : start == 0 ? "global"
                                      : "distributed";
  out << "// RUN: polyrank-opt %s --evaluate=global --outputs=%t.npz\n"
      << "// RUN: polyrank-opt %s" << flags << " --evaluate=" << evaluation
      << " --expect=%t.npz\n// Found by random-programs-test --seed " << seed
      << ", at " << stage << ":\n// "
      << StringRef(first->second).split('\n').first << "\n\n";
  if (module)
    module->print(out);
  return text;
}
