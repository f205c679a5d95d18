// Sums times by structure and prints them.

#include "runtime/exec/Profile.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/PlanTargets.h"
#include "support/Json.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

namespace polyrank::runtime {
namespace {

uint64_t bytesOf(const plan::Launch &launch) {
  uint64_t bytes = launch.bytes();
  if (bytes == 0)
    for (const auto *buffers : {launch.inputs(), launch.outputs()})
      if (buffers)
        for (const plan::BufferRef *buffer : *buffers)
          bytes += buffer->size();
  return bytes;
}

void describe(const plan::Collective &collective, const plan::Program &program,
              double executions, const DeviceRates &rates, ProfileLine &line) {
  for (const plan::Transfer *transfer : *collective.transfers())
    line.bytes += executions * transfer->input()->size();
  // The bytes sent are read once and written once.
  const auto *reasons = program.reasons();
  if (reasons && collective.why() < reasons->size())
    line.floor = 2 * executions * reasons->Get(collective.why())->bytes() /
                 rates.bytesPerSecond;
}

/// The started collectives of a segment, by request.
using Started = std::map<uint32_t, const plan::Collective *>;

/// Returns the command's line without its time and count.
ProfileLine describe(const plan::Command &command, const plan::Plan &plan,
                     const plan::Program &program, double executions,
                     const DeviceRates &rates, Started &started) {
  ProfileLine line;
  if (command.origin())
    line.origin = command.origin()->str();
  line.kind = kindOf(command);
  switch (command.body_type()) {
  case plan::CommandBody::Launch: {
    const plan::Launch &launch = *command.body_as_Launch();
    line.flops = executions * launch.flops();
    line.bytes = executions * bytesOf(launch);
    line.floor = line.bytes / rates.bytesPerSecond;
    line.command = kernelOf(plan, launch);
    return line;
  }
  case plan::CommandBody::Call: {
    const plan::Call &call = *command.body_as_Call();
    line.flops = executions * static_cast<double>(call.flops());
    line.bytes = executions * static_cast<double>(call.bytes());
    line.factors = static_cast<ElementType>(call.factors());
    line.floor = std::max(line.flops / rates.flopsOf(line.factors),
                          line.bytes / rates.bytesPerSecond);
    line.isCall = true;
    line.command = describeWork(plan, command);
    return line;
  }
  case plan::CommandBody::Copy: {
    const plan::Copy &copy = *command.body_as_Copy();
    line.bytes = 2.0 * executions * copy.output()->size();
    line.floor = line.bytes / rates.bytesPerSecond;
    line.command = fmt::format("copy {} x {} bytes", copy.outer(),
                               copy.inner() * copy.element());
    return line;
  }
  case plan::CommandBody::Wait: {
    const plan::Collective &collective =
        *started.at(command.body_as_Wait()->request());
    describe(collective, program, executions, rates, line);
    line.command = fmt::format("wait for {}",
                               plan::EnumNameCollectiveKind(collective.kind()));
    return line;
  }
  case plan::CommandBody::Send:
  case plan::CommandBody::Receive: {
    const plan::Send *send = command.body_as_Send();
    const plan::BufferRef &value =
        send ? *send->input() : *command.body_as_Receive()->output();
    line.command = fmt::format("{} {} bytes", line.kind, value.size());
    // Each end reads and writes the value once.
    line.bytes = 2 * executions * static_cast<double>(value.size());
    line.floor = line.bytes / rates.bytesPerSecond;
    return line;
  }
  default: {
    const plan::Collective &collective = *command.body_as_Collective();
    line.command = plan::EnumNameCollectiveKind(collective.kind());
    if (collective.request() == 0) {
      describe(collective, program, executions, rates, line);
    } else {
      started[collective.request()] = &collective;
      line.command = "start " + line.command;
    }
    return line;
  }
  }
}

void addNarrowFactors(
    const flatbuffers::Vector<flatbuffers::Offset<plan::Command>> *commands,
    std::set<ElementType> &found) {
  if (!commands)
    return;
  for (const plan::Command *command : *commands) {
    if (const plan::Call *call = command->body_as_Call())
      found.insert(static_cast<ElementType>(call->factors()));
    if (const plan::Loop *loop = command->body_as_Loop())
      addNarrowFactors(loop->commands(), found);
  }
}

/// The number of entries of a command.
size_t entriesOf(const plan::Command &command) {
  const plan::Loop *loop = command.body_as_Loop();
  return loop ? loop->commands()->size() : 1;
}

} // namespace

std::vector<ElementType> narrowFactors(const plan::Program &program) {
  std::set<ElementType> found;
  for (const plan::Segment *segment : *program.segments())
    addNarrowFactors(segment->commands(), found);
  found.erase(ElementType::F32);
  return {found.begin(), found.end()};
}

Profile::Profile(const plan::Program &program) : program(program) {
  for (const plan::Segment *segment : *program.segments()) {
    auto &commands = segments.emplace_back();
    if (segment->commands())
      for (const plan::Command *command : *segment->commands())
        commands.emplace_back(entriesOf(*command));
  }
}

void Profile::endStep() {
  for (auto &segment : segments)
    for (auto &command : segment)
      for (Entry &entry : command) {
        if (steps == 1)
          entry.least = entry.step;
        entry.least = std::min(entry.least, entry.step);
        entry.step = 0;
      }
  ++steps;
}

std::vector<ProfileLine> Profile::lines(const plan::Plan &plan,
                                        const DeviceRates &rates) const {
  std::map<std::string, ProfileLine> lines;
  auto add = [&](const plan::Command &command, const Entry &entry,
                 Started &started) {
    uint64_t count = entry.count / steps;
    ProfileLine work = describe(command, plan, program,
                                static_cast<double>(count), rates, started);
    ProfileLine &line = lines[work.command];
    line.command = work.command, line.kind = work.kind;
    line.isCall = work.isCall;
    line.factors = work.factors;
    if (line.origin.empty())
      line.origin = work.origin;
    line.seconds += 1e-9 * static_cast<double>(entry.least);
    line.count += count;
    line.flops += work.flops;
    line.bytes += work.bytes;
    line.floor += work.floor;
  };
  if (steps != 0)
    for (uint32_t s = 0; s < segments.size(); ++s) {
      Started started;
      for (uint32_t c = 0; c < segments[s].size(); ++c) {
        const plan::Command &command =
            *program.segments()->Get(s)->commands()->Get(c);
        const plan::Loop *loop = command.body_as_Loop();
        for (uint32_t n = 0; n < segments[s][c].size(); ++n)
          add(loop ? *loop->commands()->Get(n) : command, segments[s][c][n],
              started);
      }
    }
  uint64_t waited = steps > 1 ? inputs / (steps - 1) : firstInputs;
  if (waited > 0) {
    ProfileLine &line = lines["wait for samples"];
    line.command = "wait for samples", line.kind = "data";
    line.seconds = 1e-9 * static_cast<double>(waited);
    line.count = 1;
  }
  std::vector<ProfileLine> sorted;
  for (auto &[name, line] : lines)
    sorted.push_back(line);
  std::sort(sorted.begin(), sorted.end(),
            [](const ProfileLine &x, const ProfileLine &y) {
              return std::tie(y.seconds, x.command) <
                     std::tie(x.seconds, y.command);
            });
  return sorted;
}

static double sumOf(const std::vector<ProfileLine> &lines,
                    double ProfileLine::*what) {
  double total = 0;
  for (const ProfileLine &line : lines)
    total += line.*what;
  return total;
}

DeviceRates Profile::reached(const std::vector<ProfileLine> &lines) {
  ProfileLine others;
  std::map<ElementType, ProfileLine> calls;
  for (const ProfileLine &line : lines) {
    if (!line.isCall && line.kind != "launch" && line.kind != "copy")
      continue;
    ProfileLine &sum = line.isCall ? calls[line.factors] : others;
    sum.seconds += line.seconds;
    sum.flops += line.flops;
    sum.bytes += line.bytes;
  }
  DeviceRates rates;
  if (others.seconds > 0)
    rates.bytesPerSecond = others.bytes / others.seconds;
  for (const auto &[factors, sum] : calls)
    if (sum.seconds > 0)
      (factors == ElementType::F32 ? rates.flopsPerSecond
                                   : rates.narrow[factors]) =
          sum.flops / sum.seconds;
  return rates;
}

/// The rates in GFLOP/s of products of other elements than f32, each after a
/// comma, as in ",bf16=240.0".
static std::string narrowText(const DeviceRates &rates) {
  std::string text;
  for (auto [factors, rate] : rates.narrow)
    text += fmt::format(",{}={:.1f}", nameOf(factors), 1e-9 * rate);
  return text;
}

/// The rates that a plan reached, as polyrank-compile --rates takes them. That
/// of f32, which the option needs, is the device's if the plan has no such
/// product.
static std::string ratesText(const DeviceRates &own,
                             const DeviceRates &device) {
  if (own.narrow.empty())
    return fmt::format("{:.1f}:{:.1f}", 1e-9 * own.flopsPerSecond,
                       1e-9 * own.bytesPerSecond);
  double ofF32 =
      own.flopsPerSecond > 0 ? own.flopsPerSecond : device.flopsPerSecond;
  return fmt::format("compute={:.1f},memory={:.1f}", 1e-9 * ofF32,
                     1e-9 * own.bytesPerSecond) +
         narrowText(own);
}

std::string Profile::table(const plan::Plan &plan,
                           const DeviceRates &rates) const {
  std::vector<ProfileLine> all = lines(plan, rates);
  double total = sumOf(all, &ProfileLine::seconds);
  std::string text = fmt::format("{:>9} {:>9} {:>6} {:>6} {:>8} {:>7}  {}\n",
                                 "ms", "floor", "share", "count", "GFLOP/s",
                                 "GB/s", "command (first origin)");
  for (const ProfileLine &line : all)
    text += fmt::format(
        "{:>9.3f} {:>9.3f} {:>5.1f}% {:>6} {:>8.1f} {:>7.1f}  {} ({})\n",
        1e3 * line.seconds, 1e3 * line.floor,
        100 * line.seconds / std::max(total, 1e-12), line.count,
        1e-9 * line.flops / std::max(line.seconds, 1e-12),
        1e-9 * line.bytes / std::max(line.seconds, 1e-12), line.command,
        line.origin);
  DeviceRates own = reached(all);
  return text + fmt::format(
                    "{:>9.3f} {:>9.3f} 100.0%  least time of each command "
                    "over {} steps, summed\n"
                    "floor: {:.1f}{} GFLOP/s in products, {:.1f} GB/s from and "
                    "to memory, measured on all ranks at once\n"
                    "reached: {:.1f}{} GFLOP/s in products, {:.1f} GB/s in all "
                    "else that is computed; polyrank-compile --rates "
                    "{} schedules by it\n",
                    1e3 * total, 1e3 * sumOf(all, &ProfileLine::floor), steps,
                    1e-9 * rates.flopsPerSecond, narrowText(rates),
                    1e-9 * rates.bytesPerSecond, 1e-9 * own.flopsPerSecond,
                    narrowText(own), 1e-9 * own.bytesPerSecond,
                    ratesText(own, rates));
}

static nlohmann::ordered_json jsonOf(const DeviceRates &rates) {
  nlohmann::ordered_json json{{"flops_per_second", rates.flopsPerSecond},
                              {"bytes_per_second", rates.bytesPerSecond}};
  for (auto [factors, rate] : rates.narrow)
    json[std::string("flops_per_second_") + nameOf(factors)] = rate;
  return json;
}

std::string Profile::json(const plan::Plan &plan,
                          const DeviceRates &rates) const {
  std::vector<ProfileLine> all = lines(plan, rates);
  nlohmann::ordered_json report = newReport("profile");
  report["rank"] = 0;
  report["steps"] = steps;
  report["seconds_per_step"] = sumOf(all, &ProfileLine::seconds);
  report["floor_seconds_per_step"] = sumOf(all, &ProfileLine::floor);
  report["floor"] = jsonOf(rates);
  report["reached"] = jsonOf(reached(all));
  report["commands"] = nlohmann::ordered_json::array();
  for (const ProfileLine &line : all)
    report["commands"].push_back({{"command", line.command},
                                  {"kind", line.kind},
                                  {"origin", line.origin},
                                  {"seconds", line.seconds},
                                  {"floor_seconds", line.floor},
                                  {"count", line.count},
                                  {"flops", line.flops},
                                  {"bytes", line.bytes}});
  return toText(report);
}

} // namespace polyrank::runtime
