// What crosses from machine to machine in a step, if several machines share the
// ranks of a plan.

#pragma once

#include "runtime/plan/Collectives.h"
#include "runtime/plan/VerifyPlan.h"
#include "support/ElementType.h"
#include "support/Json.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The bytes that leave machines in one step, as docs/wire.md says what is sent
/// where; headers and the messages that start an operation are not counted.
/// Machine m runs the ranks from m * ranksOfEach on.
struct MachineTraffic {
  /// All executions of one kind of communication over one set of axes.
  struct Line {
    std::string kind, axes;
    std::string type;        // of the elements; empty for sends
    uint64_t operations = 0; // with ranks on more than one machine
    uint64_t bytes = 0;      // out of all machines together
    uint64_t most = 0;       // out of the machine of which most goes out
  };

  int64_t machines = 1, ranksOfEach = 1;
  std::vector<Line> lines; // largest first; only what crosses machines
  /// By machine: the bytes that leave it.
  std::vector<uint64_t> out;

  uint64_t bytes() const;
  /// The machine out of which most goes, the first of several.
  int64_t busiest() const;
};

/// Counts what crosses machines. Fails if the ranks of the plan cannot be
/// shared out evenly over so many machines.
Result<MachineTraffic> machineTrafficOf(const LoadedPlan &plan,
                                        int64_t machines);

/// The traffic as a table of text.
std::string describe(const MachineTraffic &traffic);
/// The object "machines" of the report "plan" of docs/reports.md.
nlohmann::ordered_json toJson(const MachineTraffic &traffic);

/// The transfers of a collective.
struct MovedTransfers {
  CollectiveKind kind{};
  ElementType type = ElementType::F32;
  std::vector<TransferShape> shapes;
  /// The member that each member of a permute reads from.
  std::span<const int32_t> sources;
};

/// A collective in a group of which member m is on machine `machines[m]`: adds
/// the bytes that leave each machine to `out`, which has a number for each
/// machine.
void addCrossing(const MovedTransfers &moved, std::span<const int64_t> machines,
                 std::span<uint64_t> out);

} // namespace polyrank::runtime
