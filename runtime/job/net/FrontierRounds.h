// Lets the ranks of all machines end after the same step.
//
// `JobMember::mayBegin` is one look at the page of its machine, so a machine
// may not decide alone how far its ranks go. The coordinator asks all machines
// to hold: no rank there begins a step that none has begun, and each machine
// answers how far its ranks are. The largest answer is the step after which all
// stop; nobody can have begun a later one. Then each machine opens its frontier
// up to there.
//
// Orders and answers are states, not events: both are sent again with every
// pulse, so that one that is lost or comes twice changes nothing.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace polyrank::runtime::net {

/// An order of the coordinator to a machine.
struct FrontierOrder {
  enum class Phase : uint32_t {
    Free, // nothing
    Hold, // no rank begins another step
    Stop  // all ranks end after `step`
  };
  uint32_t round = 0; // grows with each change
  Phase phase = Phase::Free;
  uint64_t step = 0;  // with Stop
  int32_t signal = 0; // the reason; with Stop

  bool operator==(const FrontierOrder &) const = default;
};

/// The answer of a machine: the round that it obeys and, once it holds, the
/// latest step that a rank of it has begun.
struct FrontierAnswer {
  uint32_t round = 0;
  uint64_t begun = 0;

  bool operator==(const FrontierAnswer &) const = default;
};

/// The frontier of the ranks of one machine.
class FrontierGate {
public:
  virtual ~FrontierGate() = default;
  /// Makes ranks wait that want to begin a step that none has begun. Returns
  /// the latest one that a rank has begun, or 0.
  virtual uint64_t hold() = 0;
  /// Lets ranks begin all steps up to this one, and no other ever.
  virtual void stopAfter(uint64_t step) = 0;
  /// Lets ranks begin any step, after `hold`.
  virtual void release() = 0;
};

/// The coordinator's side.
class FrontierRounds {
public:
  explicit FrontierRounds(int machines)
      : answers(static_cast<size_t>(machines)) {}

  /// Begins to stop all ranks, unless that has begun.
  void stop(int signal);
  /// Takes a machine's answer.
  void receive(int machine, const FrontierAnswer &answer);
  /// Leaves out a machine whose ranks have all ended well: it holds for ever.
  void leaveOut(int machine, uint64_t begun);
  const FrontierOrder &order() const { return current; }
  /// Returns the machine's latest answer.
  const FrontierAnswer &answerOf(int machine) const {
    return answers[static_cast<size_t>(machine)].answer;
  }
  /// True once every machine obeys the order.
  bool isObeyed() const;

private:
  void decide();

  struct State {
    FrontierAnswer answer;
    bool hasLeft = false;
  };
  std::vector<State> answers;
  FrontierOrder current;
};

/// A machine's side.
class FrontierFollower {
public:
  /// Obeys the order, and returns what to answer. `gate` may be null while no
  /// ranks run: none has begun a step, and none will before the order that is
  /// given to a gate first.
  FrontierAnswer obey(const FrontierOrder &order, FrontierGate *gate);
  /// The answer to the latest order.
  const FrontierAnswer &answer() const { return current; }
  const FrontierOrder &order() const { return latest; }

private:
  FrontierAnswer current;
  FrontierOrder latest;
  FrontierGate *obeyedBy = nullptr;
};

} // namespace polyrank::runtime::net
