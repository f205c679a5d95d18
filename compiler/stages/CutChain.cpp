// Computes the costs of intervals of an order of ops.

#include "compiler/stages/CutChain.h"

using namespace polyrank::stages;

CutChain::CutChain(const CutProblem &problem, std::vector<int> given)
    : places(std::move(given)), blocks(size()), time(size() + 1),
      kept(size() + 1), picosecondsPerByte(problem.picosecondsPerByte) {
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
      if (last[op] > block && problem.ops[op].bytes)
        entry.made.push_back({problem.ops[op].bytes, next[op], last[op]});
      for (int operand : problem.ops[op].operands) {
        if (blockOf[operand] == block || next[operand] == block)
          continue;
        if (problem.ops[operand].bytes)
          entry.used.push_back({problem.ops[operand].bytes, next[operand]});
        next[operand] = block;
        last[operand] = std::max(last[operand], block);
      }
      for (int parameter : problem.ops[op].parameters)
        if (nextOfParameter[parameter] != block) {
          entry.parameters.push_back({problem.parameters[parameter].everywhere,
                                      nextOfParameter[parameter]});
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
