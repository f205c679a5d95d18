// Walks a verified plan and counts.

#include "runtime/plan/PlanReport.h"

#include "runtime/plan/Enums.h"
#include "runtime/plan/LearningRates.h"
#include "support/DType.h"
#include "support/Json.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace polyrank::runtime {
namespace {

std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : "";
}

/// The larger of input and output; of an exchange of borders, the borders.
uint64_t payloadOf(const plan::Collective &collective) {
  bool hasBorders = ruleOf(kindOf(collective.kind())).hasBorders();
  uint64_t bytes = 0;
  for (const plan::Transfer *transfer : *collective.transfers()) {
    uint64_t input = transfer->input()->size();
    uint64_t output = transfer->output()->size();
    auto [small, large] = std::minmax(input, output);
    bytes += hasBorders ? large - small : large;
  }
  return bytes;
}

uint64_t sentOf(const plan::Collective &collective, int64_t group) {
  uint64_t bytes = 0;
  for (const plan::Transfer *transfer : *collective.transfers())
    bytes += sentBytes(kindOf(collective.kind()), group,
                       transfer->input()->size(), transfer->output()->size());
  return bytes;
}

void addArguments(const LoadedPlan &plan, const Mesh &mesh,
                  PlanReport &report) {
  for (const plan::Argument *argument : *plan.program().arguments()) {
    if (argument->role() == plan::Role::LearningRate)
      report.learningRates.push_back(LearningRates::nameOf(*argument));
    bool parameter = argument->role() == plan::Role::Parameter;
    if (!parameter && argument->role() != plan::Role::State)
      continue;
    HeldArgument held;
    held.name = argument->name()->str();
    held.dtype = nameOf(DType(argument->dtype()));
    held.layout = describeLayout(mesh, argument->dims());
    if (argument->view())
      held.stored =
          plan.plan->stored()->Get(argument->view()->stored())->name()->str();
    held.stateOf = textOf(argument->state_of());
    held.isParameter = parameter;
    held.trainable = argument->trainable();
    held.bytes = argument->buffer()->size();
    held.elements = 1;
    if (argument->dims())
      for (const plan::Dim *dim : *argument->dims())
        held.elements *= dim->size();
    (parameter ? report.parameterBytes : report.stateBytes) += held.bytes;
    if (parameter)
      report.parameterElements += held.elements;
    report.held.push_back(std::move(held));
  }
}

class CommandCounter {
public:
  CommandCounter(const LoadedPlan &plan, const Mesh &mesh, PlanReport &report)
      : plan(plan), mesh(mesh), report(report) {
    if (const auto *symbols = plan.plan->kernels()->symbols())
      for (const auto *symbol : *symbols)
        report.kernels.push_back({symbol->str(), 0});
  }

  void count() {
    const plan::Program &program = plan.program();
    std::vector<uint64_t> executions(program.segments()->size());
    for (const plan::Action *action : *program.schedule())
      ++executions[action->segment()];
    for (uint32_t s = 0; s < program.segments()->size(); ++s) {
      const plan::Segment &segment = *program.segments()->Get(s);
      if (segment.commands())
        for (const plan::Command *command : *segment.commands())
          add(segment, *command, executions[s]);
    }
    for (auto &[key, line] : lines)
      report.communication.push_back(line);
    std::sort(report.communication.begin(), report.communication.end(),
              [](const auto &a, const auto &b) {
                return std::tie(b.sent, a.axes, a.kind, a.segment) <
                       std::tie(a.sent, b.axes, b.kind, b.segment);
              });
  }

private:
  void add(const plan::Segment &segment, const plan::Command &command,
           uint64_t executions) {
    switch (command.body_type()) {
    case plan::CommandBody::Launch:
      report.launches += executions;
      report.kernels[command.body_as_Launch()->kernel()].launches += executions;
      return;
    case plan::CommandBody::Gemm:
      report.gemms += executions;
      if (command.body_as_Gemm()->implementation() ==
          plan::GemmImplementation::Sgemm)
        report.sgemms += executions;
      report.gemmFlops += command.body_as_Gemm()->flops() * executions;
      return;
    case plan::CommandBody::Copy:
      report.copies += executions;
      return;
    case plan::CommandBody::Collective:
      return add(segment, command, *command.body_as_Collective(), executions);
    case plan::CommandBody::Wait: // counted where it was started
    case plan::CommandBody::NONE:
      return;
    }
  }

