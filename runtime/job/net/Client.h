// The connection of a node to its coordinator: made, proved, read and written.

#pragma once

#include "runtime/job/net/Handshake.h"
#include "runtime/job/net/Node.h"
#include "runtime/job/net/Sockets.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

class Client {
public:
  using Time = std::chrono::nanoseconds;

  struct Options {
    std::string host;
    uint16_t port = 0;
    std::string from{}; // an address of this machine; empty: any
    bool onlyLoopback = false;
    Claim claim;
  };
  Client(const Options &options, const JobKey &key);

  /// True if it is time for `lookUp`.
  bool isToLookUp(Time now) const;
  /// Asks the name service where the coordinator is: the only call that may
  /// take long. It changes nothing, so other threads may read this object
  /// meanwhile.
  Result<std::vector<SocketAddress>> lookUp() const;
  /// Takes what `lookUp` has returned.
  void found(const Result<std::vector<SocketAddress>> &answer, Time now);
  /// Connects, reads and writes as far as that goes without waiting, and tells
  /// the node what happens.
  void serve(Node &node, Time now);
  void send(const Message &message, Node &node, Time now);
  /// Closes the connection.
  void close();

  /// Returns the socket to poll; -1 if there is none.
  int descriptor() const { return socket.get(); }
  short events() const;
  /// Returns the latest time at which `serve` has something to do.
  Time nextTime(Time now) const;

  bool isOpen() const { return stage == Stage::Open; }
  bool isFlushed() const { return out.isEmpty(); }
  /// An error that no further attempt mends: another key, another protocol.
  const std::optional<Error> &fatal() const { return hopeless; }
  /// Returns the reason why the last attempt failed; empty if none has.
  const std::string &lastError() const { return last; }
  /// The one that the coordinator has drawn last; 0 before the first proof.
  uint64_t incarnation() const { return drawn; }
  /// The address at which the coordinator was reached.
  std::string address() const { return current.host(); }
  /// The address of this machine on the connection.
  std::string ownAddress() const { return localAddress(socket).host(); }
  /// How many bytes are still to be sent.
  size_t waiting() const { return out.size(); }
  /// "HOST:PORT".
  std::string where() const;

private:
  enum class Stage { Pausing, Connecting, Proving, Open };

  void begin(Time now);
  void prove(Time now);
  void read(Node &node, Time now);
  Result<void> take(std::span<const uint8_t> bytes, Node &node, Time now);
  /// The attempt has failed: the next address, or a pause before all of them.
  void failed(const std::string &why, Time now);

  Options options;
  JobKey key;
  Stage stage = Stage::Pausing;
  Time until{}; // of the stage
  Time pause;
  std::minstd_rand jitter;
  /// Those that are still to be tried; without one it is to be looked up again.
  std::vector<SocketAddress> addresses;
  SocketAddress current;
  Descriptor socket;
  std::optional<NodeHandshake> handshake;
  std::optional<SealedStream> stream;
  SendQueue out;
  uint64_t drawn = 0; // the incarnation
  std::optional<Error> hopeless;
  std::string last;
};

} // namespace polyrank::runtime::net
