// Sums times by structure and prints them.

#include "runtime/exec/Profile.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

struct Line {
  std::string what, origin;
  double seconds = 0; // of a step
  uint64_t count = 0; // in a step
  double flops = 0, bytes = 0;
};

std::string nameOf(const plan::Gemm &gemm) {
  std::string name = fmt::format(
      "gemm {}x{}x{}{}{}", gemm.m(), gemm.n(), gemm.k(),
      gemm.transpose_a() ? " A^T" : "", gemm.transpose_b() ? " B^T" : "");
  if (gemm.batch())
    for (const plan::GemmBatch *dim : *gemm.batch())
      name += fmt::format(" *{}", dim->count());
  if (gemm.beta() != 0)
    name += " +=";
  return name + " " + plan::EnumNameGemmImplementation(gemm.implementation());
}

uint64_t bytesOf(const plan::Launch &launch) {
  uint64_t bytes = launch.bytes();
  if (bytes == 0)
    for (const auto *buffers : {launch.inputs(), launch.outputs()})
      if (buffers)
        for (const plan::BufferRef *buffer : *buffers)
          bytes += buffer->size();
  return bytes;
}

/// The name of what the command runs; adds its work to `line`.
std::string describe(const plan::Command &command, const plan::Plan &plan,
                     Line &line, double executions) {
  switch (command.body_type()) {
  case plan::CommandBody::Launch: {
    const plan::Launch &launch = *command.body_as_Launch();
    line.flops = executions * launch.flops();
    line.bytes = executions * bytesOf(launch);
    return plan.kernels()->symbols()->Get(launch.kernel())->str();
  }
  case plan::CommandBody::Gemm: {
    const plan::Gemm &gemm = *command.body_as_Gemm();
    double work = 2.0 * gemm.m() * gemm.n() * gemm.k();
    if (gemm.batch())
      for (const plan::GemmBatch *dim : *gemm.batch())
        work *= dim->count();
    line.flops = executions * work;
    return nameOf(gemm);
  }
  case plan::CommandBody::Copy: {
    const plan::Copy &copy = *command.body_as_Copy();
    line.bytes = 2.0 * executions * copy.output()->size();
    return fmt::format("copy {} x {} bytes", copy.outer(),
                       copy.inner() * copy.element());
  }
  default: {
    const plan::Collective &collective = *command.body_as_Collective();
    for (const plan::Transfer *transfer : *collective.transfers())
      line.bytes += executions * transfer->input()->size();
    return plan::EnumNameCollectiveKind(collective.kind());
  }
  }
}

} // namespace

Profile::Profile(const plan::Program &program) : program(program) {
  for (const plan::Segment *segment : *program.segments())
    segments.emplace_back(segment->commands() ? segment->commands()->size()
                                              : 0);
}

void Profile::endStep() {
  for (auto &segment : segments)
    for (Entry &entry : segment) {
      if (steps == 1)
        entry.least = entry.step;
      entry.least = std::min(entry.least, entry.step);
      entry.step = 0;
    }
  ++steps;
}

std::string Profile::table(const plan::Plan &plan) const {
  std::map<std::string, Line> lines;
  double total = 0;
  if (steps != 0)
    for (size_t s = 0; s < segments.size(); ++s)
      for (size_t c = 0; c < segments[s].size(); ++c) {
        const Entry &entry = segments[s][c];
        const plan::Command &command =
            *program.segments()->Get(s)->commands()->Get(c);
        Line work;
        uint64_t count = entry.count / steps;
        std::string name = describe(command, plan, work, double(count));
        Line &line = lines[name];
        line.what = name;
        if (line.origin.empty() && command.origin())
          line.origin = command.origin()->str();
        line.seconds += 1e-9 * entry.least;
        line.count += count;
        line.flops += work.flops;
        line.bytes += work.bytes;
        total += 1e-9 * entry.least;
      }
  std::vector<Line> sorted;
  for (auto &[name, line] : lines)
    sorted.push_back(line);
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Line &x, const Line &y) { return x.seconds > y.seconds; });
  std::string text =
      fmt::format("{:>9} {:>6} {:>6} {:>8} {:>7}  {}\n", "ms", "share", "count",
                  "GFLOP/s", "GB/s", "command (first origin)");
  for (const Line &line : sorted)
    text += fmt::format(
        "{:>9.3f} {:>5.1f}% {:>6} {:>8.1f} {:>7.1f}  {} ({})\n",
        1e3 * line.seconds, 100 * line.seconds / std::max(total, 1e-12),
        line.count, 1e-9 * line.flops / std::max(line.seconds, 1e-12),
        1e-9 * line.bytes / std::max(line.seconds, 1e-12), line.what,
        line.origin);
  return text + fmt::format("{:>9.3f} 100.0%  least time of each command over "
                            "{} steps, summed\n",
                            1e3 * total, steps);
}

} // namespace polyrank::runtime
