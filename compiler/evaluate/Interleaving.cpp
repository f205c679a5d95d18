// Runs several programs, one at a time.

#include "compiler/evaluate/Interleaving.h"

#include <thread>

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace polyrank::evaluate;

Interleaving::Interleaving(size_t count, std::optional<uint64_t> seed)
    : waiting(count), hasEnded(count) {
  if (seed)
    random.emplace(*seed);
}

/// Passes the turn to a program that can continue. If none can, all must end.
void Interleaving::passOn() {
  std::vector<size_t> able;
  for (size_t i = 1; i <= waiting.size(); ++i) {
    size_t program = (turn + i) % waiting.size();
    if (!hasEnded[program] &&
        (!waiting[program] || waiting[program]->isThere()))
      able.push_back(program);
  }
  if (able.empty()) {
    isStuck = !isOver && llvm::is_contained(hasEnded, false);
    isOver = true;
  } else {
    turn = able[random ? (*random)() % able.size() : 0];
  }
  changed.notify_all();
}

LogicalResult Interleaving::waitForTurn(Lock &lock, size_t program) {
  changed.wait(lock, [&] { return isOver || turn == program; });
  return success(!isOver);
}

LogicalResult Interleaving::await(size_t program, Operation *op, StringRef what,
                                  llvm::function_ref<bool()> isThere) {
  Lock lock(mutex);
  if (isThere())
    return success();
  waiting[program].emplace(Waiting{op, what.str(), isThere});
  passOn();
  // If the wait fails, `waiting` keeps its entry for the error.
  if (failed(waitForTurn(lock, program)))
    return failure();
  waiting[program].reset();
  return success();
}

LogicalResult Interleaving::pause(size_t program) {
  constexpr uint64_t oneOf = 4;
  Lock lock(mutex);
  if (!random || (*random)() % oneOf)
    return success();
  passOn();
  return waitForTurn(lock, program);
}

LogicalResult
Interleaving::run(llvm::function_ref<LogicalResult(size_t program)> body) {
  bool hasFailed = false;
  auto runOne = [&](size_t program) {
    Lock lock(mutex);
    if (failed(waitForTurn(lock, program)))
      return;
    lock.unlock();
    LogicalResult result = body(program);
    lock.lock();
    hasEnded[program] = true;
    if (failed(result) && !isOver) {
      hasFailed = isOver = true;
      changed.notify_all();
    }
    if (!isOver)
      passOn();
  };
  std::vector<std::thread> threads;
  for (size_t program = 0; program < waiting.size(); ++program)
    threads.emplace_back(runOne, program);
  for (std::thread &thread : threads)
    thread.join();
  if (!isStuck)
    return success(!hasFailed);
  auto first =
      llvm::find_if(waiting, [](auto &one) { return one.has_value(); });
  InFlightDiagnostic error =
      (*first)->op->emitOpError("is where all wait for each other: ")
      << (*first)->what;
  for (auto one = std::next(first); one != waiting.end(); ++one)
    if (*one)
      error.attachNote((*one)->op->getLoc()) << (*one)->what;
  return failure();
}
