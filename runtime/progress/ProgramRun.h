// Runs all programs until no rank makes progress, and explains the state at
// that point.

#pragma once

#include "runtime/progress/CheckPrograms.h"

#include <deque>
#include <map>

namespace polyrank::progress {

/// Runs one rank of each class. Members, groups and queues here are those of
/// these ranks only: see CheckPrograms.h.
class ProgramRun {
public:
  explicit ProgramRun(const RankPrograms &ranks);

  /// Runs until no rank makes progress; stops at the first fault that is not a
  /// wait.
  std::optional<Fault> run();
  /// After `run`: explains why ranks wait forever, if some do.
  std::optional<Fault> explainWaiting() const;

  const std::vector<Event> &getOrder() const { return order; }
  int64_t getNumClasses() const { return classes.size(); }

private:
  static constexpr int32_t none = -1;

  /// An ordered group of ranks, with the classes of those that are run.
  struct RankGroup {
    std::vector<int64_t> ranks;
    std::vector<int32_t> members = {};
    std::vector<int32_t> operations = {}; // by number
  };
  /// An operation of a group that some member has started.
  struct Operation {
    int32_t group;
    int64_t number;
    int32_t firstClass;  // the class that started it first,
    size_t firstCommand; // and with which command
    size_t atHead = 0;   // number of members' queues where it is first
    bool isDone = false;
    std::vector<int32_t> waiting = {}; // classes
  };
  struct InFlight {
    int32_t operation;
    /// In a ring, its first place in the group; in `published`, its number of
    /// transfers.
    int64_t begin;
  };
  /// The progress of a rank in one group.
  struct Progress {
    int64_t started = 0, places = 0;
    std::deque<InFlight> ring;
  };
  struct Class {
    int64_t rank;
    int32_t program;
    size_t next = 0; // command
    /// True once the class has started the operation of command `next`.
    bool isStarted = false;
    int32_t waitsFor = none; // operation
    /// By the programs' group number; filled in as they are found.
    std::vector<int32_t> groups = {};
    std::vector<int32_t> operations = {}; // by command
    std::map<int32_t, Progress> progress = {};
    std::map<std::pair<int32_t, int32_t>, std::deque<int32_t>> queues = {};
    std::deque<InFlight> published = {};
    int64_t publishedTransfers = 0;
  };

  const Program &getProgram(const Class &rank) const {
    return ranks.programs[rank.program];
  }
  const Movement &getMovement(const Command &command) const {
    return ranks.movements[command.movement];
  }
  static std::pair<int32_t, int32_t> getQueue(const Command &command,
                                              int32_t group);

  void formClasses();
  std::optional<Fault> checkWaits() const;
  std::optional<Fault> findGroups();
  int32_t getGroup(int64_t rank, int32_t number);

  std::optional<Fault> advance(int32_t number);
  bool hasRoom(Class &rank, const Command &command);
  bool awaits(Class &rank, int32_t operation);
  std::optional<Fault> start(int32_t number);
  void finish(int32_t operation);
  void putAtHead(int32_t operation);

  // The final state as a graph: the nodes are the classes followed by the
  // operations, and each points to what it waits for.
  std::vector<int32_t> getBlockers(int32_t node) const;
  std::vector<int32_t> findShortestCircle() const;
  std::optional<Fault> findMissing() const;
  size_t findCommand(const Class &rank, const Operation &operation) const;
  bool hasStarted(const Class &rank, const Operation &operation) const;
  const std::deque<int32_t> &getQueueOf(const Class &rank,
                                        int32_t operation) const;

  std::string describe(const Class &rank, size_t command) const;
  std::string describeWaiting(const Class &rank) const;
  Fault::Step makeStep(const Class &rank, size_t command,
                       std::string text) const;

  const RankPrograms &ranks;
  std::vector<Class> classes;
  std::map<int64_t, int32_t> classOfRank;
  std::vector<RankGroup> groups;
  /// By ranks and channel.
  std::map<std::pair<std::vector<int64_t>, int64_t>, int32_t> groupOfRanks;
  std::map<std::pair<int64_t, int32_t>, int32_t> groupOfBase;
  std::vector<Operation> operations;
  std::vector<Event> order;
  std::deque<int32_t> ready;   // classes
  std::vector<int32_t> headed; // operations that became first in a queue
};

} // namespace polyrank::progress
