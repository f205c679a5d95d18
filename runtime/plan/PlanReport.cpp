// Walks a verified plan and collects the report.

#include "runtime/plan/PlanReport.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/Enums.h"
#include "runtime/plan/LearningRates.h"
#include "runtime/plan/Occupancy.h"
#include "runtime/plan/ProgramChannels.h"
#include "runtime/plan/StepTimeline.h"
#include "support/ElementType.h"
#include "support/Json.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <type_traits>

namespace polyrank::runtime {
namespace {

std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : "";
}

/// The larger of input and output; for a halo exchange, the borders.
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

void addArguments(const LoadedPlan &plan, const plan::Program &program,
                  const Mesh &mesh, std::set<std::string> &seen,
                  ProgramReport &own, PlanReport &report) {
  for (const plan::Argument *argument : *program.arguments()) {
    bool isNew = seen.insert(argument->name()->str()).second;
    if (argument->role() == plan::Role::LearningRate && isNew)
      report.learningRates.push_back(LearningRates::nameOf(*argument));
    bool parameter = argument->role() == plan::Role::Parameter;
    if (!parameter && argument->role() != plan::Role::State)
      continue;
    HeldArgument held;
    held.place = own.place;
    held.name = argument->name()->str();
    held.dtype = nameOf(ElementType(argument->dtype()));
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
    (parameter ? own.parameterBytes : own.stateBytes) += held.bytes;
    if (parameter)
      own.parameterElements += held.elements;
    if (parameter && isNew)
      report.parameterElements += held.elements;
    report.held.push_back(std::move(held));
  }
}

ImageLine lineOf(const plan::Image &image) {
  const plan::Requirements &needs = *image.requirements();
  ImageLine line{image.target()->str(),
                 plan::EnumNameImageFormat(image.format()),
                 textOf(needs.machine()),
                 {},
                 image.bytes() ? image.bytes()->size() : 0};
  if (needs.features())
    for (const auto *feature : *needs.features())
      line.features.push_back(feature->str());
  return line;
}

class CommandCounter {
public:
  CommandCounter(const plan::Plan &plan, const Mesh &mesh, PlanReport &report)
      : mesh(mesh), report(report) {
    for (const plan::Image *image : *plan.images())
      if (firstKernel
              .try_emplace(image->target()->string_view(),
                           report.kernels.size())
              .second)
        for (const auto *symbol : *image->symbols())
          report.kernels.push_back({symbol->str()});
    for (const plan::Image *image : *plan.images())
      if (image->entries())
        addEntries(*image);
  }

  void count(const plan::Program &counted, ProgramReport &of) {
    source = &counted, own = &of;
    const plan::Program &program = *source;
    std::vector<uint64_t> executions(program.segments()->size());
    for (const plan::Action *action : *program.schedule())
      ++executions[action->segment()];
    for (uint32_t s = 0; s < program.segments()->size(); ++s) {
      const plan::Segment &segment = *program.segments()->Get(s);
      if (segment.commands())
        for (const plan::Command *command : *segment.commands())
          add(segment, *command, executions[s]);
    }
  }

  void finish() {
    for (KernelLine &kernel : report.kernels)
      for (KernelCode &code : kernel.code)
        if (uint64_t resident = multiprocessors * code.residentBlocks)
          code.waves = double(kernel.blocks) / double(resident);
    for (auto &[key, line] : lines)
      report.communication.push_back(line);
    std::sort(report.communication.begin(), report.communication.end(),
              [](const auto &a, const auto &b) {
                return std::tie(b.sent, a.axes, a.kind, a.segment, a.place,
                                a.type) < std::tie(a.sent, b.axes, b.kind,
                                                   b.segment, b.place, b.type);
              });
  }

private:
  void addEntries(const plan::Image &image) {
    uint64_t first = firstKernel.at(image.target()->string_view());
    for (uint32_t i = 0; i < image.entries()->size(); ++i) {
      const plan::Entry &entry = *image.entries()->Get(i);
      KernelLine &kernel = report.kernels[first + i];
      kernel.kind = textOf(entry.kind());
      kernel.threads = entry.threads();
      kernel.sharedBytes = entry.shared_bytes();
      kernel.requestedBytes = entry.requested_bytes();
      KernelCode &code = kernel.code.emplace_back();
      code.machine = textOf(image.requirements()->machine());
      code.format = plan::EnumNameImageFormat(image.format());
      code.registers = entry.registers();
      code.spilledBytes = entry.spilled_bytes();
      code.stackBytes = entry.stack_bytes();
      code.residentBlocks =
          residentBlocks(code.machine, {entry.threads(), entry.shared_bytes(),
                                        entry.registers()});
      code.bytesInFlight =
          code.residentBlocks * entry.threads() * entry.loaded_bytes();
    }
  }

