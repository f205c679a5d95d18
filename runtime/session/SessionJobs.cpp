// Creates the job of an attempt, and the communicators of its plans.

#include "runtime/session/SessionJobs.h"

#include "runtime/plan/ProgramChannels.h"
#include "runtime/session/JobFiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace polyrank::runtime {
namespace {

using Options = SessionJobs::Options;

/// "10.0.0.2 4001 4002": the address and ports at which ranks listen.
std::string textOf(const std::string &address,
                   const std::vector<uint16_t> &ports) {
  return fmt::format("{} {}", address, fmt::join(ports, " "));
}

/// Reads what textOf has written. Fails if it is not for so many ranks.
Result<void> addListeners(CommunicatorPeers &peers, const std::string &text,
                          int ranks) {
  std::istringstream words(text);
  std::string address;
  words >> address;
  int count = 0;
  for (uint16_t port; words >> port; ++count)
    peers.listeners.push_back({address, port});
  if (count == ranks && words.eof())
    return {};
  return Error{
      fmt::format("a machine listens with {} ports for {} ranks", count, ranks),
      Error::Fault::Rank};
}

/// Tells each machine's ranks where those of the others listen.
Result<void> connect(CommunicatorHost &host, const Options &options,
                     const std::string &address) {
  OtherMachines &others = *options.others;
  POLYRANK_ASSIGN(texts, others.exchange(textOf(address, host.ports()),
                                         options.isInterrupted));
  CommunicatorPeers peers;
  for (const std::string &text : texts)
    if (Result<void> added = addListeners(peers, text, options.here.count);
        !added)
      return added;
  peers.incarnation = others.incarnation();
  peers.key = others.sessionKey();
  return host.connect(peers);
}

Result<std::unique_ptr<CommunicatorHost>> hostFor(const LoadedPlan &plan,
                                                  const Options &options) {
  std::vector<uint64_t> channelBytes; // by program
  for (uint32_t number = 0; number < plan.programs(); ++number)
    channelBytes.push_back(*channelBytesOf(plan.program(number)));
  CommunicatorNeeds needs;
  needs.program = plan.bytes.hash;
  needs.checksWire = options.checksWire;
  needs.wire = options.wire;
  Mesh mesh(*plan.plan);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    needs.channelBytes.push_back(
        channelBytes[programOf(*plan.plan, mesh, rank)]);
  if (!options.others)
    return hostCommunicators(needs);
  RankMachines &machines = needs.machines.emplace();
  machines.ranks.assign(size_t(options.others->machines()), options.here.count);
  machines.machine = options.others->machine();
  machines.address = options.others->ownAddress();
  POLYRANK_ASSIGN(host, hostCommunicators(needs));
  if (Result<void> connected = connect(*host, options, machines.address);
      !connected)
    return connected.error();
  return std::move(host);
}

} // namespace

Result<std::unique_ptr<SessionJobs>>
SessionJobs::create(const Options &options) {
  NewJob wanted;
  wanted.ranks = static_cast<int>(Mesh(*options.plan->plan).ranks());
  wanted.here = options.here;
  wanted.threadsPerRank = options.threadsPerRank;
  wanted.alone = options.alone;
  POLYRANK_ASSIGN(job, createJob(wanted));
  std::vector<std::unique_ptr<CommunicatorHost>> hosts;
  POLYRANK_ASSIGN(first, hostFor(*options.plan, options));
  hosts.push_back(std::move(first));
  if (options.evaluation && options.evaluation->plan) {
    POLYRANK_ASSIGN(second, hostFor(*options.evaluation->plan, options));
    hosts.push_back(std::move(second));
  }
  return std::unique_ptr<SessionJobs>(
      new SessionJobs(std::move(job), std::move(hosts)));
}

SessionJobs::SessionJobs(std::unique_ptr<JobControl> created,
                         std::vector<std::unique_ptr<CommunicatorHost>> given)
    : job(std::move(created)), hosts(std::move(given)),
      wakes(job->onAbort([this] {
        for (const auto &host : hosts)
          host->wakeSleepers();
      })) {}

std::vector<int> SessionJobs::communicatorFiles() const {
  std::vector<int> all;
  for (const auto &host : hosts)
    for (int file : host->descriptors())
      all.push_back(file);
  return all;
}

Result<std::unique_ptr<Communicator>>
attachToSession(const RankConnection &connection, JobMember &job,
                const LoadedPlan &plan, bool evaluates) {
  return attachCommunicator(
      communicatorFiles(connection, job, evaluates ? 1 : 0), job,
      plan.bytes.hash);
}

} // namespace polyrank::runtime
