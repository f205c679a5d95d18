// The rounds in which machines agree on their last step.

#include "runtime/job/net/FrontierRounds.h"

#include <algorithm>

namespace polyrank::runtime::net {

void FrontierRounds::stop(int signal) {
  if (current.phase != FrontierOrder::Phase::Free)
    return;
  current = {current.round + 1, FrontierOrder::Phase::Hold, 0, signal};
  decide();
}

void FrontierRounds::receive(int machine, const FrontierAnswer &answer) {
  State &state = answers[static_cast<size_t>(machine)];
  // An answer that was sent before a later one, or to an order that was never
  // given, says nothing.
  if (answer.round < state.answer.round || answer.round > current.round)
    return;
  // A rank begins no step twice: what is known to have begun stays so, also
  // when an answer was sent before the machine said that it is done.
  state.answer = {answer.round, std::max(state.answer.begun, answer.begun)};
  decide();
}

void FrontierRounds::leaveOut(int machine, uint64_t begun) {
  State &state = answers[static_cast<size_t>(machine)];
  state.hasLeft = true;
  state.answer.begun = std::max(state.answer.begun, begun);
  decide();
}

bool FrontierRounds::isObeyed() const {
  return std::all_of(answers.begin(), answers.end(), [&](const State &state) {
    return state.hasLeft || state.answer.round == current.round;
  });
}

void FrontierRounds::decide() {
  if (current.phase != FrontierOrder::Phase::Hold || !isObeyed())
    return;
  uint64_t latest = 0;
  for (const State &state : answers)
    latest = std::max(latest, state.answer.begun);
  current = {current.round + 1, FrontierOrder::Phase::Stop, latest,
             current.signal};
}

FrontierAnswer FrontierFollower::obey(const FrontierOrder &order,
                                      FrontierGate *gate) {
  // An order that was sent before the latest one changes nothing.
  if (order.round < latest.round ||
      (order.round == latest.round && gate == obeyedBy))
    return current;
  latest = order;
  obeyedBy = gate;
  if (!gate) {
    current.round = order.round;
    return current;
  }
  switch (order.phase) {
  case FrontierOrder::Phase::Free:
    gate->release();
    break;
  case FrontierOrder::Phase::Hold:
    current.begun = std::max(current.begun, gate->hold());
    break;
  case FrontierOrder::Phase::Stop:
    gate->stopAfter(order.step);
    break;
  }
  current.round = order.round;
  return current;
}

} // namespace polyrank::runtime::net
