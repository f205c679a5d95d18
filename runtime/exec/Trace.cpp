// Writes a trace in the Trace Event Format (complete events and metadata):
// N. Duca, D. Sinclair, Trace Event Format, 2016.

#include "runtime/exec/Trace.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/QueueNames.h"
#include "runtime/plan/Queues.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace polyrank::runtime {
namespace {

/// The most commands of one rank: some 200 MB in the file.
constexpr size_t mostCommands = 1 << 20;
constexpr int computeTrack = 0;

std::string inQuotes(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

/// The description of a command, the same in all its executions.
struct Described {
  std::string name, kind, arguments;            // in JSON
  const plan::Collective *collective = nullptr; // itself, or awaited
  uint32_t request = 0;
  bool isWait = false;
  /// True for a send, or for a receive.
  bool isSend = false, isReceive = false;
  /// For a collective or a transfer: the name of its track, and its bytes.
  std::string track;
  uint64_t bytes = 0;
};

class Writer {
public:
  Writer(const plan::Plan &plan, const Mesh &mesh, int64_t rank,
         const Trace::Sink &sink, int64_t clockOffset)
      : plan(plan), program(*plan.programs()->Get(programOf(plan, mesh, rank))),
        mesh(mesh), rank(rank), sink(sink), clockOffset(clockOffset),
        queues(communicationQueueNames(program, mesh)) {}

  void describe() {
    for (const plan::Segment *segment : *program.segments()) {
      auto &descriptions = segments.emplace_back();
      std::map<uint32_t, const plan::Command *> started;
      if (segment->commands())
        for (const plan::Command *command : *segment->commands()) {
          descriptions.push_back(
              describe(*segment, *command, descriptions.size(), started));
        }
    }
    event("M", computeTrack, "process_name",
          fmt::format("\"args\":{{\"name\":{}}}",
                      inQuotes(mesh.describeRank(rank))));
    event("M", computeTrack, "process_sort_index",
          fmt::format("\"args\":{{\"sort_index\":{}}}", rank));
    nameTrack(computeTrack, "compute");
  }

  const Described &described(uint32_t action, uint32_t command) const {
    return segments[program.schedule()->Get(action)->segment()][command];
  }

  /// Writes a command's slice on the rank's own track.
  void slice(const Described &command, uint64_t step, uint32_t action,
             int64_t begin, int64_t end, const Completion *completion) {
    complete(computeTrack, begin, end, command.name, command.kind,
             fmt::format("{},\"microbatch\":{},\"step\":{}", command.arguments,
                         program.schedule()->Get(action)->microbatch(), step));
    if (!completion || completion->lastStarter == rank)
      return;
    int64_t waited = std::min(end, completion->started);
    if (waited > begin)
      complete(
          computeTrack, begin, waited,
          inQuotes(fmt::format("waits for rank {}", completion->lastStarter)),
          "waiting", fmt::format("\"rank\":{}", completion->lastStarter));
  }

  /// Writes a wait for samples on the rank's own track.
  void waitForInputs(uint64_t step, int64_t begin, int64_t end) {
    complete(computeTrack, begin, end, "\"waits for samples\"", "data",
             fmt::format("\"step\":{}", step));
  }

  /// Writes the flight of a collective or a transfer on a track of its queue.
  void flight(const Described &command, uint64_t step, uint32_t action,
              int64_t begin, const Completion &completion) {
    // A received value was sent earlier, maybe long before.
    if (command.isReceive)
      begin = std::min(begin, completion.started);
    int64_t end = std::max(begin, completion.finished);
    auto &lanes = tracks[command.track];
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane &each) {
      return each.freeAt <= begin;
    });
    if (lane == lanes.end()) {
      lanes.push_back({nextTrack++, 0});
      lane = lanes.end() - 1;
      nameTrack(lane->track,
                lanes.size() == 1
                    ? command.track
                    : fmt::format("{} ({})", command.track, lanes.size()));
    }
    lane->freeAt = end;
    complete(
        lane->track, begin, end,
        inQuotes(command.collective
                     ? plan::EnumNameCollectiveKind(command.collective->kind())
                 : command.isSend ? "send"
                                  : "receive"),
        "in flight",
        fmt::format(
            "{},\"microbatch\":{},\"step\":{},\"bytes\":{},\"last "
            "starter\":{},\"all started after us\":{:.3f},\"last "
            "finisher\":{}",
            command.arguments, program.schedule()->Get(action)->microbatch(),
            step, command.bytes, completion.lastStarter,
            microseconds(completion.started - begin), completion.lastFinisher));
  }

  Result<void> flush(size_t least = 1) {
    if (text.size() < least || !result)
      return result;
    result = sink(text);
    text.clear();
    return result;
  }

private:
  struct Lane {
    int track;
    int64_t freeAt;
  };

