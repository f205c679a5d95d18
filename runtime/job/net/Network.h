// The node of a machine with its sockets, and on machine 0 the coordinator.

#pragma once

#include "runtime/job/net/Client.h"
#include "runtime/job/net/Coordinator.h"
#include "runtime/job/net/Machines.h"
#include "runtime/job/net/Node.h"
#include "runtime/job/net/Server.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace polyrank::runtime::net {

class JobGate : public FrontierGate {
public:
  explicit JobGate(JobControl &job) : job(job) {}
  uint64_t hold() override { return job.holdSteps(); }
  void stopAfter(uint64_t step) override { job.stopAfter(step); }
  void release() override { job.releaseSteps(); }

private:
  JobControl &job;
};

/// The thread that serves the network, and what other threads ask of it.
class Network : public Machines {
public:
  using Time = std::chrono::nanoseconds;

  explicit Network(const JoinOptions &given)
      : options(given), node(given.machine, given.statement, now()),
        begun(now()) {}

  ~Network() override {
    {
      std::lock_guard lock(mutex);
      ending = now();
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
  int machine() const override { return node.place(); }
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
  uint32_t starts() const override;
  Result<void> startAgain(const std::function<bool()> &isInterrupted) override;
  std::optional<Fewer> fewer() const override;
  void end(const MachineFailure &why) override;
  void fail(const MachineFailure &failure) override;
  std::optional<MachineFailure> failure() const override;
  std::optional<MachineFailure> awaitFailure() override;
  void tell(const std::string &text) override;
  std::vector<std::string> takeTold() override;
  void requestStop(int signal) override;
  std::optional<Stop> stop() const override;
  Result<int> finish(const std::function<bool()> &isInterrupted,
                     const std::function<int()> &status) override;
  const std::vector<Peer> &peers() const override { return all; }
  int64_t clockOffset() const override {
    std::lock_guard lock(mutex);
    return node.clockOffset().count();
  }
  std::array<uint8_t, 32> sessionKey() const override;

private:
  static Time now() {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  /// That of the options. Without one both ends are on one machine: what is
  /// then sent is checked against errors alone, by a key that everybody knows.
  JobKey key() const;
  void run();
  /// Waits until there is something to do.
  void sleep();
  void work();
  /// Carries messages between the coordinator, the sockets and this machine's
  /// own node.
  void exchange(Time at);
  /// The same of what this machine's own node has said, to its own coordinator.
  void sendOwn();
  /// Takes over who the machines of a start are.
  void learnMachines();
  /// Fails with the first failure of the current start, if there is one.
  Result<void> notFailed() const;
  /// Fails, with the reason, once the job is over.
  Result<void> notOver() const;
  /// Ends this machine's ranks once another machine has failed.
  void spread();
  std::vector<RemoteRank> look() const;
  std::vector<NodePulse::Awaited> lookForAwaited() const;
  /// Sends a barrier to which the ranks here have come, after what they have
  /// filled, as far as the connection takes that now.
  void sendBarrier();
  /// Brings to the job's ranks what the nodes of others have told.
  void takeFromOthers();
  /// Waits until the condition holds. Fails with the error of `goesOn`, or when
  /// interrupted.
  Result<void> await(std::unique_lock<std::mutex> &lock,
                     const std::function<bool()> &condition,
                     const std::function<Result<void>()> &goesOn,
                     const std::function<bool()> &isInterrupted,
                     const char *what);
  bool isOver(Time at) const;
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
  std::vector<Peer> all;  // changes while the launcher waits for a start
  uint32_t allStarts = 0; // of which start they are
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

} // namespace polyrank::runtime::net