  void add(const plan::Segment &segment, const plan::Command &command,
           const plan::Collective &collective, uint64_t executions) {
    const plan::Program &program = plan.program();
    const AxisRefs *refs = program.groups()->Get(collective.group())->axes();
    std::string kind = plan::EnumNameCollectiveKind(collective.kind());
    std::string axes = mesh.describe(refs);
    int64_t group = Mesh::groupSize(refs);
    uint64_t payload = payloadOf(collective);
    CommunicationLine &line = lines[{axes, kind, segment.name()->str()}];
    line.kind = kind, line.axes = axes, line.segment = segment.name()->str();
    line.groupSize = group;
    line.count += executions;
    line.started += collective.ticket() ? executions : 0;
    line.payload += payload * executions;
    line.sent += sentOf(collective, group) * executions;

    CollectiveReason reason;
    reason.kind = kind, reason.axes = axes;
    reason.segment = segment.name()->str();
    reason.origin = textOf(command.origin());
    reason.bytes = payload;
    reason.executions = executions;
    if (program.reasons() && collective.why() < program.reasons()->size()) {
      const plan::Reason &why = *program.reasons()->Get(collective.why());
      reason.value = textOf(why.value()), reason.op = textOf(why.op());
      reason.from = textOf(why.from_layout());
      reason.to = textOf(why.to_layout());
      reason.constraint = textOf(why.constraint());
      if (why.members())
        for (const flatbuffers::String *member : *why.members())
          reason.members.push_back(member->str());
    }
    report.reasons.push_back(std::move(reason));
  }

  const LoadedPlan &plan;
  const Mesh &mesh;
  PlanReport &report;
  std::map<std::tuple<std::string, std::string, std::string>, CommunicationLine>
      lines;
};

} // namespace

PlanReport reportOf(const LoadedPlan &loaded) {
  const plan::Plan &plan = *loaded.plan;
  const plan::Program &program = loaded.program();
  Mesh mesh(plan);
  PlanReport report;
  report.hash = toHex(loaded.bytes.hash);
  report.model = textOf(plan.model());
  report.compiler = textOf(plan.compiler());
  report.mode = plan.mode() == plan::Mode::Train ? "train" : "forward";
  for (int64_t axis = 0; axis < mesh.axes(); ++axis)
    report.mesh += fmt::format("{}{}={}", axis ? "," : "", mesh.name(axis),
                               mesh.size(axis));
  report.ranks = mesh.ranks();
  report.microbatches = plan.microbatches();
  report.threads = plan.threads();
  report.samplesPerStep = plan.samples_per_step();
  report.tokensPerSample = plan.tokens_per_sample();
  report.sharedBytes = program.shared_size();
  report.privateBytes = program.private_size();
  report.lowerBound = program.memory_lower_bound();
  report.cpu = textOf(plan.kernels()->cpu());
  report.learningRate = plan.learning_rate();
  report.schedule =
      plan.lr_schedule() ? textOf(plan.lr_schedule()) : "constant";
  for (const plan::Output *output : *program.outputs())
    if (output->geometric())
      report.geometricMetrics.insert(output->name()->str());
  MemoryTimeline timeline = timelineOf(loaded);
  report.memory = usesOf(timeline);
  report.peak = peakOf(timeline);
  addArguments(loaded, mesh, report);
  CommandCounter(loaded, mesh, report).count();
  return report;
}

