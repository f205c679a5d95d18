// The thread of the network, and what other threads ask of it.

#include "runtime/job/net/Machines.h"

#include "runtime/job/net/Client.h"
#include "runtime/job/net/Coordinator.h"
#include "runtime/job/net/Node.h"
#include "runtime/job/net/Server.h"
#include "support/Processes.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::nanoseconds;

/// A machine that ends waits at most this long until its last messages are
/// sent.
constexpr Time farewell = 2s;
/// A connection has at most so many bytes to send before more are read from a
/// window.
constexpr size_t mostWaiting = size_t(4) << 20;

Time nowOf() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Without a key both ends are on one machine: what is then sent is checked
/// against errors alone, by a key that everybody knows.
JobKey keyOf(const JoinOptions &options) {
  static constexpr std::array<uint8_t, JobKey::size> known{};
  return options.key ? *options.key : JobKey(known);
}

class JobGate : public FrontierGate {
public:
  explicit JobGate(JobControl &job) : job(job) {}
  uint64_t hold() override { return job.holdSteps(); }
  void stopAfter(uint64_t step) override { job.stopAfter(step); }
  void release() override { job.releaseSteps(); }

private:
  JobControl &job;
};

class Network : public Machines {
public:
  explicit Network(const JoinOptions &given)
      : options(given), node(given.machine, given.statement, nowOf()),
        begun(nowOf()) {}

  ~Network() override {
    {
      std::lock_guard lock(mutex);
      ending = nowOf();
    }
    wake();
    if (thread.joinable())
      thread.join();
  }

  /// Opens what is needed, and starts the thread.
  Result<void> open();
  /// Returns once the job begins, or will not.
  Result<void> awaitStart();

  int machines() const override { return options.machines; }
  int machine() const override { return options.machine; }
  std::string describe(int machine) const override {
    size_t number = static_cast<size_t>(machine);
    return nameOfMachine(machine,
                         number < all.size() ? all[number].address : "");
  }
  using OtherMachines::watch;
  void watch(JobControl &job, std::span<std::byte> window) override;
  void unwatch() override;
  void setProcesses(const std::vector<int32_t> &pids) override;
  std::vector<RemoteRank> ranksOf(int machine) const override;
  uint64_t awaitedElsewhere(int rank) const override;
  void report(int rank, const std::string &line) override;
  std::vector<Report> takeReports() override;
  Result<std::vector<std::string>>
  exchange(const std::string &mine,
           const std::function<bool()> &isInterrupted) override;
  std::string ownAddress() const override;
  uint64_t incarnation() const override {
    std::lock_guard lock(mutex);
    return client ? client->incarnation() : drawn;
  }
  void fail(const MachineFailure &failure) override;
  std::optional<MachineFailure> failure() const override;
  std::optional<MachineFailure> awaitFailure() override;
  void tell(const std::string &text) override;
  std::vector<std::string> takeTold() override;
  void requestStop(int signal) override;
  std::optional<Stop> stop() const override;
  Result<void> finish(const std::function<bool()> &isInterrupted) override;
  const std::vector<Peer> &peers() const override { return all; }
  int64_t clockOffset() const override {
    std::lock_guard lock(mutex);
    return node.clockOffset().count();
  }
  std::array<uint8_t, 32> sessionKey() const override;

private:
  void run();
  /// Waits until there is something to do.
  void sleep();
  void work();
  /// Carries messages between the coordinator, the sockets and this machine's
  /// own node.
  void exchange(Time now);
  /// Ends this machine's ranks once another machine has failed.
  void spread();
  std::vector<RemoteRank> look() const;
  std::vector<NodePulse::Awaited> lookForAwaited() const;
  /// Sends a barrier to which the ranks here have come, after what they have
  /// filled, as far as the connection takes that now.
  void sendBarrier();
  /// Brings to the job's ranks what the nodes of others have told.
  void takeFromOthers();
  /// Waits until the condition holds. Fails with the job, or when interrupted.
  Result<void> await(std::unique_lock<std::mutex> &lock,
                     const std::function<bool()> &condition,
                     const std::function<bool()> &isInterrupted,
                     const char *what);
  bool isOver(Time now) const;
  void wake() const {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(waker.get(), &one, sizeof(one));
  }
  void log(const std::string &line) const {
    if (options.log)
      options.log(line);
  }

