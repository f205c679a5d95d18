// The layout of the wire page, and the launcher's end.

#include "runtime/comm/net/WirePage.h"

#include "runtime/job/net/Sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

constexpr uint64_t roundUp(uint64_t value) {
  return (value + 4095) / 4096 * 4096;
}

constexpr uint64_t countsOffset = roundUp(sizeof(WireHeader));
/// The memory of those slots that are never used is never touched.
constexpr uint64_t carriedSize = uint64_t(shm::MemoryOptions().groupCapacity) *
                                 shm::ringSlots * shm::smallBytes;

class NetHost : public CommunicatorHost {
public:
  static Result<std::unique_ptr<CommunicatorHost>>
  create(const CommunicatorNeeds &needs);

  std::vector<int> descriptors() const override {
    std::vector<int> all = memory.descriptors();
    all.push_back(file.get());
    for (const Descriptor &bell : bells)
      all.push_back(bell.get());
    for (const Descriptor &listener : listeners)
      all.push_back(listener.get());
    return all;
  }
  std::vector<uint16_t> ports() const override {
    std::vector<uint16_t> all;
    for (const Descriptor &listener : listeners)
      all.push_back(portOf(listener));
    return all;
  }
  Result<void> connect(const CommunicatorPeers &peers) override;
  void wakeSleepers() const override { memory.wakeSleepers(); }

private:
  NetHost(shm::Memory memory, Descriptor file, WirePage page)
      : memory(std::move(memory)), file(std::move(file)),
        page(std::move(page)) {}

  shm::Memory memory;
  Descriptor file; // of the wire page
  WirePage page;
  std::vector<Descriptor> bells, listeners; // by rank of this machine
};

Result<std::unique_ptr<CommunicatorHost>>
NetHost::create(const CommunicatorNeeds &needs) {
  const RankMachines &machines = *needs.machines;
  if (needs.channelBytes.size() != size_t(machines.worldSize()))
    return Error{"the plan has " + std::to_string(needs.channelBytes.size()) +
                     " ranks, and the machines together " +
                     std::to_string(machines.worldSize()),
                 Error::Fault::Rank};
  shm::MemoryOptions options;
  options.slotBytes = needs.channelBytes;
  options.program = needs.program;
  options.near = machines.count();
  POLYRANK_ASSIGN(memory, shm::Memory::create(options));
  POLYRANK_ASSIGN(
      file, createSharedMemory("polyrank-wire", WirePage::sizeFor(machines)));
  POLYRANK_ASSIGN(page, WirePage::initialize(file.get(), needs));
  std::unique_ptr<NetHost> host(
      new NetHost(std::move(memory), std::move(file), std::move(page)));
  for (int rank = 0; rank < machines.count(); ++rank) {
    host->bells.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (host->bells.back().get() < 0)
      return Error{std::string("making the ranks' bells: ") +
                       std::strerror(errno),
                   Error::Fault::Rank};
    POLYRANK_ASSIGN(found, listenAt(machines.address, 0, false));
    host->listeners.push_back(std::move(found.front()));
  }
  return std::unique_ptr<CommunicatorHost>(std::move(host));
}

Result<void> NetHost::connect(const CommunicatorPeers &peers) {
  RankMachines machines = page.machines();
  if (peers.listeners.size() != size_t(machines.worldSize()))
    return Error{std::to_string(peers.listeners.size()) +
                     " addresses are not those of " +
                     std::to_string(machines.worldSize()) + " ranks",
                 Error::Fault::Rank};
  page.setPeers(peers);
  return {};
}

} // namespace

uint64_t WirePage::sizeFor(const RankMachines &machines) {
  uint64_t world = machines.worldSize();
  return countsOffset + roundUp(machines.ranks.size() * sizeof(int32_t)) +
         roundUp(world * sizeof(NearRank)) + roundUp(world * sizeof(Peer)) +
         roundUp(world * sizeof(Mirror)) + carriedSize;
}

Result<WirePage> WirePage::map(int descriptor) {
  WirePage page;
  POLYRANK_ASSIGN(memory, SharedMapping::map(descriptor, "the wire page"));
  page.memory = std::move(memory);
  if (page.memory.size() < sizeof(WireHeader) ||
      page.header().version != wireVersion)
    return Error{"the wire page is not of this job", Error::Fault::Rank};
  // A rank that crashes dumps what it has sent, and not what others have.
  madvise(page.at<std::byte>(page.carriedOffset()), carriedSize, MADV_DONTDUMP);
  return std::move(page);
}