  void add(const plan::Segment &segment, const plan::Command &command,
           uint64_t executions) {
    switch (command.body_type()) {
    case plan::CommandBody::Launch: {
      const plan::Launch &launch = *command.body_as_Launch();
      own->launches += executions;
      KernelLine &kernel =
          report.kernels[firstKernel.at(source->target()->string_view()) +
                         launch.kernel()];
      kernel.launches += executions;
      kernel.bytes = launch.bytes();
      if (const plan::CudaLaunch *body = launch.body_as_CudaLaunch())
        kernel.blocks = uint64_t(body->blocks());
      return;
    }
    case plan::CommandBody::Call: {
      const plan::Call &call = *command.body_as_Call();
      CallCount &counted = own->calls[size_t(call.kind())];
      counted.calls += executions;
      counted.flops += call.flops() * executions;
      own->libraryBytesPerThread =
          std::max(own->libraryBytesPerThread, call.library_bytes());
      return;
    }
    case plan::CommandBody::Copy:
      own->copies += executions;
      return;
    case plan::CommandBody::Loop:
      own->loops += executions;
      for (const plan::Command *each : *command.body_as_Loop()->commands())
        add(segment, *each, executions * command.body_as_Loop()->count());
      return;
    case plan::CommandBody::Collective:
      return add(segment, command, *command.body_as_Collective(), executions);
    case plan::CommandBody::Send: {
      const plan::Send &send = *command.body_as_Send();
      own->sends += executions;
      addTransfer(segment, command, "Send", send, send.input()->size(),
                  executions);
      return;
    }
    case plan::CommandBody::Receive: {
      const plan::Receive &receive = *command.body_as_Receive();
      own->receives += executions;
      addTransfer(segment, command, "Receive", receive,
                  receive.output()->size(), executions);
      return;
    }
    case plan::CommandBody::Wait: // counted where it was started
    case plan::CommandBody::NONE:
      return;
    }
  }

  void add(const plan::Segment &segment, const plan::Command &command,
           const plan::Collective &collective, uint64_t executions) {
    const AxisRefs *refs = source->groups()->Get(collective.group())->axes();
    std::string kind = plan::EnumNameCollectiveKind(collective.kind());
    int64_t group = Mesh::groupSize(refs);
    uint64_t payload = payloadOf(collective);
    CommunicationLine &line =
        lineOf(kind, refs, segment, nameOf(ElementType(collective.dtype())));
    line.count += executions;
    line.started += collective.request() ? executions : 0;
    line.payload += payload * executions;
    line.sent += sentOf(collective, group) * executions;
    addReason(segment, command, line, refs, collective.why(), payload,
              executions);
  }

  /// Adds a send or a receive; only the send has a reason.
  template <typename End>
  void addTransfer(const plan::Segment &segment, const plan::Command &command,
                   const char *kind, const End &end, uint64_t bytes,
                   uint64_t executions) {
    const AxisRefs *refs = source->groups()->Get(end.group())->axes();
    bool sends = std::is_same_v<End, plan::Send>;
    CommunicationLine &line = lineOf(kind, refs, segment, "");
    line.count += executions;
    line.payload += bytes * executions;
    line.sent += sends ? bytes * executions : 0;
    if (sends)
      addReason(segment, command, line, refs, end.why(), bytes, executions);
  }

  CommunicationLine &lineOf(const std::string &kind, const AxisRefs *refs,
                            const plan::Segment &segment,
                            const std::string &type) {
    std::string axes = mesh.describe(refs);
    CommunicationLine &line =
        lines[{axes, kind, segment.name()->str(), own->place, type}];
    line.type = type;
    line.place = own->place;
    line.kind = kind, line.axes = axes, line.segment = segment.name()->str();
    line.groupSize = Mesh::groupSize(refs);
    return line;
  }