  const JoinOptions options;
  mutable std::mutex mutex; // of all that follows, but for what is constant
  std::condition_variable changed;
  Node node;
  Time begun;
  std::optional<Coordinator> coordinator;
  std::optional<Server> server;
  std::optional<Client> client;
  Descriptor waker;
  std::vector<Peer> all;
  JobControl *job = nullptr;
  std::unique_ptr<JobGate> gate;
  std::span<std::byte> window;
  /// The barrier to which the ranks here have come, until it is sent; `begin`
  /// is how far its bytes are.
  std::optional<JobControl::Barrier> barrier;
  uint64_t drawn = 0; // the incarnation, on machine 0
  std::vector<int32_t> pids;
  bool hasSpread = false;
  std::optional<Time> ending;
  std::thread thread;
};

Result<void> Network::open() {
  waker = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (waker.get() < 0)
    return Error{
        fmt::format("cannot watch the network: {}", std::strerror(errno)),
        Error::Fault::Rank};
  JobKey key = keyOf(options);
  Claim claim{netProtocol, uint32_t(options.machine),
              uint32_t(options.machines), options.statement.plan};
  if (options.machine == 0) {
    POLYRANK_ASSIGN(listeners, listenAt(options.bindAddress, options.port,
                                        !options.key.has_value()));
    drawRandom({reinterpret_cast<uint8_t *>(&drawn), sizeof(drawn)});
    POLYRANK_ASSIGN(opened,
                    Server::open(std::move(listeners), key, drawn,
                                 [this](const auto &line) { log(line); }));
    server.emplace(std::move(opened));
    coordinator.emplace(
        Coordinator::Options{options.machines, options.allowMixedCpus,
                             options.sharesRanks, options.joinTimeout},
        begun);
    coordinator->arrived(Coordinator::ownLink, claim, "", begun);
    node.connected(options.bindAddress, begun);
  } else {
    client.emplace(Client::Options{options.host, options.port,
                                   options.bindAddress,
                                   !options.key.has_value(), claim},
                   key);
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
    if (client && client->isToLookUp(nowOf()))
      found = client->lookUp();
    {
      std::lock_guard lock(mutex);
      if (found)
        client->found(*found, nowOf());
      work();
      if (isOver(nowOf()))
        return;
    }
    changed.notify_all();
    sleep();
  }
}

void Network::sleep() {
  std::vector<pollfd> files{{waker.get(), POLLIN, 0}};
  Time now = nowOf(), until = now + 100ms;
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
  Time now = nowOf();
  if (server)
    server->serve(*coordinator, now);
  if (client && node.phase() != Node::Phase::Failed &&
      node.phase() != Node::Phase::Done)
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
  bool isLast =
      node.phase() == Node::Phase::Done || node.phase() == Node::Phase::Failed;
  if (client && client->isOpen() &&
      (!node.hasConnection() || (isLast && client->isFlushed())))
    client->close();
  if (all.empty() && !node.machines().empty())
    for (const StartMessage::Machine &each : node.machines())
      all.push_back({each.address, int(each.firstRank), int(each.ranks),
                     each.memory, each.openFiles});
  spread();
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
                   nowOf());
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

void Network::exchange(Time now) {
  if (client) {
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
    for (const Coordinator::Action &action : down)
      if (action.link != Coordinator::ownLink)
        server->apply(action, *coordinator, now);
      else if (action.message)
        node.received(*action.message, now);
    if (up.empty() && down.empty())
      break;
  }
  for (const std::string &line : coordinator->takeLog())
    log(line);
}

void Network::spread() {
  const std::optional<MachineFailure> &first = node.failure();
  if (!first || !job || hasSpread)
    return;
  hasSpread = true;
  job->abort(first->machine == options.machine
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
    if (node.refusal())
      return *node.refusal();
    if (client && client->fatal())
      return *client->fatal();
    if (!all.empty())
      return {};
    // Once it is connected, the coordinator decides how long others may take.
    if (client && !client->isOpen() && nowOf() - begun >= options.joinTimeout)
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

void Network::watch(JobControl &watched, std::span<std::byte> filled) {
  std::lock_guard lock(mutex);
  job = &watched;
  window = filled;
  gate = std::make_unique<JobGate>(watched);
  hasSpread = false;
  node.setGate(gate.get());
  spread();
}

void Network::unwatch() {
  std::lock_guard lock(mutex);
  node.setGate(nullptr);
  gate.reset();
  job = nullptr;
  window = {};
  barrier.reset();
  pids.clear();
}

void Network::setProcesses(const std::vector<int32_t> &now) {
  std::lock_guard lock(mutex);
  pids = now;
}

std::vector<RemoteRank> Network::ranksOf(int machine) const {
  std::lock_guard lock(mutex);
  return coordinator ? coordinator->ranksOf(machine)
                     : std::vector<RemoteRank>();
}

void Network::fail(const MachineFailure &failure) {
  {
    std::lock_guard lock(mutex);
    // Machine 0 shows where the ranks were when it happened.
    node.hurry();
    node.tick(look(), nowOf(), lookForAwaited());
    node.fail(failure);
  }
  wake();
}

std::optional<MachineFailure> Network::failure() const {
  std::lock_guard lock(mutex);
  return node.failure();
}

std::optional<MachineFailure> Network::awaitFailure() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, 1s, [&] { return node.failure().has_value(); });
  return node.failure();
}

