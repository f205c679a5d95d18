// The memory through which the ranks of one machine know of those on others:
// where they listen, what they wait for, and what their starts carry.

#pragma once

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/comm/shm/ShmMemory.h"
#include "support/SharedMemory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

// Everything here lies in one memfd, which is initially zero and is shared by
// processes of the same build.

inline constexpr uint32_t wireVersion = 3;

struct WireHeader {
  uint32_t version, machines, machine, worldSize;
  uint32_t checksData;
  WireKind wire;
  std::atomic<uint32_t> isConnected; // the rest is there
  uint64_t incarnation;
  std::array<uint8_t, 32> key;
};

/// What a rank waits for, as it tells it to other machines. One thread of this
/// machine writes it.
struct FarWait {
  static constexpr size_t mostBlockers = 16, mostText = 512;

  uint64_t word = 0; // 0: it does not wait
  /// It grows each time that the rank has looked and still waits.
  uint64_t beat = 0;
  uint32_t blockers = 0;
  int32_t ranks[mostBlockers] = {};
  char text[mostText] = ""; // "rank 3 waits at value 7 ..", cut if it is longer
};

/// A rank of this machine, as the wire threads of all others see it.
struct alignas(128) NearRank {
  std::atomic<uint32_t> bell; // grows when its wire thread has to look
  std::atomic<uint32_t> sleeps;
  /// It has messages of other machines' ranks for a slot whose turn has not
  /// come.
  std::atomic<uint32_t> hasPending;
};

class WirePage {
public:
  static uint64_t sizeFor(const RankMachines &machines);
  static Result<WirePage> initialize(int descriptor,
                                     const CommunicatorNeeds &needs);
  static Result<WirePage> map(int descriptor);

  WireHeader &header() const;
  RankMachines machines() const;
  NearRank &near(int rank) const;
  void setPeers(const CommunicatorPeers &peers) const;
  CommunicatorPeers peers() const;

  void setWait(int rank, const FarWait &wait) const;
  /// Nothing if it is being written just now.
  std::optional<FarWait> waitOf(int rank) const;

  /// The inputs that starts of other machines' members carry, for one slot of a
  /// group's ring: a member's follows that of the member before it.
  std::span<std::byte> carried(uint32_t group, uint32_t slot) const;

private:
  struct Peer {
    char address[64]; // an IPv6 one with the name of an interface
    uint16_t port;
  };
  struct Mirror {
    static constexpr size_t words = sizeof(FarWait) / sizeof(uint64_t);
    std::atomic<uint32_t> version;     // odd while it is written
    std::atomic<uint64_t> wait[words]; // a FarWait
  };
  uint64_t nearOffset() const;
  uint64_t peersOffset() const;
  uint64_t mirrorsOffset() const;
  uint64_t carriedOffset() const;
  template <typename T>
  T *at(uint64_t offset) const {
    return reinterpret_cast<T *>(memory.data() + offset);
  }

  SharedMapping memory;
};

/// The launcher's end: shared memory, and a socket for each rank of this
/// machine.
Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs);
/// The number of files of so many ranks of this machine.
inline int filesOf(int ranks) { return 2 + 4 * ranks; }

} // namespace polyrank::runtime::net
