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

void Node::connected(const std::string &own, Time time) {
  now = time;
  isConnected = true;
  silence = Silence(now);
  offset = {};
  address = own;
  join();
}

void Node::join() {
  messages.push_back(JoinMessage{statement, address});
  next = now;
}

void Node::disconnected(const std::string &why, Time time) {
  now = time;
  if (!std::exchange(isConnected, false))
    return;
  messages.clear();
  if (start == 0 && current == Phase::Joining)
    return;
  MachineFailure lost{
      0, -1, Error{"machine 0 is lost: " + why, Error::Fault::Rank}, true};
  end(own && current == Phase::Running ? *own : lost, true);
}

void Node::received(const Message &message, Time time) {
  now = time;
  silence.heard(now);
  std::visit([&](const auto &body) { take(body); }, message);
}

bool Node::tick(const std::vector<RemoteRank> &ranks, Time time,
                const std::vector<NodePulse::Awaited> &awaited) {
  now = time;
  if (!isConnected)
    return false;
  if (silence.isTooLong(now)) {
    disconnected("it was silent for 5 s", now);
    return true;
  }
  sendTold();
  sendReports();
  if (offset.isDue(now)) {
    offset.began();
    messages.push_back(PingMessage{now.count()});
  }
  if (now >= next) {
    next = now + pulseEvery;
    messages.push_back(pulse(ranks, awaited));
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

void Node::sendReports() {
  while (!reports.empty()) {
    ReportsMessage message;
    size_t bytes = 0;
    while (!reports.empty() && message.parts.size() < MessageBounds::lines &&
           bytes + reports.front().text.size() <= MessageBounds::told) {
      bytes += reports.front().text.size();
      message.parts.push_back(std::move(reports.front()));
      reports.pop_front();
    }
    messages.push_back(std::move(message));
  }
}

void Node::report(int rank, const std::string &line) {
  size_t at = 0;
  do {
    std::string text = line.substr(at, MessageBounds::text);
    at += text.size();
    reports.push_back(
        {static_cast<uint32_t>(rank), at == line.size(), std::move(text)});
  } while (at < line.size());
}

void Node::arrive(const BarrierMessage &barrier) {
  if (current == Phase::Running)
    messages.push_back(barrier);
}

void Node::exchange(const std::string &text) {
  ++exchanges;
  if (current == Phase::Running)
    messages.push_back(ExchangeMessage{exchanges, {text}});
}

std::optional<std::vector<std::string>> Node::exchanged() const {
  if (lastExchange.number != exchanges)
    return std::nullopt;
  return lastExchange.texts;
}

NodePulse Node::pulse(const std::vector<RemoteRank> &ranks,
                      const std::vector<NodePulse::Awaited> &awaited) {
  NodePulse result;
  result.awaited = awaited;
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
  // What explains it comes first.
  sendTold();
  sendReports();
  messages.push_back(FailMessage{*own});
}

void Node::leave(const MachineFailure &why) {
  if (current == Phase::Running)
    return fail(why);
  if (!isConnected || isOver())
    return;
  messages.push_back(FailMessage{why});
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
  if (current != Phase::Running)
    return;
  sendReports();
  messages.push_back(DoneMessage{begun});
}

std::vector<RanksMessage> Node::takeRanks() {
  return std::exchange(ranksOfAll, {});
}

std::vector<BarrierMessage> Node::takeBarriers() {
  return std::exchange(over, {});
}

void Node::startAgain() {
  if (!std::exchange(isCalled, false))
    return;
  // Nothing that was said before is of the new start.
  messages.clear();
  reports.clear();
  ranksOfAll.clear();
  over.clear();
  own.reset();
  first.reset();
  follower = {};
  exchanges = 0;
  lastExchange = {};
  nextRank = 0;
  current = Phase::Joining;
  join();
}

void Node::take(const StartMessage &message) {
  if (current != Phase::Joining)
    return;
  machine = static_cast<int>(message.machine);
  start = message.start;
  all = message.machines;
  current = Phase::Running;
}

void Node::take(const RefuseMessage &message) {
  refused = Error{message.reason, message.fault};
  if (current != Phase::Joining)
    return end({0, -1, *refused}, true);
  current = Phase::Failed; // nothing has failed
  isFinal = true;
}

void Node::take(const CoordinatorPulse &pulse) {
  FrontierAnswer before = follower.answer();
  if (follower.obey(pulse.order, gate) != before)
    next = now; // the coordinator waits for the answer
}

void Node::take(const PongMessage &message) {
  offset.add(Time(message.sent), Time(message.at), now);
}

void Node::take(const FailMessage &message) {
  end(message.failure, message.isFinal);
}

void Node::take(const AgainMessage &) {
  if (isOver())
    return;
  isCalled = true;
  // Without ranks there is nothing to end.
  if (current == Phase::Joining)
    startAgain();
}

void Node::take(const FewerMessage &message) {
  if (isOver())
    return;
  left = message;
  refused = Error{"the job goes on with fewer machines", Error::Fault::Rank};
  current = Phase::Failed;
  isFinal = true;
}

/// A node that waits for a place is done with the others.
void Node::take(const DoneMessage &message) {
  if (current == Phase::Failed)
    return;
  current = Phase::Done;
  statusOfAll = message.status;
}

void Node::take(const RanksMessage &message) { ranksOfAll.push_back(message); }

void Node::take(const BarrierMessage &message) { over.push_back(message); }

void Node::take(const ExchangeMessage &message) { lastExchange = message; }

template <class Other>
void Node::take(const Other &) {
  // It has the key, so it is of another version or broken.
  disconnected("it sent what no coordinator sends", now);
}

void Node::end(const MachineFailure &failure, bool forGood) {
  if (isOver() || (current == Phase::Failed && !forGood))
    return;
  first = failure;
  current = Phase::Failed;
  isFinal = forGood;
}

} // namespace polyrank::runtime::net
