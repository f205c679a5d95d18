// Computes the costs of intervals of an order of ops.

#include "compiler/stages/CutChain.h"

using namespace polyrank::stages;

/// Returns true if another stage that uses the op's result has to receive it.
static bool isSent(const CutOp &op) { return op.bytes || op.messages; }

CutChain::CutChain(const CutProblem &problem, std::vector<int> given)
    : places(std::move(given)), blocks(size()), time(size() + 1),
      kept(size() + 1), link(problem.link) {
  std::vector<int> blockOf(problem.ops.size());
  for (int block = 0; block < size(); ++block) {
    time[block + 1] = time[block];
    kept[block + 1] = kept[block];
    for (int op = places[block]; op < places[block + 1]; ++op) {
      blockOf[op] = block;
      time[block + 1] += problem.ops[op].time;
      kept[block + 1] += problem.ops[op].kept;
    }
  }
  // Go from the last block to the first, so that the most recently visited use
  // is the next use.
  std::vector<int> next(problem.ops.size(), never), last(next.size(), -1),
      nextOfParameter(problem.parameters.size(), never);
  for (int block = size() - 1; block >= 0; --block) {
    Block &entry = blocks[block];
    for (int op = places[block + 1] - 1; op >= places[block]; --op) {
      if (last[op] > block && isSent(problem.ops[op]))
        entry.made.push_back({problem.ops[op].bytes, problem.ops[op].messages,
                              next[op], last[op]});
      for (int operand : problem.ops[op].operands) {
        if (blockOf[operand] == block || next[operand] == block)
          continue;
        if (isSent(problem.ops[operand]))
          entry.used.push_back({problem.ops[operand].bytes,
                                problem.ops[operand].messages, next[operand]});
        next[operand] = block;
        last[operand] = std::max(last[operand], block);
      }
      for (int parameter : problem.ops[op].parameters)
        if (nextOfParameter[parameter] != block) {
          entry.parameters.push_back({problem.parameters[parameter].everywhere,
                                      0, nextOfParameter[parameter]});
          nextOfParameter[parameter] = block;
        }
    }
  }
  std::vector<bool> owned(problem.parameters.size());
  for (int block = 0; block < size(); ++block)
    for (int op = places[block]; op < places[block + 1]; ++op)
      for (int parameter : problem.ops[op].parameters)
        if (!owned[parameter]) {
          owned[parameter] = true;
          blocks[block].owned += problem.parameters[parameter].owned;
        }
}
