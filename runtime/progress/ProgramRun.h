// The run of all programs up to where no rank gets on, and its state there.

#pragma once

#include "runtime/progress/CheckPrograms.h"

#include <deque>
#include <map>

namespace polyrank::progress {

/// Runs one rank of each class. Members, groups and queues are those of these
/// ranks: see CheckPrograms.h.
class ProgramRun {
public:
  explicit ProgramRun(const RankPrograms &ranks);

  /// Runs until nobody gets on; stops at the first fault that is no waiting.
  std::optional<Fault> run();
  /// After `run`: why ranks wait without end, if some do.
  std::optional<Fault> explainWaiting() const;

  const std::vector<Event> &getOrder() const { return order; }
  int64_t getNumClasses() const { return classes.size(); }

private:
  static constexpr int32_t none = -1;

  /// Ranks in an order, and the classes of those that are run.
  struct RankGroup {
    std::vector<int64_t> ranks;
    std::vector<int32_t> members = {};
    std::vector<int32_t> operations = {}; // by number
  };
  /// An operation of a group that some member has started.
  struct Operation {
    int32_t group;
    int64_t number;
    int32_t firstClass;  // who started it first,
    size_t firstCommand; // and with which command
    size_t atHead = 0;   // in how many members' queues it is first
    bool isDone = false;
    std::vector<int32_t> waiting = {}; // classes
  };
  struct InFlight {
    int32_t operation;
    int64_t begin; // its first place in the group, or how many transfers
  };
  /// What a rank did in one group.
  struct Progress {
    int64_t started = 0, places = 0;
    std::deque<InFlight> ring;
  };
  struct Class {
    int64_t rank;
    int32_t program;
    size_t next = 0; // command
    /// Whether that has started what it starts.
    bool isStarted = false;
    int32_t waitsFor = none;              // operation
    std::vector<int32_t> groups = {};     // by group of the programs, as found
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

  // The state where nobody gets on, as a graph: classes, and behind these
  // operations, point to what they wait for.
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
  std::vector<int32_t> headed; // operations that became first somewhere
};

} // namespace polyrank::progress
