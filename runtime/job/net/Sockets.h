// Sockets of TCP as the machines of a job use them: none of them ever blocks.

#pragma once

#include "support/File.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace polyrank::runtime::net {

/// An address and a port, IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  uint16_t port() const;
  /// "10.0.0.2", "fe80::1%eth0".
  std::string host() const;
  /// "10.0.0.2:1234", "[::1]:1234".
  std::string text() const;
  bool isLoopback() const;
};

/// All addresses of a name, in the order in which they are to be tried. Asks
/// the name service, which may take long. An error of the moment has the cause
/// Cause::Moment.
Result<std::vector<SocketAddress>> resolve(const std::string &host,
                                           uint16_t port);

/// Listens on the port at an address; without one at every address (IPv6 and
/// IPv4), or with `loopback` at both loopback addresses. Port 0 is any free
/// port. Fails at once if the port is taken.
Result<std::vector<Descriptor>> listenAt(const std::string &address,
                                         uint16_t port, bool loopback);
/// The port of a listening socket.
uint16_t portOf(const Descriptor &listener);

/// Begins to connect. The socket is writable once `connectError` may be asked.
/// `from` is an address of this machine, or empty.
Result<Descriptor> beginConnect(const SocketAddress &to,
                                const std::string &from);
/// The errno of a connection that has been begun; 0: it is there.
int connectError(const Descriptor &socket);

/// Sets what all connections have: no delay, no waiting, and an end after 5 s
/// in which the other side's system answers nothing.
void prepare(const Descriptor &socket);

/// A connection that waits at a listener; a descriptor of -1 if none does.
Descriptor acceptFrom(const Descriptor &listener, SocketAddress &from);
SocketAddress localAddress(const Descriptor &socket);

/// Bytes to be sent, as far as the socket has not taken them yet.
class SendQueue {
public:
  void add(const std::vector<uint8_t> &bytes);
  /// Sends what the socket takes now. Fails if the connection is gone.
  Result<void> flush(const Descriptor &socket);
  bool isEmpty() const { return sent == bytes.size(); }
  size_t size() const { return bytes.size() - sent; }

private:
  std::vector<uint8_t> bytes;
  size_t sent = 0;
};

/// Reads what has come, at most `most` bytes, into `into`, which it empties
/// first. Fails if the connection is gone.
Result<void> readSome(const Descriptor &socket, std::vector<uint8_t> &into,
                      size_t most);

} // namespace polyrank::runtime::net
