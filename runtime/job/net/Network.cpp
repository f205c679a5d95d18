// The thread of the network.

#include "runtime/job/net/Network.h"

#include "support/Processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;

/// A machine that ends waits at most this long until its last messages are
/// sent.
constexpr std::chrono::nanoseconds farewell = 2s;
/// A connection has at most so many bytes to send before more are read from a
/// window.
constexpr size_t mostWaiting = size_t(4) << 20;

} // namespace

JobKey Network::key() const {
  static constexpr std::array<uint8_t, JobKey::size> known{};
  return options.key ? *options.key : JobKey(known);
}

Result<void> Network::open() {
  waker = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (waker.get() < 0)
    return Error{
        fmt::format("cannot watch the network: {}", std::strerror(errno)),
        Error::Fault::Rank};
  JobKey secret = key();
  Claim claim{netProtocol, uint32_t(options.machine),
              uint32_t(options.machines), options.statement.plan};
  if (options.machine == 0) {
    POLYRANK_ASSIGN(listeners, listenAt(options.bindAddress, options.port,
                                        !options.key.has_value()));
    drawRandom({reinterpret_cast<uint8_t *>(&drawn), sizeof(drawn)});
    POLYRANK_ASSIGN(opened,
                    Server::open(std::move(listeners), secret, drawn,
                                 [this](const auto &line) { log(line); }));
    server.emplace(std::move(opened));
    coordinator.emplace(
        Coordinator::Options{.machines = options.machines,
                             .spares = options.spares,
                             .allowMixedCpus = options.allowMixedCpus,
                             .sharesRanks = options.sharesRanks,
                             .startsAgain = options.startsAgain,
                             .joinTimeout = options.joinTimeout,
                             .rejoinTimeout = options.rejoinTimeout,
                             .fewer = options.fewer},
        begun);
    coordinator->arrived(Coordinator::ownLink, claim, "", begun);
    node.connected(options.bindAddress, begun);
  } else {
    client.emplace(Client::Options{options.host, options.port,
                                   options.bindAddress,
                                   !options.key.has_value(), claim},
                   secret);
  }
  // Signals are for the threads of the launcher.
  sigset_t everything, before;
  sigfillset(&everything);
  pthread_sigmask(SIG_SETMASK, &everything, &before);
  thread = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Network::run() {
  for (;;) {
    // A name may take long to look up, so nobody waits for the mutex meanwhile;
    // others read the client under it, so what comes back is stored under it.
    std::optional<Result<std::vector<SocketAddress>>> found;
    if (client && client->isToLookUp(Network::now()))
      found = client->lookUp();
    {
      std::lock_guard lock(mutex);
      if (found)
        client->found(*found, Network::now());
      work();
      if (isOver(Network::now()))
        return;
    }
    changed.notify_all();
    sleep();
  }
}

void Network::sleep() {
  std::vector<pollfd> files{{waker.get(), POLLIN, 0}};
  Time now = Network::now(), until = now + 100ms;
  if (server) {
    files.push_back({server->descriptor(), POLLIN, 0});
    until = std::min(until, server->nextTime(now));
  }
  if (client) {
    if (client->descriptor() >= 0)
      files.push_back({client->descriptor(), client->events(), 0});
    until = std::min(until, client->nextTime(now));
  }
  {
    std::lock_guard lock(mutex);
    if (node.hasConnection())
      until = std::min(until, node.nextPulse());
    if (job && job->barrierFile() >= 0)
      files.push_back({job->barrierFile(), POLLIN, 0});
  }
  Time left = std::max(until - now, Time());
  poll(files.data(), files.size(),
       int(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  uint64_t count;
  [[maybe_unused]] ssize_t got = read(waker.get(), &count, sizeof(count));
}

void Network::work() {
  Time now = Network::now();
  if (server)
    server->serve(*coordinator, now);
  if (client && !node.isOver())
    client->serve(node, now);
  // Everything that has come was read above, so a machine that seems silent
  // now is silent.
  if (coordinator)
    coordinator->tick(now);
  bool isDue = now >= node.nextPulse();
  if (node.tick(isDue ? look() : std::vector<RemoteRank>(), now,
                isDue ? lookForAwaited() : std::vector<NodePulse::Awaited>()) &&
      client)
    client->close();
  sendBarrier();
  exchange(now);
  takeFromOthers();
  // A node that is over closes at once, and so lets machine 0 end.
  if (client && client->isOpen() &&
      (!node.hasConnection() || (node.isOver() && client->isFlushed())))
    client->close();
  spread();
}

void Network::learnMachines() {
  if (allStarts == node.starts())
    return;
  allStarts = node.starts();
  all.clear();
  for (const StartMessage::Machine &each : node.machines())
    all.push_back({each.address, int(each.firstRank), int(each.ranks),
                   each.memory, each.openFiles});
  // Machine 0 does not know by which of its addresses others reach it.
  if (client && all[0].address.empty())
    all[0].address = client->address();
}

void Network::sendBarrier() {
  if (!job || node.phase() != Node::Phase::Running)
    return;
  if (!barrier)
    barrier = job->takeBarrier();
  if (!barrier)
    return;
  // What ranks of machine 0 fill is where it belongs.
  auto &[number, lastToCome, begin, end] = *barrier;
  end = std::min<uint64_t>(end, window.size());
  while (client && begin < end) {
    if (client->waiting() >= mostWaiting)
      return;
    std::span<std::byte> part = window.subspan(
        begin, std::min<uint64_t>(end - begin, MessageBounds::filled));
    bool isFilled = std::any_of(part.begin(), part.end(), [](std::byte each) {
      return each != std::byte();
    });
    if (isFilled) {
      auto *bytes = reinterpret_cast<const uint8_t *>(part.data());
      client->send(WindowMessage{begin, {bytes, bytes + part.size()}}, node,
                   Network::now());
      std::fill(part.begin(), part.end(), std::byte());
    }
    begin += part.size();
  }
  node.arrive({number, lastToCome});
  barrier.reset();
}

void Network::takeFromOthers() {
  for (const BarrierMessage &over : node.takeBarriers())
    if (job)
      job->endBarrier(over.number, over.lastToCome);
  std::vector<RanksMessage> known = node.takeRanks();
  if (!job || !job->isShared())
    return;
  for (const RanksMessage &message : known)
    for (size_t n = 0; n < message.ranks.size(); ++n) {
      const RemoteRank &rank = message.ranks[n];
      job->setRemote(int(message.first + n), rank.report, rank.wait,
                     rank.barriers);
    }
  job->setClockOffset(node.clockOffset().count());
}

void Network::sendOwn() {
  for (const Message &message : node.takeMessages())
    coordinator->received(Coordinator::ownLink, message, Network::now());
}

void Network::exchange(Time now) {
  if (client) {
    learnMachines();
    for (const Message &message : node.takeMessages())
      client->send(message, node, now);
    return;
  }
  // Each byte is filled by one machine, and is zero on the others.
  for (const WindowMessage &filled : coordinator->takeWindow())
    for (size_t n = 0; n < filled.bytes.size(); ++n)
      if (filled.offset + n < window.size())
        window[filled.offset + n] |= std::byte(filled.bytes[n]);
  // One answers the other, until both have nothing to say.
  for (;;) {
    std::vector<Message> up = node.takeMessages();
    for (const Message &message : up)
      coordinator->received(Coordinator::ownLink, message, now);
    std::vector<Coordinator::Action> down = coordinator->takeActions();
    for (const Coordinator::Action &action : down) {
      // Those that go on as another job come to this port at once. They must
      // not find this job there, which would refuse them.
      if (action.message &&
          std::holds_alternative<FewerMessage>(*action.message))
        server->stopListening();
      if (action.link != Coordinator::ownLink)
        server->apply(action, *coordinator, now);
      else if (action.message)
        node.received(*action.message, now);
    }
    if (up.empty() && down.empty())
      break;
  }
  learnMachines();
  for (const std::string &line : coordinator->takeLog())
    log(line);
}

void Network::spread() {
  const std::optional<MachineFailure> &first = node.failure();
  if (!first || !job || hasSpread)
    return;
  hasSpread = true;
  job->abort(first->machine == node.place()
                 ? first->error.message
                 : fmt::format("{}: {}", describe(first->machine),
                               first->error.message));
}

std::vector<RemoteRank> Network::look() const {
  std::vector<RemoteRank> ranks;
  if (!job)
    return ranks;
  RankRange here = job->here();
  for (int number = here.first; number < here.end(); ++number) {
    RemoteRank rank;
    // A rank that has left has come to all its barriers: its phase is first.
    rank.report = job->report(number);
    rank.wait = job->waitOf(number);
    rank.awaitedNanoseconds = job->awaitedNanoseconds(number);
    rank.barriers = job->barriersOf(number);
    if (size_t(number - here.first) < pids.size())
      rank.pid = pids[size_t(number - here.first)];
    rank.running = rank.pid >= 0;
    if (rank.running)
      rank.state = processState(rank.pid);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::vector<NodePulse::Awaited> Network::lookForAwaited() const {
  std::vector<NodePulse::Awaited> all;
  for (int rank = 0; job && job->isShared() && rank < job->worldSize(); ++rank)
    if (uint64_t time = job->awaitedNanoseconds(rank);
        time && !job->here().has(rank) && all.size() < MessageBounds::awaited)
      all.push_back({uint32_t(rank), time});
  return all;
}

bool Network::isOver(Time now) const {
  if (!ending)
    return false;
  if (now >= *ending + farewell)
    return true;
  // A node is heard as long as it has something to say.
  if (server)
    return server->size() == 0;
  return !client || !client->isOpen() || client->isFlushed();
}

Result<void> Network::awaitStart() {
  std::unique_lock lock(mutex);
  for (;;) {
    if (client && client->fatal())
      return *client->fatal();
    if (allStarts > 0 || node.phase() == Node::Phase::Done)
      return {};
    if (Result<void> goesOn = notOver(); !goesOn)
      return goesOn;
    // Once it is connected, the coordinator decides how long others may take.
    if (client && !client->isOpen() &&
        Network::now() - begun >= options.joinTimeout)
      return Error{
          fmt::format("machine 0 was not reached at {} within {} s: {}; look "
                      "whether it was started, and whether a firewall lets "
                      "port {} through; --join-timeout gives it more time",
                      client->where(),
                      std::chrono::duration_cast<std::chrono::seconds>(
                          options.joinTimeout)
                          .count(),
                      client->lastError().empty() ? "it does not answer"
                                                  : client->lastError(),
                      options.port),
          Error::Fault::Rank};
    changed.wait_for(lock, 100ms);
  }
}

} // namespace polyrank::runtime::net
