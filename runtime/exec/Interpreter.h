// Runs the program of one rank: segments in the order of the schedule.

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Links.h"
#include "runtime/exec/Profile.h"
#include "runtime/exec/Rehearsal.h"
#include "runtime/exec/Trace.h"
#include "runtime/plan/PlanMesh.h"

#include <array>
#include <optional>
#include <vector>

namespace polyrank::runtime {

inline constexpr int numCommandKinds = int(plan::CommandBody::MAX) + 1;

/// The time and the number of executed commands, by plan::CommandBody.
struct CommandTimes {
  std::array<uint64_t, numCommandKinds> nanoseconds{}, counts{};

  uint64_t total() const;
  /// The time in collectives, waits, sends and receives.
  uint64_t communication() const;
  /// Communication's share of the time in commands, 0 to 1.
  double communicationShare() const;
};

class Interpreter {
public:
  /// Prepares all commands of the verified `program` for `rank`, which runs it.
  /// Collectives and sends are slowed down to the emulated `links`. A
  /// `rehearsal`, which must outlive this, replaces device and links: arena and
  /// links are not used then.
  static Result<Interpreter> prepare(const plan::Program &program,
                                     uint32_t microbatches, const Mesh &mesh,
                                     int64_t rank, const ArenaView &arena,
                                     Device &device, Transport &transport,
                                     const Links &links = {},
                                     Rehearsal *rehearsal = nullptr);

  /// Runs the schedule once, after the request `latest`, and sets `latest` to
  /// the request of the device's last operation, which may still be running. An
  /// error names the command's origin in the model.
  Result<void> runStep(uint64_t step, Event &latest);

  const CommandTimes &times() const { return measured; }

  /// Measures each command from now on.
  void startProfile(const plan::Program &program) { profiled.emplace(program); }
  const std::optional<Profile> &profile() const { return profiled; }

  /// Records each command from now on, in `trace`, which outlives this.
  void startTrace(Trace &trace) { traced = &trace; }

private:
  struct Command {
    plan::CommandBody kind;
    std::unique_ptr<Operation> operation;
    const plan::Command *source;
    const char *segment;
    /// For a command that ends a collective, or moves a value: its times.
    const Completion *completion = nullptr;
    /// For a loop: its commands; the loop itself has no operation. In a
    /// rehearsal the loop has one operation for all of it.
    std::vector<Command> nested;
  };
  class Preparation;
  /// The position of a profiled command.
  struct ProfilePlace {
    uint32_t segment;
    size_t command;
  };

  Interpreter(Device &device, Transport &transport)
      : device(&device), transport(&transport) {}

  Result<void> issue(const Command &command, uint32_t microbatch,
                     Event &latest);
  Result<void> runLoop(const Command &loop, uint32_t microbatch,
                       const ProfilePlace &place, Event &latest);
  Result<void> enqueue(const Command &command, Invocation invocation,
                       Event &latest);

  Device *device;
  Transport *transport;
  std::vector<std::vector<Command>> segments;
  std::vector<plan::Action> schedule;
  CommandTimes measured;
  std::optional<Profile> profiled;
  Trace *traced = nullptr;
  Rehearsal *rehearsal = nullptr;
};

} // namespace polyrank::runtime
