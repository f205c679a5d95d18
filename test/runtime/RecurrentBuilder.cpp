// Builds the loops of a recurrent layer.

#include "test/runtime/RecurrentBuilder.h"

#include "test/runtime/PlanParts.h"

#include <cstring>

namespace polyrank::runtime::test {
namespace {

constexpr int64_t width = recurrentWidth;

BufferRef moving(uint64_t offset, int64_t each, uint64_t stride) {
  return BufferRef(offset, rowBytes, stride, 0, each, 0, 0, Region::Private);
}

} // namespace

RecurrentPlan recurrentPlan(const LinearModel &model) {
  RecurrentPlan at;
  at.plan = linearPlan(model);
  PlanT &plan = at.plan;
  ProgramT &program = *plan.programs[0];
  uint64_t end = program.private_size;
  auto count = uint64_t(model.microbatches);
  auto take = [&](uint64_t bytes) {
    uint64_t begin = end;
    end += (bytes + 63) / 64 * 64;
    return begin;
  };
  at.x = take(count * sequenceBytes), at.h = take(count * statesBytes);
  at.w = take(rowBytes * width), at.y = take(count * sequenceBytes);
  at.reversed = take(count * sequenceBytes);
  at.g = take(count * statesBytes);
  program.private_size = end;
  for (uint64_t i = 0; i < count * recurrentTimes * width; ++i)
    at.xValues.push_back(float(i % 7) - 2);
  for (uint64_t i = 0; i < width * width; ++i)
    at.wValues.push_back(float(i % 5) - 1);
  for (auto [offset, values] :
       {std::pair(at.x, &at.xValues), {at.w, &at.wValues}}) {
    auto constant = std::make_unique<ConstantT>();
    constant->data.resize(4 * values->size());
    std::memcpy(constant->data.data(), values->data(), constant->data.size());
    constant->buffer = std::make_unique<BufferRef>(
        offset, constant->data.size(), 0, 0, 0, 0, 0, Region::Private);
    program.constants.push_back(std::move(constant));
  }

  LoopT forward, backward;
  forward.count = backward.count = recurrentTimes;
  int64_t next = int64_t(rowBytes);
  BufferRef matrix(at.w, rowBytes * width, 0, 0, 0, 0, 0, Region::Private);
  BufferRef y = moving(at.y, next, sequenceBytes);
  forward.commands.push_back(
      command(launch(difference, width,
                     {moving(at.x, next, sequenceBytes),
                      moving(at.h, next, statesBytes)},
                     {moving(at.h + rowBytes, next, statesBytes)}),
              "cell"));
  forward.commands.push_back(
      command(gemm(1, width, width, moving(at.h + rowBytes, next, statesBytes),
                   false, matrix, y, 0),
              "cell"));
  CopyT copy;
  copy.element = 4, copy.inner = width;
  copy.input = copyOf(y);
  copy.output = copyOf(
      moving(at.reversed + sequenceBytes - rowBytes, -next, sequenceBytes));
  forward.commands.push_back(command(std::move(copy), "flip"));
  backward.commands.push_back(command(
      launch(difference, width,
             {moving(at.y + sequenceBytes - rowBytes, -next, sequenceBytes),
              moving(at.g + statesBytes - rowBytes, -next, statesBytes)},
             {moving(at.g + sequenceBytes - rowBytes, -next, statesBytes)}),
      "cell.gradient"));
  for (int segment : {firstSegment, nextSegment}) {
    auto &commands = program.segments[segment]->commands;
    commands.push_back(command(LoopT(forward), "lstm"));
    commands.back()->picoseconds = 7000;
    commands.push_back(command(LoopT(backward), "lstm.gradient"));
    commands.back()->phase = Phase::Backward;
  }
  return at;
}

} // namespace polyrank::runtime::test