void Network::tell(const std::string &text) {
  {
    std::lock_guard lock(mutex);
    node.tell(text);
  }
  wake();
}

std::vector<std::string> Network::takeTold() {
  std::lock_guard lock(mutex);
  return coordinator ? coordinator->takeTold() : std::vector<std::string>();
}

uint64_t Network::awaitedElsewhere(int rank) const {
  std::lock_guard lock(mutex);
  return coordinator ? coordinator->awaited(rank) : 0;
}

/// Reports go up together, with the next look at the network.
void Network::report(int rank, const std::string &line) {
  std::lock_guard lock(mutex);
  node.report(rank, line);
}

std::vector<OtherMachines::Report> Network::takeReports() {
  std::lock_guard lock(mutex);
  return coordinator ? coordinator->takeReports() : std::vector<Report>();
}

std::array<uint8_t, 32> Network::sessionKey() const {
  uint64_t number = incarnation();
  return keyOf(options)
      .derive("ranks",
              {reinterpret_cast<const uint8_t *>(&number), sizeof(number)})
      .mac({});
}

std::string Network::ownAddress() const {
  std::lock_guard lock(mutex);
  if (!options.bindAddress.empty())
    return options.bindAddress;
  return client ? client->ownAddress() : server->ownAddress();
}

Result<std::vector<std::string>>
Network::exchange(const std::string &mine,
                  const std::function<bool()> &isInterrupted) {
  std::unique_lock lock(mutex);
  node.exchange(mine);
  wake();
  if (Result<void> over = await(
          lock, [&] { return node.exchanged().has_value(); }, isInterrupted,
          "interrupted while other machines were waited for");
      !over)
    return over.error();
  return *node.exchanged();
}

void Network::requestStop(int signal) {
  {
    std::lock_guard lock(mutex);
    node.requestStop(signal);
  }
  wake();
}

std::optional<OtherMachines::Stop> Network::stop() const {
  std::lock_guard lock(mutex);
  const FrontierOrder &order = node.order();
  if (order.phase != FrontierOrder::Phase::Stop)
    return std::nullopt;
  return Stop{order.step, order.signal};
}

Result<void> Network::finish(const std::function<bool()> &isInterrupted) {
  std::unique_lock lock(mutex);
  node.finish(job ? job->holdSteps() : 0);
  wake();
  return await(
      lock, [&] { return node.phase() == Node::Phase::Done; }, isInterrupted,
      "interrupted while the ranks of other machines were waited for");
}

Result<void> Network::await(std::unique_lock<std::mutex> &lock,
                            const std::function<bool()> &condition,
                            const std::function<bool()> &isInterrupted,
                            const char *what) {
  for (;;) {
    if (const std::optional<MachineFailure> &first = node.failure())
      return Error{
          fmt::format("{}: {}", describe(first->machine), first->error.message),
          first->error.fault};
    if (condition())
      return {};
    lock.unlock();
    bool isOver = isInterrupted();
    lock.lock();
    if (isOver)
      return Error{what, Error::Fault::Rank};
    changed.wait_for(lock, 100ms);
  }
}

} // namespace

Result<std::unique_ptr<Machines>> Machines::join(const JoinOptions &options) {
  if (options.machines < 1 ||
      size_t(options.machines) > MessageBounds::machines)
    return Error{fmt::format("a job has 1 to {} machines, not {}",
                             MessageBounds::machines, options.machines)};
  if (options.machine < 0 || options.machine >= options.machines)
    return Error{fmt::format("there is no machine {} among {}: they are "
                             "numbered from 0",
                             options.machine, options.machines)};
  if (options.statement.ranks > MessageBounds::ranks)
    return Error{fmt::format("a machine of a job starts at most {} ranks, not "
                             "{}",
                             MessageBounds::ranks, options.statement.ranks)};
  auto network = std::make_unique<Network>(options);
  if (Result<void> opened = network->open(); !opened)
    return opened.error();
  if (Result<void> started = network->awaitStart(); !started)
    return started.error();
  return std::unique_ptr<Machines>(std::move(network));
}

} // namespace polyrank::runtime::net
