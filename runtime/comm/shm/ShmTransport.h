// One rank's end of the shared-memory transport.

#pragma once

#include "runtime/comm/RowCopies.h"
#include "runtime/comm/shm/ShmJob.h"

#include <vector>

namespace polyrank::runtime::shm {

class ShmTransport : public Transport {
public:
  static Result<std::unique_ptr<Transport>>
  attach(const JobDescriptors &descriptors, int rank,
         const ProgramDigest &program);
  ~ShmTransport() override;

  int rank() const override { return self; }
  int worldSize() const override { return files.arenas.size(); }
  std::span<std::byte> sharedMemory() override;
  Result<Group> createGroup(std::span<const int32_t> ranks) override;
  Result<void> check(const Collective &collective) const override;
  Result<void> run(const Collective &collective) override;
  Result<void> barrier(Group group) override;
  void abort(std::string_view message) override;
  Result<void> health() override { return control.health(); }
  void setProgress(uint64_t step, uint32_t command) override;
  void beat() override;
  void setParallelFor(ParallelFor parallelFor) override;
  TransportStatistics statistics() const override { return counters; }

private:
  struct Arena {
    std::byte *base = nullptr;
    uint64_t size = 0;
  };
  struct LocalGroup {
    uint32_t entry = 0; // in the control page
    int me = 0;         // this rank's position
    std::vector<int32_t> ranks;
    uint64_t operations = 0;
  };

  ShmTransport() = default;

  Error failed(const std::string &message);
  Result<void> mapArena(int rank);
  Result<uint32_t> findEntry(std::span<const int32_t> ranks);
  Result<void> awaitReady(GroupHeader &entry);

  // Wait.cpp
  Result<void> arrive(LocalGroup &group);
  Result<void> awaitGeneration(LocalGroup &group, uint32_t generation);
  Result<void> checkPeers(LocalGroup &group, uint32_t generation);
  /// Ranks that wait for each other in a circle, with what they wait for; empty
  /// where there is none through this rank.
  using WaitPath = std::vector<std::pair<int, uint64_t>>;
  WaitPath findCircle() const;
  bool extendCircle(WaitPath &path, std::vector<bool> &visited) const;
  std::string describeWait(int rank) const;

  Result<void> agree(LocalGroup &group, const OperationRecord &record);
  void reduceRound(const Collective &collective, const LocalGroup &group,
                   std::span<const Transfer> round);
  void addBordersRound(const Collective &collective, const LocalGroup &group,
                       std::span<const Transfer> round);
  void copyRound(const Collective &collective, const LocalGroup &group,
                 std::span<const Transfer> round);
  void inParallel(int64_t range, int64_t grain, int64_t bytes,
                  const RangeBody &body);
  std::byte *inputOf(const LocalGroup &group, int member, size_t number) const;
  std::byte *outputOf(const LocalGroup &group, int member, size_t number) const;

  JobDescriptors files;
  ControlPage control;
  int self = 0;
  std::vector<Arena> arenas; // by rank; those of this rank's groups are mapped
  std::vector<LocalGroup> groups;
  ParallelFor threads;
  TransportStatistics counters{};
  uint64_t waited = 0; // nanoseconds, in the running call
};

} // namespace polyrank::runtime::shm
