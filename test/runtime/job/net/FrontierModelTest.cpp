// A model of how machines stop after the same step: every interleaving of three
// machines, with every loss of a message.

#include "runtime/job/Frontier.h"
#include "runtime/job/net/FrontierRounds.h"

#include <algorithm>
#include <array>
#include <deque>
#include <gtest/gtest.h>
#include <optional>
#include <unordered_set>

namespace polyrank::runtime::net {
namespace {

constexpr int machines = 3;
constexpr uint64_t lastStep = 2; // a rank that has begun it ends by itself

/// The frontier of a machine, as values that can be copied.
class ModelGate : public FrontierGate {
public:
  enum class Mode : uint8_t { Open, Held, Closed };
  struct State {
    Mode mode = Mode::Open;
    uint64_t step = 0; // the latest that is begun, or with Closed the last one
  };

  void load(const State &state) {
    now = state;
    frontier.reset();
    if (state.step > 0)
      frontier.ask(state.step);
    if (state.mode == Mode::Held)
      frontier.hold();
    if (state.mode == Mode::Closed)
      frontier.stopAfter(state.step);
  }
  const State &state() const { return now; }

  uint64_t hold() override {
    uint64_t begun = frontier.hold();
    if (now.mode == Mode::Open)
      now.mode = Mode::Held;
    return begun;
  }
  void stopAfter(uint64_t step) override {
    frontier.stopAfter(step);
    now = {Mode::Closed, std::max(now.step, step)};
  }
  void release() override {
    frontier.release();
    if (now.mode == Mode::Held)
      now.mode = Mode::Open;
  }
  Frontier::Answer ask(uint64_t step) {
    Frontier::Answer answer = frontier.ask(step);
    if (answer == Frontier::Answer::Yes)
      now.step = std::max(now.step, step);
    return answer;
  }

private:
  Frontier frontier;
  State now;
};

/// The gates of all states: a state has their values.
std::array<ModelGate, machines> gates;

struct Machine {
  ModelGate::State gate;
  FrontierFollower follower;
  uint64_t step = 0;                 // of its rank
  bool isDone = false;               // the rank has ended after the last step
  bool hasTold = false;              // and the coordinator knows
  std::optional<FrontierOrder> down; // on their way
  std::optional<FrontierAnswer> up;
};

struct State {
  FrontierRounds rounds{machines};
  bool isAsked = false;
  std::array<Machine, machines> machine;

