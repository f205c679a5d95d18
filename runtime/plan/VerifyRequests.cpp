// Verifies the commands of a segment in order: no other command conflicts with
// the buffers of a collective in flight until its wait.

#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/CommandBuffers.h"
#include "runtime/plan/CommandText.h"
#include "runtime/plan/Verifier.h"

#include <algorithm>
#include <map>

namespace polyrank::runtime {

using namespace plan;

std::string PlanVerifier::describe(const Command &command) {
  return fmt::format("{}{}{}", nameOf(command), command.origin() ? ", " : "",
                     command.origin() ? command.origin()->str() : "");
}

std::string PlanVerifier::describe(const Segment &segment, uint64_t number) {
  const Command &command = *segment.commands()->Get(number);
  return fmt::format("segment '{}', command {} ({})", segment.name()->str(),
                     number, describe(command));
}

uint64_t PlanVerifier::beginOf(const BufferRef &buffer) const {
  return buffer.offset() - reachOf(buffer, iterations()).back;
}

uint64_t PlanVerifier::endOf(const BufferRef &buffer) const {
  return buffer.offset() + reachOf(buffer, iterations()).ahead +
         buffer.stride() * (placesOf(buffer, plan.microbatches()) - 1) +
         buffer.step() * (blocksOf(buffer) - 1) + buffer.size();
}

/// The collectives in flight at some command of a segment, and their buffers.
class PlanVerifier::InFlight {
public:
  explicit InFlight(const PlanVerifier &verifier) : verifier(verifier) {}

  struct Use {
    uint64_t begin, end; // of all its blocks in all microbatches
    uint64_t longest;    // the largest end up to this one
    const BufferRef *buffer;
    uint32_t request;
    bool isOutput;
  };
  struct Started {
    uint64_t command;
    const Collective *collective; // null once it has been waited for
  };

  /// By request, for all commands so far.
  std::map<uint32_t, Started> requests;

  bool isEmpty() const { return uses[0].empty() && uses[1].empty(); }

  void add(uint32_t request, const Collective &collective) {
    for (const Transfer *transfer : *collective.transfers())
      for (const BufferRef *buffer : {transfer->input(), transfer->output()})
        if (buffer->size())
          usesIn(*buffer).push_back({buffer->offset(), verifier.endOf(*buffer),
                                     0, buffer, request,
                                     buffer == transfer->output()});
    arrange();
  }

  void remove(uint32_t request) {
    for (auto &region : uses)
      std::erase_if(region,
                    [&](const Use &use) { return use.request == request; });
    arrange();
  }

  /// Returns a use by a collective in flight that conflicts with a command that
  /// reads or writes the buffer; null if there is none.
  const Use *findConflict(const BufferRef &buffer, bool writes) {
    auto &region = usesIn(buffer);
    uint64_t begin = verifier.beginOf(buffer), end = verifier.endOf(buffer);
    auto at =
        std::partition_point(region.begin(), region.end(),
                             [&](const Use &use) { return use.begin < end; });
    while (at != region.begin() && (--at)->longest > begin)
      if ((writes || at->isOutput) && verifier.overlap(buffer, *at->buffer))
        return &*at;
    return nullptr;
  }

private:
  std::vector<Use> &usesIn(const BufferRef &buffer) {
    return uses[buffer.region() == Region::Shared];
  }

  void arrange() {
    for (auto &region : uses) {
      std::sort(region.begin(), region.end(),
                [](const Use &a, const Use &b) { return a.begin < b.begin; });
      uint64_t longest = 0;
      for (Use &use : region)
        use.longest = longest = std::max(longest, use.end);
    }
  }

  const PlanVerifier &verifier;
  std::vector<Use> uses[2]; // by region, sorted by begin
};

/// Requires that the command's buffers have been verified.
bool PlanVerifier::verifyRequest(const std::string &what,
                                 const Command &command, InFlight &inFlight) {
  if (const Wait *wait = command.body_as_Wait()) {
    auto started = inFlight.requests.find(wait->request());
    if (started == inFlight.requests.end())
      return fail("{}: waits for request {}, under which no command before it "
                  "has started a collective",
                  what, wait->request());
    if (!started->second.collective)
      return fail("{}: waits for request {} of command {}, which a command "
                  "before it has waited for",
                  what, wait->request(), started->second.command);
    started->second.collective = nullptr;
    inFlight.remove(wait->request());
    return true;
  }
  if (inFlight.isEmpty())
    return true;
  const InFlight::Use *conflict = nullptr;
  const BufferRef *touched = nullptr;
  bool writes = false;
  auto look = [&](const BufferRef &buffer, bool isWritten) {
    if (conflict)
      return;
    conflict = inFlight.findConflict(buffer, isWritten);
    touched = &buffer, writes = isWritten;
  };
  visitBuffers(
      command, [&](const BufferRef &buffer) { look(buffer, false); },
      [&](const BufferRef &buffer, bool) { look(buffer, true); });
  if (!conflict)
    return true;
  return fail("{}: {} {} bytes at offset {}, and the collective of command {} "
              "(request {}), which no command before it has waited for, {} {} "
              "bytes at offset {}",
              what, writes ? "writes" : "reads", touched->size(),
              touched->offset(),
              inFlight.requests.at(conflict->request).command,
              conflict->request, conflict->isOutput ? "writes" : "reads",
              conflict->buffer->size(), conflict->buffer->offset());
}

bool PlanVerifier::verifyPhase(const std::string &what,
                               const Command &command) {
  if (command.phase() < Phase::MIN || command.phase() > Phase::MAX)
    return fail("{}: phase {} does not exist", what, int(command.phase()));
  return true;
}

bool PlanVerifier::verifySegment(const Segment &segment) {
  if (!segment.commands())
    return true;
  InFlight inFlight(*this);
  for (uint64_t number = 0; number < segment.commands()->size(); ++number) {
    const Command &command =
        *segment.commands()->Get(static_cast<uint32_t>(number));
    std::string what = describe(segment, number);
    loop = command.body_as_Loop();
    if (!verifyPhase(what, command) || !verifyCommand(what, command) ||
        !verifyQueue(what, command) || !verifyRequest(what, command, inFlight))
      return false;
    loop = nullptr;
    const Collective *collective = command.body_as_Collective();
    if (!collective || collective->request() == 0)
      continue;
    auto [earlier, isFirst] =
        inFlight.requests.insert({collective->request(), {number, collective}});
    if (!isFirst)
      return fail(
          "{}: starts a collective under request {}, as command {} does", what,
          collective->request(), earlier->second.command);
    inFlight.add(collective->request(), *collective);
  }
  for (auto &[request, started] : inFlight.requests)
    if (started.collective)
      return fail("{}: no command of the segment waits for its request {}",
                  describe(segment, started.command), request);
  return true;
}

} // namespace polyrank::runtime
