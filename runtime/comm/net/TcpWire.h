// Connections of TCP between ranks.

#pragma once

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/comm/net/RankProof.h"
#include "runtime/comm/net/Wire.h"
#include "runtime/job/net/Sockets.h"
#include "support/File.h"

#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <sys/epoll.h>
#include <vector>

namespace polyrank::runtime::net {

struct TcpOptions {
  int self = 0;
  /// By rank; those of this machine are not called.
  std::vector<CommunicatorPeers::Listener> listeners;
  int firstNear = 0, countNear = 1; // the ranks of this machine
  Pairing pairing;                  // without the ranks
  uint32_t process = 0;
  /// Data has checksums, as messages always have; the same on both sides.
  bool checksData = true;
  /// A descriptor that ends an `await` while it can be read, or -1.
  int also = -1;
  /// How long a rank is called again that does not answer.
  int64_t patience = 300'000'000'000;
};

/// The rank with the lower number calls, at the address where the other one
/// listens. Until both have proved themselves, frames wait.
class TcpWire : public Wire {
public:
  /// `bell` is an eventfd that ends an `await`.
  static Result<std::unique_ptr<TcpWire>> create(const TcpOptions &options,
                                                 const JobKey &key,
                                                 Descriptor listener, int bell,
                                                 WireUser &user);
  ~TcpWire() override;

  void send(int peer, Frame frame, Payload payload) override;
  size_t queued(int peer) const override { return connections[peer].waiting; }
  Result<void> flush() override;
  Result<void> look() override;
  Result<void> await(int milliseconds) override;
  Result<void> progress() override;

private:
  struct Outgoing {
    std::array<std::byte, Frame::size> header;
    Payload payload;
    size_t size() const { return header.size() + payload.bytes.size(); }
  };
  /// What epoll says has happened: something at the connection to the rank of
  /// this number, or one of these.
  static constexpr uint64_t bellTag = uint64_t(1) << 40,
                            listenerTag = bellTag + 1, callTag = bellTag + 2,
                            alsoTag = bellTag + 3;
  /// True if an error of a call only says that there is nothing now.
  static bool isNothingNow(int error) {
    return error == EAGAIN || error == EINTR;
  }
  /// A connection that has not proved itself.
  struct Call {
    Descriptor socket;
    RankProof proof;
    std::vector<uint8_t> got;
    SendQueue queue;
    int64_t until = 0; // when it is given up
    int peer = -1;     // whom this rank calls; -1: it is called
    bool isThere = true;
  };
  struct Connection {
    Descriptor socket;
    bool isOpen = false, isGone = false;
    bool isDeaf = false; // what comes is not read any more
    std::deque<Outgoing> queue;
    size_t waiting = 0; // bytes of the queue
    size_t sent = 0;    // bytes of its first entry
    bool wantsWriting = false;
    uint32_t sentFrames = 0, gotFrames = 0;
    std::array<std::byte, Frame::size> header;
    size_t headerBytes = 0;
    std::optional<Frame> frame; // whose payload is on its way
    std::byte *place = nullptr;
    size_t placeBytes = 0;
    // A rank that this one calls: when it does so again.
    int64_t callAt = 0, pause = 0, callUntil = 0;
  };

  TcpWire(const TcpOptions &options, const JobKey &key, Descriptor listener,
          int bell, WireUser &user);
  bool isNear(int rank) const {
    return rank >= options.firstNear &&
           rank < options.firstNear + options.countNear;
  }
  Result<void> handle(const epoll_event &event);
  Result<void> watch(int socket, uint64_t tag, bool writes, bool isNew,
                     bool reads = true);
  // TcpCalls.cpp
  Result<void> callOthers(int64_t now);
  Result<void> call(int peer, int64_t now);
  void acceptAll(int64_t now);
  Result<void> converse(std::list<Call>::iterator call);
  void giveUp(std::list<Call>::iterator call);
  Result<void> open(std::list<Call>::iterator call);
  // TcpWire.cpp
  Result<void> flush(int peer);
  Result<void> read(int peer);
  /// Takes bytes that have come, which lie at their place already if that is
  /// known.
  Result<void> take(int peer, std::span<const std::byte> bytes);
  Result<void> readHeader(int peer);
  Result<void> readPayload(int peer);
  void end(int peer, const std::string &why);
  /// Reads no more of a peer that sent what it should not have.
  Error ignore(int peer, Error error);
  std::string nameOf(int peer) const;

  TcpOptions options;
  JobKey key;
  Descriptor listener, epoll;
  int bell;
  WireUser &user;
  std::vector<Connection> connections; // by rank
  std::list<Call> calls;
  int unopened = 0; // ranks that this one calls and has not reached
  std::vector<int> toFlush;
  /// The events that the last `await` has found.
  /// @{
  std::array<epoll_event, 64> events;
  int eventCount = 0;
  /// @}
  std::array<std::byte, 16384> ahead; // what was read beyond what was known
};

} // namespace polyrank::runtime::net