Result<WirePage> WirePage::initialize(int descriptor,
                                      const CommunicatorNeeds &needs) {
  const RankMachines &machines = *needs.machines;
  WirePage page;
  POLYRANK_ASSIGN(memory, SharedMapping::map(descriptor, "the wire page"));
  page.memory = std::move(memory);
  WireHeader &header = page.header();
  header.version = wireVersion;
  header.machines = static_cast<uint32_t>(machines.ranks.size());
  header.machine = static_cast<uint32_t>(machines.machine);
  header.worldSize = static_cast<uint32_t>(machines.worldSize());
  header.checksData = needs.checksWire;
  header.wire = needs.wire;
  std::copy(machines.ranks.begin(), machines.ranks.end(),
            page.at<int32_t>(countsOffset));
  return std::move(page);
}

WireHeader &WirePage::header() const { return *at<WireHeader>(0); }

RankMachines WirePage::machines() const {
  RankMachines machines;
  const int32_t *counts = at<int32_t>(countsOffset);
  machines.ranks.assign(counts, counts + header().machines);
  machines.machine = static_cast<int>(header().machine);
  return machines;
}

uint64_t WirePage::nearOffset() const {
  return countsOffset + roundUp(header().machines * sizeof(int32_t));
}
uint64_t WirePage::peersOffset() const {
  return nearOffset() + roundUp(header().worldSize * sizeof(NearRank));
}
uint64_t WirePage::mirrorsOffset() const {
  return peersOffset() + roundUp(header().worldSize * sizeof(Peer));
}
uint64_t WirePage::carriedOffset() const {
  return mirrorsOffset() + roundUp(header().worldSize * sizeof(Mirror));
}

std::span<std::byte> WirePage::carried(uint32_t group, uint32_t slot) const {
  uint64_t number = uint64_t(group) * shm::ringSlots + slot;
  return {at<std::byte>(carriedOffset() + number * shm::smallBytes),
          shm::smallBytes};
}

NearRank &WirePage::near(int rank) const {
  return at<NearRank>(nearOffset())[rank];
}

void WirePage::setPeers(const CommunicatorPeers &peers) const {
  Peer *all = at<Peer>(peersOffset());
  for (size_t rank = 0; rank < peers.listeners.size(); ++rank) {
    const auto &[address, port] = peers.listeners[rank];
    std::strncpy(all[rank].address, address.c_str(),
                 sizeof(all[rank].address) - 1);
    all[rank].port = port;
  }
  header().incarnation = peers.incarnation;
  header().key = peers.key;
  header().isConnected.store(1);
}

CommunicatorPeers WirePage::peers() const {
  CommunicatorPeers peers;
  Peer *all = at<Peer>(peersOffset());
  for (uint32_t rank = 0; rank < header().worldSize; ++rank)
    peers.listeners.push_back({all[rank].address, all[rank].port});
  peers.incarnation = header().incarnation;
  peers.key = header().key;
  return peers;
}

void WirePage::setWait(int rank, const FarWait &wait) const {
  Mirror &mirror = at<Mirror>(mirrorsOffset())[rank];
  uint32_t version = mirror.version.load();
  mirror.version.store(version + 1);
  uint64_t words[Mirror::words];
  std::memcpy(words, &wait, sizeof(words));
  for (size_t n = 0; n < Mirror::words; ++n)
    mirror.wait[n].store(words[n], std::memory_order_release);
  mirror.version.store(version + 2);
}

std::optional<FarWait> WirePage::waitOf(int rank) const {
  Mirror &mirror = at<Mirror>(mirrorsOffset())[rank];
  uint32_t before = mirror.version.load();
  uint64_t words[Mirror::words];
  for (size_t n = 0; n < Mirror::words; ++n)
    words[n] = mirror.wait[n].load(std::memory_order_acquire);
  if (before % 2 != 0 || mirror.version.load() != before)
    return std::nullopt;
  FarWait wait;
  static_assert(sizeof(words) == sizeof(wait));
  std::memcpy(&wait, words, sizeof(wait));
  return wait;
}

Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs) {
  return NetHost::create(needs);
}

} // namespace polyrank::runtime::net