nlohmann::ordered_json toJson(const PlanReport &report) {
  using json = nlohmann::ordered_json;
  json held = json::array(), memory = json::array(),
       communication = json::array(), reasons = json::array(),
       kernels = json::array();
  for (const HeldArgument &argument : report.held) {
    json entry{{"name", argument.name},
               {"dtype", argument.dtype},
               {"layout", argument.layout},
               {"bytes_per_rank", argument.bytes},
               {"elements", argument.elements},
               {"kind", argument.isParameter ? "parameter" : "state"},
               {"trainable", argument.trainable}};
    if (!argument.stored.empty())
      entry["stored"] = argument.stored;
    if (!argument.stateOf.empty())
      entry["state_of"] = argument.stateOf;
    held.push_back(std::move(entry));
  }
  for (int use = 0; use < numMemoryUses; ++use)
    memory.push_back({{"kind", nameOf(MemoryUse(use))},
                      {"bytes", report.memory[use].atPeak},
                      {"most", report.memory[use].most}});
  memory.push_back({{"kind", "unused"},
                    {"bytes", report.unusedBytes()},
                    {"most", report.unusedBytes()}});
  for (const CommunicationLine &line : report.communication)
    communication.push_back({{"kind", line.kind},
                             {"axes", line.axes},
                             {"segment", line.segment},
                             {"group_size", line.groupSize},
                             {"count", line.count},
                             {"bytes", line.payload},
                             {"sent_bytes", line.sent},
                             {"started", line.started}});
  for (const CollectiveReason &reason : report.reasons)
    reasons.push_back({{"kind", reason.kind},
                       {"axes", reason.axes},
                       {"segment", reason.segment},
                       {"origin", reason.origin},
                       {"value", reason.value},
                       {"op", reason.op},
                       {"from", reason.from},
                       {"to", reason.to},
                       {"constraint", reason.constraint},
                       {"members", reason.members},
                       {"bytes", reason.bytes},
                       {"executions", reason.executions}});
  for (const KernelLine &kernel : report.kernels)
    kernels.push_back(
        {{"symbol", kernel.symbol}, {"launches", kernel.launches}});
  json peak = json::array();
  for (const PeakReport::Line &line : report.peak.lines)
    peak.push_back({{"written_by", line.kind},
                    {"module", line.module},
                    {"bytes", line.bytes}});
  json rate;
  if (!report.learningRates.empty())
    rate = {{"base", report.learningRate},
            {"schedule", report.schedule},
            {"rates", report.learningRates}};
  json result = newReport("plan");
  result.update(json{{"model", report.model},
                     {"hash", report.hash},
                     {"compiler", report.compiler},
                     {"mode", report.mode},
                     {"mesh", report.mesh},
                     {"ranks", report.ranks},
                     {"microbatches", report.microbatches},
                     {"threads", report.threads},
                     {"samples_per_step", report.samplesPerStep},
                     {"tokens_per_sample", report.tokensPerSample},
                     {"cpu", report.cpu},
                     {"parameters", report.parameterElements},
                     {"learning_rate", rate},
                     {"memory_per_rank",
                      {{"shared", report.sharedBytes},
                       {"private", report.privateBytes},
                       {"total", report.sharedBytes + report.privateBytes},
                       {"lower_bound", report.lowerBound},
                       {"library", report.libraryBytes()},
                       {"program", programBytes},
                       {"parameters", report.parameterBytes},
                       {"state", report.stateBytes},
                       {"by_kind", memory},
                       {"peak",
                        {{"bytes", report.peak.bytes},
                         {"segment", report.peak.segment},
                         {"origin", report.peak.origin},
                         {"phase", report.peak.phase},
                         {"held", peak}}}}},
                     {"held", held},
                     {"communication", communication},
                     {"collectives", reasons},
                     {"kernels", kernels},
                     {"commands_per_step",
                      {{"launch", report.launches},
                       {"gemm", report.gemms},
                       {"copy", report.copies},
                       {"gemm_flops", report.gemmFlops}}}});
  return result;
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  double value = bytes;
  const char *unit = "B";
  for (const char *next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, unit);
}

std::string describeCommand(const plan::Plan &plan, uint32_t number) {
  const plan::Program &program = *plan.programs()->Get(0);
  uint32_t before = 0;
  for (const plan::Action *action : *program.schedule()) {
    const plan::Segment &segment =
        *program.segments()->Get(action->segment());
    uint32_t count = segment.commands() ? segment.commands()->size() : 0;
    if (number - before >= count) {
      before += count;
      continue;
    }
    const plan::Command &command = *segment.commands()->Get(number - before);
    return fmt::format("segment '{}', {} (command {})", segment.name()->str(),
                       command.origin()
                           ? command.origin()->str()
                           : plan::EnumNameCommandBody(command.body_type()),
                       number);
  }
  return fmt::format("command {}", number);
}

} // namespace polyrank::runtime