  /// A number for each state, as far as states differ in what can happen:
  /// machines are alike, so their order does not count, and once the last step
  /// is decided no answer counts.
  std::array<uint64_t, 2> key() const {
    bool isDecided = rounds.order().phase == FrontierOrder::Phase::Stop;
    std::array<uint64_t, machines> each{};
    for (int m = 0; m < machines; ++m) {
      const Machine &of = machine[m];
      auto put = [&](uint64_t value, int bits) {
        EXPECT_LT(value, uint64_t(1) << bits);
        each[m] = each[m] << bits | value;
      };
      put(uint64_t(of.gate.mode), 2);
      put(of.gate.step, 2);
      put(of.step, 2);
      put(of.isDone, 1);
      put(of.follower.order().round, 2);
      put(of.down ? of.down->round + 1 : 0, 2);
      if (isDecided)
        continue;
      put(of.hasTold, 1);
      put(of.follower.answer().begun, 2);
      put(of.up ? of.up->round + 1 : 0, 2);
      put(of.up ? of.up->begun : 0, 2);
      put(rounds.answerOf(m).round, 2);
      put(rounds.answerOf(m).begun, 2);
    }
    std::sort(each.begin(), each.end());
    uint64_t common = uint64_t(isAsked) << 4 | rounds.order().round << 2 |
                      rounds.order().step;
    return {each[0] << 26 | each[1], each[2] << 5 | common};
  }
};

struct HashKey {
  size_t operator()(const std::array<uint64_t, 2> &key) const {
    return key[0] * 0x9e3779b97f4a7c15 ^ key[1] * 0xc2b2ae3d27d4eb4f;
  }
};

/// Things that can happen to a machine. Each returns false if it cannot now.

bool begins(State &state, int m) {
  Machine &machine = state.machine[m];
  if (machine.isDone || machine.step == lastStep)
    return false;
  gates[m].load(machine.gate);
  if (gates[m].ask(machine.step + 1) != Frontier::Answer::Yes)
    return false;
  ++machine.step;
  machine.gate = gates[m].state();
  return true;
}

bool ends(State &state, int m) {
  Machine &machine = state.machine[m];
  if (machine.isDone || machine.step != lastStep)
    return false;
  return machine.isDone = true;
}

/// The coordinator learns that the machine is done: that is not lost without
/// the machine.
bool tells(State &state, int m) {
  Machine &machine = state.machine[m];
  if (!machine.isDone || machine.hasTold)
    return false;
  machine.hasTold = true;
  state.rounds.leaveOut(m, machine.step);
  return true;
}

bool sendsDown(State &state, int m) {
  const FrontierOrder &order = state.rounds.order();
  if (order.round == 0 || state.machine[m].down)
    return false;
  state.machine[m].down = order;
  return true;
}

bool receivesDown(State &state, int m) {
  Machine &machine = state.machine[m];
  if (!machine.down)
    return false;
  gates[m].load(machine.gate);
  machine.follower.obey(*machine.down, &gates[m]);
  machine.gate = gates[m].state();
  machine.down.reset();
  return true;
}

bool sendsUp(State &state, int m) {
  Machine &machine = state.machine[m];
  if (machine.up)
    return false;
  machine.up = machine.follower.answer();
  return true;
}

bool receivesUp(State &state, int m) {
  Machine &machine = state.machine[m];
  if (!machine.up)
    return false;
  state.rounds.receive(m, *machine.up);
  machine.up.reset();
  return true;
}

bool losesDown(State &state, int m) {
  return std::exchange(state.machine[m].down, std::nullopt).has_value();
}
bool losesUp(State &state, int m) {
  return std::exchange(state.machine[m].up, std::nullopt).has_value();
}

using Action = bool (*)(State &, int);
constexpr Action kind[] = {begins,    ends,         tells,   sendsDown, sendsUp,
                           losesDown, receivesDown, losesUp, receivesUp};
/// What happens without losses, in some order.
constexpr Action fair[] = {begins,       ends,    tells,     sendsDown,
                           receivesDown, sendsUp, receivesUp};

/// What must hold in every state.
void checkSafety(const State &state) {
  const FrontierOrder &order = state.rounds.order();
  std::optional<uint64_t> last;
  for (const Machine &machine : state.machine)
    if (machine.gate.mode == ModelGate::Mode::Closed) {
      if (last) {
        ASSERT_EQ(machine.gate.step, *last) << "two last steps";
      }
      last = machine.gate.step;
    }
  if (order.phase == FrontierOrder::Phase::Stop)
    for (const Machine &machine : state.machine)
      ASSERT_LE(machine.step, order.step) << "a rank is beyond the last step";
}

/// From each state in which the ranks are to stop they do, if no more messages
/// are lost.
void checkLiveness(State state) {
  for (int turn = 0; turn < 12; ++turn)
    for (Action action : fair)
      for (int m = 0; m < machines; ++m)
        action(state, m);
  ASSERT_TRUE(state.rounds.order().phase == FrontierOrder::Phase::Stop);
  for (int m = 0; m < machines; ++m)
    ASSERT_EQ(state.machine[m].step, state.rounds.order().step)
        << "machine " << m << " has not come to the last step";
}

TEST(FrontierModel, AllRanksStopAfterTheSameStepWhateverIsLost) {
  std::unordered_set<std::array<uint64_t, 2>, HashKey> seen;
  std::deque<State> open{State()};
  seen.insert(open.front().key());
  size_t stopped = 0;
  while (!open.empty()) {
    State state = std::move(open.front());
    open.pop_front();
    checkSafety(state);
    if (state.isAsked)
      checkLiveness(state);
    if (HasFatalFailure())
      return;
    stopped += state.rounds.order().phase == FrontierOrder::Phase::Stop;
    auto reach = [&](State &&next) {
      if (seen.insert(next.key()).second)
        open.push_back(std::move(next));
    };
    if (!state.isAsked) {
      State next = state;
      next.isAsked = true;
      next.rounds.stop(15);
      reach(std::move(next));
    }
    for (Action action : kind)
      for (int m = 0; m < machines; ++m) {
        State next = state;
        if (action(next, m))
          reach(std::move(next));
      }
  }
  EXPECT_GT(stopped, 100u);
  RecordProperty("states", int(seen.size()));
}

TEST(FrontierRounds, AnAnswerToAnOrderThatWasNotGivenSaysNothing) {
  FrontierRounds rounds(1);
  rounds.stop(15);
  rounds.receive(0, {7, 3});
  EXPECT_EQ(rounds.order().phase, FrontierOrder::Phase::Hold);
  rounds.receive(0, {1, 3});
  EXPECT_EQ(rounds.order(),
            (FrontierOrder{2, FrontierOrder::Phase::Stop, 3, 15}));
}

TEST(FrontierRounds, AnAnswerThatComesLateOrToNoOrderSaysNothing) {
  FrontierRounds rounds(2);
  rounds.stop(15);
  rounds.receive(0, {1, 5});
  rounds.receive(0, {0, 4}); // was sent before the other one
  rounds.receive(1, {2, 9}); // nothing was ordered in round 2 yet
  EXPECT_EQ(rounds.order().phase, FrontierOrder::Phase::Hold);
  rounds.receive(1, {1, 6});
  EXPECT_EQ(rounds.order(),
            (FrontierOrder{2, FrontierOrder::Phase::Stop, 6, 15}));
}

TEST(FrontierRounds, TheFirstReasonToStopStays) {
  FrontierRounds rounds(2);
  rounds.stop(15);
  rounds.stop(2);
  EXPECT_EQ(rounds.order().signal, 15);
  EXPECT_EQ(rounds.order().round, 1u);
}

TEST(FrontierFollower, RanksThatStartLaterObeyTheLatestOrder) {
  FrontierFollower follower;
  EXPECT_EQ(follower.obey({1, FrontierOrder::Phase::Hold, 0, 15}, nullptr),
            (FrontierAnswer{1, 0}));
  ModelGate gate;
  gate.load({});
  follower.obey(follower.order(), &gate);
  EXPECT_EQ(gate.ask(1), Frontier::Answer::Wait);
  follower.obey({2, FrontierOrder::Phase::Stop, 0, 15}, &gate);
  EXPECT_EQ(gate.ask(1), Frontier::Answer::No);
}

} // namespace
} // namespace polyrank::runtime::net