  Described describe(const plan::Segment &segment, const plan::Command &command,
                     size_t number,
                     std::map<uint32_t, const plan::Command *> &started) {
    Described result;
    const plan::Command *communicates = nullptr; // itself, or awaited
    std::string what = describeWork(plan, command);
    result.kind = kindOf(command);
    switch (command.body_type()) {
    case plan::CommandBody::Wait:
      result.isWait = true;
      result.request = command.body_as_Wait()->request();
      communicates = started.at(result.request);
      result.collective = communicates->body_as_Collective();
      what =
          fmt::format("wait for {}",
                      plan::EnumNameCollectiveKind(result.collective->kind()));
      break;
    case plan::CommandBody::Send: {
      const plan::Send &send = *command.body_as_Send();
      result.isSend = true;
      result.bytes = send.input()->size();
      communicates = &command;
      break;
    }
    case plan::CommandBody::Receive: {
      const plan::Receive &receive = *command.body_as_Receive();
      result.isReceive = true;
      result.bytes = receive.output()->size();
      communicates = &command;
      break;
    }
    case plan::CommandBody::Collective:
      result.collective = command.body_as_Collective();
      result.request = result.collective->request();
      communicates = &command;
      if (result.request)
        started[result.request] = &command;
      break;
    default: // is computed
      break;
    }
    if (communicates)
      result.track = queues[communicates->queue() - firstCommunicationQueue];
    if (result.collective)
      for (const plan::Transfer *transfer : *result.collective->transfers())
        result.bytes += transfer->input()->size();
    std::string origin = command.origin() ? command.origin()->str() : what;
    result.name = inQuotes(origin);
    result.arguments =
        fmt::format("\"op\":{},\"command\":{},\"phase\":\"{}\",\"segment\":{},"
                    "\"number\":{}",
                    result.name, inQuotes(what), nameOf(command.phase()),
                    inQuotes(segment.name()->str()), number);
    return result;
  }

  static double microseconds(int64_t nanoseconds) {
    return 1e-3 * static_cast<double>(nanoseconds);
  }

  void nameTrack(int track, const std::string &name) {
    event("M", track, "thread_name",
          fmt::format("\"args\":{{\"name\":{}}}", inQuotes(name)));
    event("M", track, "thread_sort_index",
          fmt::format("\"args\":{{\"sort_index\":{}}}", track));
  }

  void event(const char *kind, int track, const char *name,
             const std::string &rest) {
    fmt::format_to(std::back_inserter(text),
                   "{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"name\":\"{}\",{}}}"
                   ",\n",
                   kind, rank, track, name, rest);
  }

  /// Writes nanoseconds as microseconds with three decimals: a double is not
  /// precise enough for the time since the machine started.
  void complete(int track, int64_t begin, int64_t end, const std::string &name,
                const std::string &kind, const std::string &arguments) {
    int64_t length = end - begin, at = begin + clockOffset;
    fmt::format_to(std::back_inserter(text),
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03},"
                   "\"dur\":{}.{:03},\"name\":{},\"cat\":\"{}\",\"args\":{{{}}}"
                   "}},\n",
                   rank, track, at / 1000, at % 1000, length / 1000,
                   length % 1000, name, kind, arguments);
  }

  const plan::Plan &plan;
  const plan::Program &program;
  const Mesh &mesh;
  int64_t rank;
  const Trace::Sink &sink;
  int64_t clockOffset;
  std::vector<std::string> queues; // for communication
  std::vector<std::vector<Described>> segments;
  std::map<std::string, std::vector<Lane>> tracks; // by name
  int nextTrack = computeTrack + 1;
  std::string text;
  Result<void> result;
};

} // namespace

Trace::Trace(const LoadedPlan &plan, int64_t rank)
    : plan(plan),
      program(plan.program(programOf(*plan.plan, Mesh(*plan.plan), rank))),
      mesh(*plan.plan), rank(rank) {
  for (const plan::Action *action : *program.schedule())
    if (const auto *some =
            program.segments()->Get(action->segment())->commands())
      commandsOfStep += some->size();
}

void Trace::beginStep(uint64_t number) {
  step = number;
  isRecording = commands.size() + commandsOfStep <= mostCommands;
  if (!isRecording && leftOut == 0)
    leftOut = number;
}

std::string Trace::prologue(bool rehearsed,
                            const std::vector<std::string> &links,
                            int machines) const {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string &link : links)
    list.push_back(link);
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"plan\":"
                     "\"{}\",\"rehearsed\":{},\"links\":{},\"machines\":{}}},"
                     "\"traceEvents\":[\n",
                     toHex(plan.bytes.hash), rehearsed, list.dump(), machines);
}
// The last event is not followed by a comma.
std::string_view Trace::epilogue() {
  return "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_labels\","
         "\"args\":{\"labels\":\"polyrank-run\"}}\n]}\n";
}

Result<void> Trace::write(const Sink &sink, int64_t clockOffset) const {
  constexpr size_t pieceBytes = 1 << 20;
  Writer writer(*plan.plan, mesh, rank, sink, clockOffset);
  writer.describe();
  std::map<uint32_t, int64_t> starts; // of collectives in flight, by request
  auto wait = inputs.begin();
  for (size_t number = 0; number < commands.size(); ++number) {
    const Record &record = commands[number];
    for (; wait != inputs.end() && wait->before <= number; ++wait)
      writer.waitForInputs(wait->step, wait->begin, wait->end);
    const Described &command = writer.described(record.action, record.command);
    const Completion *completion =
        record.completion < 0 ? nullptr : &completions[record.completion];
    writer.slice(command, record.step, record.action, record.begin, record.end,
                 completion);
    if (completion)
      writer.flight(command, record.step, record.action,
                    command.isWait ? starts.at(command.request) : record.begin,
                    *completion);
    else if (command.collective)
      starts[command.request] = record.begin;
    if (Result<void> written = writer.flush(pieceBytes); !written)
      return written;
  }
  return writer.flush();
}

} // namespace polyrank::runtime
