// How a node reacts to what happens.

#include "runtime/job/net/Node.h"

#include <algorithm>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// A machine of more ranks tells of them in turn.
constexpr size_t ranksOfAPulse = 1024;
constexpr size_t mostToldLines = 1000;

} // namespace

Node::Node(int machine, const NodeStatement &statement, Time now)
    : machine(machine), statement(statement), now(now), next(now),
      silence(now) {}

void Node::connected(const std::string &address, Time time) {
  now = time;
  isConnected = true;
  silence = Silence(now);
  offset = {};
  messages.push_back(JoinMessage{statement, address});
  next = now;
}

void Node::disconnected(const std::string &why, Time time) {
  now = time;
  if (!std::exchange(isConnected, false))
    return;
  messages.clear();
  if (current == Phase::Running)
    end(own ? *own
            : MachineFailure{
                  0, -1,
                  Error{"machine 0 is lost: " + why, Error::Fault::Rank}});
}

void Node::received(const Message &message, Time time) {
  now = time;
  silence.heard(now);
  std::visit([&](const auto &body) { take(body); }, message);
}

bool Node::tick(const std::vector<RemoteRank> &ranks, Time time) {
  now = time;
  if (!isConnected)
    return false;
  if (silence.isTooLong(now)) {
    disconnected("it was silent for 5 s", now);
    return true;
  }
  sendTold();
  if (offset.isDue(now)) {
    offset.began();
    messages.push_back(PingMessage{now.count()});
  }
  if (now >= next) {
    next = now + pulseEvery;
    messages.push_back(pulse(ranks));
  }
  return false;
}

void Node::sendTold() {
  if (told.empty())
    return;
  TellMessage message;
  size_t bytes = 0;
  while (!told.empty() && message.lines.size() < MessageBounds::lines &&
         bytes + told.front().size() <= MessageBounds::told) {
    bytes += told.front().size();
    message.lines.push_back(std::move(told.front()));
    told.pop_front();
  }
  messages.push_back(std::move(message));
}

NodePulse Node::pulse(const std::vector<RemoteRank> &ranks) {
  NodePulse result;
  result.answer = follower.answer();
  if (nextRank >= ranks.size())
    nextRank = 0;
  size_t count = std::min(ranksOfAPulse, ranks.size() - nextRank);
  result.firstRank = static_cast<uint32_t>(nextRank);
  result.ranks.assign(ranks.begin() + ptrdiff_t(nextRank),
                      ranks.begin() + ptrdiff_t(nextRank + count));
  nextRank += count;
  return result;
}

std::vector<Message> Node::takeMessages() {
  return std::exchange(messages, {});
}

void Node::setGate(FrontierGate *now) {
  gate = now;
  if (gate)
    follower.obey(follower.order(), gate);
}

void Node::fail(const MachineFailure &failure) {
  if (current != Phase::Running || own)
    return;
  own = failure;
  own->machine = machine;
  if (!isConnected)
    return;
  sendTold(); // what explains it comes first
  messages.push_back(FailMessage{*own});
}

void Node::tell(const std::string &line) {
  if (told.size() >= mostToldLines)
    told.pop_front();
  told.push_back(line.substr(0, MessageBounds::text));
}

void Node::requestStop(int signal) {
  if (current == Phase::Running)
    messages.push_back(StopMessage{signal});
}

void Node::finish(uint64_t begun) {
  if (current == Phase::Running)
    messages.push_back(DoneMessage{begun});
}

void Node::take(const StartMessage &message) {
  if (current != Phase::Joining)
    return;
  all = message.machines;
  current = Phase::Running;
}

void Node::take(const RefuseMessage &message) {
  refused = Error{message.reason, message.fault};
  if (current == Phase::Running)
    end({0, -1, *refused});
  else if (current == Phase::Joining)
    current = Phase::Failed;
}

void Node::take(const CoordinatorPulse &pulse) {
  FrontierAnswer before = follower.answer();
  if (follower.obey(pulse.order, gate) != before)
    next = now; // the coordinator waits for the answer
}

void Node::take(const PongMessage &message) {
  offset.add(Time(message.sent), Time(message.at), now);
}

void Node::take(const FailMessage &message) { end(message.failure); }

void Node::take(const DoneMessage &) {
  if (current == Phase::Running)
    current = Phase::Done;
}

template <class Other>
void Node::take(const Other &) {
  // It has the key, so it is of another version or broken.
  disconnected("it sent what no coordinator sends", now);
}

void Node::end(const MachineFailure &failure) {
  if (current == Phase::Failed || current == Phase::Done)
    return;
  first = failure;
  current = Phase::Failed;
}

} // namespace polyrank::runtime::net