  void addReason(const plan::Segment &segment, const plan::Command &command,
                 const CommunicationLine &line, const AxisRefs *refs,
                 uint32_t number, uint64_t bytes, uint64_t executions) {
    CollectiveReason reason;
    reason.place = own->place;
    reason.kind = line.kind, reason.type = line.type;
    reason.axes = mesh.describe(refs);
    reason.segment = segment.name()->str();
    reason.origin = textOf(command.origin());
    reason.bytes = bytes;
    reason.executions = executions;
    if (source->reasons() && number < source->reasons()->size()) {
      const plan::Reason &why = *source->reasons()->Get(number);
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

  const Mesh &mesh;
  PlanReport &report;
  const plan::Program *source = nullptr; // being counted
  ProgramReport *own = nullptr;
  /// By target, the number of its first kernel in the report.
  std::map<std::string_view, size_t> firstKernel;
  /// By axes, kind, segment, place and type.
  std::map<std::array<std::string, 5>, CommunicationLine> lines;
};

} // namespace

PlanReport reportOf(const LoadedPlan &loaded) {
  const plan::Plan &plan = *loaded.plan;
  Mesh mesh(plan);
  PlanReport report;
  report.hash = toHex(loaded.bytes.hash);
  report.model = textOf(plan.model());
  report.compiler = textOf(plan.compiler());
  report.machine = textOf(plan.machine());
  report.mode = plan.mode() == plan::Mode::Train ? "train" : "forward";
  for (int64_t axis = 0; axis < mesh.axes(); ++axis)
    report.mesh += fmt::format("{}{}={}", axis ? "," : "", mesh.name(axis),
                               mesh.size(axis));
  report.microbatches = plan.microbatches();
  report.samplesPerStep = plan.samples_per_step();
  report.tokensPerSample = plan.tokens_per_sample();
  report.denormals = plan::EnumNameDenormals(plan.denormals());
  for (const plan::Image *image : *plan.images())
    report.images.push_back(lineOf(*image));
  if (const auto *tensors = plan.stored())
    for (const plan::StoredTensor *stored : *tensors)
      if (const plan::FileSpan *source = stored->source())
        report.weightFiles.insert(source->path()->str());
  report.learningRate = plan.learning_rate();
  report.schedule =
      plan.lr_schedule() ? textOf(plan.lr_schedule()) : "constant";
  PlanTimeline planned = planTimelineOf(loaded);
  auto secondsOf = [](int64_t picoseconds) {
    return 1e-12 * static_cast<double>(picoseconds);
  };
  report.stepSeconds = secondsOf(planned.makespan);
  CommandCounter counter(plan, mesh, report);
  std::set<std::string> names;
  int64_t elements = 0;
  for (uint32_t number = 0; number < loaded.programs(); ++number) {
    const plan::Program &program = loaded.program(number);
    ProgramReport own;
    own.place = describePlaces(mesh, program.at());
    own.ranks = ranksOf(mesh, program.at());
    own.threads = plan.threads();
    own.sharedBytes = program.shared_size();
    own.privateBytes = program.private_size();
    own.channelBytes = channelBytesOf(program).value(); // it is verified
    own.lowerBound = program.memory_lower_bound() + own.channelBytes;
    own.computeSeconds = secondsOf(planned.programs[number].computation);
    own.idleSeconds = secondsOf(planned.idle(number));
    MemoryTimeline timeline = timelineOf(loaded, number);
    own.memory = usesOf(timeline);
    own.peak = peakOf(timeline);
    for (const plan::Output *output : *program.outputs())
      if (output->geometric())
        report.geometricMetrics.insert(output->name()->str());
    addArguments(loaded, program, mesh, names, own, report);
    counter.count(program, own);
    report.programs.push_back(std::move(own));
  }
  counter.finish();
  elements = report.parameterElements;
  static_cast<ProgramReport &>(report) =
      *std::max_element(report.programs.begin(), report.programs.end(),
                        [](const ProgramReport &a, const ProgramReport &b) {
                          return a.valueBytes() < b.valueBytes();
                        });
  report.ranks = mesh.ranks();
  report.parameterElements = elements;
  if (loaded.programs() > 1)
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      report.programNumbers.push_back(programOf(plan, mesh, rank));
  return report;
}

CallCount ProgramReport::allCalls() const {
  CallCount all;
  for (const CallCount &each : calls) {
    all.calls += each.calls;
    all.flops += each.flops;
  }
  return all;
}

namespace {

/// Adds the calls of each kind, under its name.
void addCalls(nlohmann::ordered_json &json, const ProgramReport &report) {
  for (plan::CallKind kind : plan::EnumValuesCallKind()) {
    const CallCount &counted = report.calls[size_t(kind)];
    std::string name = plan::EnumNameCallKind(kind);
    json[name] = counted.calls;
    json[name + "_flops"] = counted.flops;
  }
}

nlohmann::ordered_json toJson(const ProgramReport &report) {
  using json = nlohmann::ordered_json;
  json result{{"at", report.place},
              {"ranks", report.ranks},
              {"shared", report.sharedBytes},
              {"private", report.privateBytes},
              {"channels", report.channelBytes},
              {"total", report.valueBytes()},
              {"lower_bound", report.lowerBound},
              {"library", report.libraryBytes()},
              {"parameters", report.parameterBytes},
              {"parameter_elements", report.parameterElements},
              {"state", report.stateBytes},
              {"peak", report.peak.bytes},
              {"launch", report.launches},
              {"copy", report.copies},
              {"loop", report.loops},
              {"send", report.sends},
              {"receive", report.receives},
              {"compute_seconds", report.computeSeconds},
              {"idle_seconds", report.idleSeconds}};
  addCalls(result, report);
  return result;
}

} // namespace

static nlohmann::ordered_json toJson(const KernelLine &kernel) {
  nlohmann::ordered_json json = {{"symbol", kernel.symbol},
                                 {"launches", kernel.launches}};
  if (kernel.code.empty())
    return json;
  json["kind"] = kernel.kind;
  json["blocks"] = kernel.blocks;
  json["threads"] = kernel.threads;
  json["shared_bytes"] = kernel.sharedBytes;
  json["bytes"] = kernel.bytes;
  json["requested_bytes"] = kernel.requestedBytes;
  for (const KernelCode &code : kernel.code)
    json["code"].push_back({{"machine", code.machine},
                            {"format", code.format},
                            {"registers", code.registers},
                            {"spilled_bytes", code.spilledBytes},
                            {"stack_bytes", code.stackBytes},
                            {"resident_blocks", code.residentBlocks},
                            {"waves", code.waves},
                            {"bytes_in_flight", code.bytesInFlight}});
  return json;
}

nlohmann::ordered_json toJson(const PlanReport &report) {
  using json = nlohmann::ordered_json;
  json held = json::array(), memory = json::array(),
       communication = json::array(), reasons = json::array(),
       images = json::array(), kernels = json::array(),
       programs = json::array();
  for (const ProgramReport &program : report.programs)
    programs.push_back(toJson(program));
  for (const HeldArgument &argument : report.held) {
    json entry{{"at", argument.place},
               {"name", argument.name},
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
    communication.push_back({{"at", line.place},
                             {"kind", line.kind},
                             {"axes", line.axes},
                             {"segment", line.segment},
                             {"type", line.type},
                             {"group_size", line.groupSize},
                             {"count", line.count},
                             {"bytes", line.payload},
                             {"sent_bytes", line.sent},
                             {"started", line.started}});
  for (const CollectiveReason &reason : report.reasons)
    reasons.push_back({{"at", reason.place},
                       {"kind", reason.kind},
                       {"axes", reason.axes},
                       {"segment", reason.segment},
                       {"origin", reason.origin},
                       {"value", reason.value},
                       {"op", reason.op},
                       {"from", reason.from},
                       {"to", reason.to},
                       {"constraint", reason.constraint},
                       {"members", reason.members},
                       {"type", reason.type},
                       {"bytes", reason.bytes},
                       {"executions", reason.executions}});
  for (const ImageLine &image : report.images)
    images.push_back({{"target", image.target},
                      {"format", image.format},
                      {"machine", image.machine},
                      {"features", image.features},
                      {"bytes", image.bytes}});
  for (const KernelLine &kernel : report.kernels)
    kernels.push_back(toJson(kernel));
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
  json commands{{"launch", report.launches},
                {"copy", report.copies},
                {"loop", report.loops}};
  addCalls(commands, report);
  json result = newReport("plan", 2);
  result.update(json{{"model", report.model},
                     {"hash", report.hash},
                     {"compiler", report.compiler},
                     {"machine", report.machine},
                     {"mode", report.mode},
                     {"mesh", report.mesh},
                     {"ranks", report.ranks},
                     {"microbatches", report.microbatches},
                     {"threads", report.threads},
                     {"samples_per_step", report.samplesPerStep},
                     {"tokens_per_sample", report.tokensPerSample},
                     {"denormals", report.denormals},
                     {"images", images},
                     {"weight_files", report.weightFiles},
                     {"parameters", report.parameterElements},
                     {"learning_rate", rate},
                     {"memory_per_rank",
                      {{"shared", report.sharedBytes},
                       {"private", report.privateBytes},
                       {"channels", report.channelBytes},
                       {"total", report.valueBytes()},
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
                     {"seconds_per_step", report.stepSeconds},
                     {"programs", programs},
                     {"held", held},
                     {"communication", communication},
                     {"collectives", reasons},
                     {"kernels", kernels},
                     {"commands_per_step", commands}});
  return result;
}

std::string describeCommand(const plan::Program &program, uint32_t number) {
  uint32_t before = 0;
  for (const plan::Action *action : *program.schedule()) {
    const plan::Segment &segment = *program.segments()->Get(action->segment());
    uint32_t count = segment.commands() ? segment.commands()->size() : 0;
    if (number - before >= count) {
      before += count;
      continue;
    }
    const plan::Command &command = *segment.commands()->Get(number - before);
    return fmt::format(
        "segment '{}', {} (command {})", segment.name()->str(),
        command.origin() ? command.origin()->str() : nameOf(command), number);
  }
  return fmt::format("command {}", number);
}

} // namespace polyrank::runtime
