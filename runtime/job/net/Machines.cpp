// What other threads ask of the thread of the network.

#include "runtime/job/net/Network.h"

#include <fmt/format.h>

namespace polyrank::runtime::net {

using namespace std::chrono_literals;

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
    node.tick(look(), Network::now(), lookForAwaited());
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
  return key()
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
          lock, [&] { return node.exchanged().has_value(); },
          [this] { return notFailed(); }, isInterrupted,
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

Result<int> Network::finish(const std::function<bool()> &isInterrupted,
                            const std::function<int()> &status) {
  std::unique_lock lock(mutex);
  auto wait = [&](const std::function<bool()> &condition) {
    return await(
        lock, condition, [this] { return notFailed(); }, isInterrupted,
        "interrupted while the ranks of other machines were waited for");
  };
  node.finish(job ? job->holdSteps() : 0);
  wake();
  if (coordinator) {
    if (Result<void> all = wait([&] { return coordinator->isComplete(); });
        !all)
      return all.error();
    lock.unlock();
    int judged = status();
    lock.lock();
    coordinator->conclude(judged);
    wake();
  }
  if (Result<void> done =
          wait([&] { return node.phase() == Node::Phase::Done; });
      !done)
    return done.error();
  return node.status();
}

uint32_t Network::starts() const {
  std::lock_guard lock(mutex);
  return node.starts();
}

Result<void> Network::startAgain(const std::function<bool()> &isInterrupted) {
  std::unique_lock lock(mutex);
  if (coordinator) {
    sendOwn();
    drawRandom({reinterpret_cast<uint8_t *>(&drawn), sizeof(drawn)});
    coordinator->startAgain(drawn, Network::now());
    server->setIncarnation(drawn);
    wake();
  }
  auto wait = [&](const std::function<bool()> &condition) {
    return await(
        lock, condition, [this] { return notOver(); }, isInterrupted,
        "interrupted before all ranks were started again");
  };
  if (Result<void> called = wait([&] { return node.isCalledAgain(); }); !called)
    return called;
  node.startAgain();
  wake();
  return wait([&] { return node.phase() == Node::Phase::Running; });
}

std::optional<OtherMachines::Fewer> Network::fewer() const {
  std::lock_guard lock(mutex);
  if (!node.fewer())
    return std::nullopt;
  return Fewer{int(node.fewer()->machines), int(node.fewer()->machine)};
}

Result<void> Network::notFailed() const {
  if (const std::optional<MachineFailure> &first = node.failure())
    return Error{
        fmt::format("{}: {}", describe(first->machine), first->error.message),
        first->error.fault};
  return {};
}

Result<void> Network::notOver() const {
  if (!node.isOver())
    return {};
  if (node.phase() == Node::Phase::Done)
    return Error{"the job is done", Error::Fault::Rank};
  if (const std::optional<MachineFailure> &last = node.failure()) {
    std::string name = describe(last->machine);
    bool isNamed = last->machine == node.place() ||
                   last->error.message.starts_with("machine ");
    return last->error.saying(
        isNamed ? last->error.message
                : fmt::format("{}: {}", name, last->error.message));
  }
  return *node.refusal();
}

void Network::end(const MachineFailure &why) {
  {
    std::lock_guard lock(mutex);
    if (!coordinator)
      node.leave(why);
    else {
      node.fail(why);
      sendOwn();
      coordinator->giveUp(why.error);
    }
  }
  wake();
}

Result<void> Network::await(std::unique_lock<std::mutex> &lock,
                            const std::function<bool()> &condition,
                            const std::function<Result<void>()> &goesOn,
                            const std::function<bool()> &isInterrupted,
                            const char *what) {
  for (;;) {
    if (Result<void> on = goesOn(); !on)
      return on;
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

Result<std::unique_ptr<Machines>> Machines::join(const JoinOptions &options) {
  if (options.machines < 1 ||
      size_t(options.machines) > MessageBounds::machines)
    return Error{fmt::format("a job has 1 to {} machines, not {}",
                             MessageBounds::machines, options.machines)};
  if (options.machine < 0 ||
      options.machine >= options.machines + options.spares)
    return Error{fmt::format("there is no machine {} among {}: they are "
                             "numbered from 0",
                             options.machine,
                             options.machines + options.spares)};
  if (options.statement.ranks > MessageBounds::ranks)
    return Error{fmt::format("a machine of a job starts at most {} ranks, not "
                             "{}",
                             MessageBounds::ranks, options.statement.ranks)};
  auto network = std::make_unique<Network>(options);
  if (Result<void> opened = network->open(); !opened)
    return opened.error();
  if (Result<void> started = network->awaitStart(); !started)
    return started.error();
  if (network->starts() == 0) // a spare that nobody needed
    return std::unique_ptr<Machines>();
  return std::unique_ptr<Machines>(std::move(network));
}

} // namespace polyrank::runtime::net
