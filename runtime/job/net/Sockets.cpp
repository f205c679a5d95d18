// TCP of the system.

#include "runtime/job/net/Sockets.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

constexpr int deadAfter = 5; // seconds

const sockaddr *raw(const SocketAddress &address) {
  return reinterpret_cast<const sockaddr *>(&address.storage);
}
sockaddr *raw(SocketAddress &address) {
  return reinterpret_cast<sockaddr *>(&address.storage);
}

void set(const Descriptor &socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof(value));
}

Error systemError(const std::string &what) {
  return Error{fmt::format("{}: {}", what, std::strerror(errno)),
               Error::Fault::Rank};
}

/// Calls the system to send or to receive. Returns the bytes that went; nothing
/// if the socket is not ready. Fails if the connection is gone.
template <class Call>
Result<std::optional<size_t>> transfer(Call &&call) {
  ssize_t bytes;
  do
    bytes = call();
  while (bytes < 0 && errno == EINTR);
  if (bytes >= 0)
    return std::optional(static_cast<size_t>(bytes));
  if (errno == EAGAIN)
    return std::optional<size_t>();
  return Error{std::strerror(errno), Error::Fault::Rank};
}

Result<std::vector<SocketAddress>> lookUp(const char *host, uint16_t port,
                                          int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  int status = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (status != 0)
    return Error{fmt::format("'{}' has no address: {}", host ? host : "",
                             status == EAI_SYSTEM ? std::strerror(errno)
                                                  : gai_strerror(status)),
                 Error::Fault::Input, Error::Cause::Moment};
  std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> all;
  for (const addrinfo *each = found; each; each = each->ai_next) {
    SocketAddress address;
    if (each->ai_addrlen > sizeof(address.storage))
      continue;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
    all.push_back(address);
  }
  return all;
}

Result<Descriptor> listenOn(const SocketAddress &address) {
  Descriptor socket(::socket(address.family(),
                             SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0)
    return systemError("no socket to listen on");
  // A port on which an earlier job has just ended is free.
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6)
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (bind(socket.get(), raw(address), address.length) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0)
    return errno == EADDRINUSE
               ? Error{fmt::format(
                           "port {} of this machine is taken by another "
                           "program "
                           "(machine 0 listens at {}): give all machines "
                           "another one, --rendezvous HOST:PORT",
                           address.port(), address.text()),
                       Error::Fault::Rank}
               : systemError(fmt::format("machine 0 cannot listen at {}",
                                         address.text()));
  return std::move(socket);
}

} // namespace

uint16_t SocketAddress::port() const {
  return family() == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6 &>(storage).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in &>(storage).sin_port);
}

std::string SocketAddress::host() const {
  char host[NI_MAXHOST] = "";
  if (length == 0 || getnameinfo(raw(*this), length, host, sizeof(host),
                                 nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  std::string text = host;
  constexpr std::string_view mapped = "::ffff:";
  return text.starts_with(mapped) ? text.substr(mapped.size()) : text;
}

std::string SocketAddress::text() const {
  std::string name = host();
  return name.find(':') == name.npos ? fmt::format("{}:{}", name, port())
                                     : fmt::format("[{}]:{}", name, port());
}

bool SocketAddress::isLoopback() const {
  if (family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in &>(storage)
                     .sin_addr.s_addr) >>
               24 ==
           127;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(
             &reinterpret_cast<const sockaddr_in6 &>(storage).sin6_addr);
}

Result<std::vector<SocketAddress>> resolve(const std::string &host,
                                           uint16_t port) {
  return lookUp(host.c_str(), port, 0);
}

Result<std::vector<Descriptor>> listenAt(const std::string &address,
                                         uint16_t port, bool loopback) {
  // Without a host getaddrinfo returns both wildcards, or both loopbacks.
  POLYRANK_ASSIGN(found,
                  lookUp(address.empty() ? nullptr : address.c_str(), port,
                         (loopback ? 0 : AI_PASSIVE) |
                             (address.empty() ? 0 : AI_NUMERICHOST)));
  std::vector<Descriptor> listeners;
  std::optional<Error> failed;
  for (SocketAddress each : found) {
    // All have one port, also one that the system has chosen.
    if (port == 0 && !listeners.empty()) {
      in_port_t same = htons(portOf(listeners.front()));
      if (each.family() == AF_INET6)
        reinterpret_cast<sockaddr_in6 &>(each.storage).sin6_port = same;
      else
        reinterpret_cast<sockaddr_in &>(each.storage).sin_port = same;
    }
    Result<Descriptor> listener = listenOn(each);
    if (listener)
      listeners.push_back(std::move(*listener));
    else if (errno == EADDRINUSE)
      return listener.error();
    else // a machine without IPv6, or without IPv4
      failed = listener.error();
  }
  if (listeners.empty())
    return failed ? *failed
                  : Error{"machine 0 has no address to listen at",
                          Error::Fault::Rank};
  return std::move(listeners);
}

uint16_t portOf(const Descriptor &listener) {
  return localAddress(listener).port();
}

Result<Descriptor> beginConnect(const SocketAddress &to,
                                const std::string &from) {
  Descriptor socket(
      ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0)
    return systemError("no socket");
  prepare(socket);
  if (!from.empty()) {
    POLYRANK_ASSIGN(own, lookUp(from.c_str(), 0, AI_NUMERICHOST));
    if (own.empty() || own.front().family() != to.family())
      return Error{fmt::format("{} cannot be reached from {}", to.host(), from),
                   Error::Fault::Rank};
    if (bind(socket.get(), raw(own.front()), own.front().length) != 0)
      return systemError(fmt::format("cannot connect from {}", from));
  }
  if (connect(socket.get(), raw(to), to.length) != 0 && errno != EINPROGRESS)
    return systemError(to.text());
  return std::move(socket);
}

int connectError(const Descriptor &socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
    return errno;
  return error;
}

void prepare(const Descriptor &socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, deadAfter * 1000);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, deadAfter - 1);
}

Descriptor acceptFrom(const Descriptor &listener, SocketAddress &from) {
  from.length = sizeof(from.storage);
  Descriptor socket(accept4(listener.get(), raw(from), &from.length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() >= 0)
    prepare(socket);
  return socket;
}

SocketAddress localAddress(const Descriptor &socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(socket.get(), raw(address), &address.length) != 0)
    address.length = 0;
  return address;
}

void SendQueue::add(const std::vector<uint8_t> &more) {
  // A queue that is never empty must not grow for ever.
  if (sent >= bytes.size() - sent) {
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(sent));
    sent = 0;
  }
  bytes.insert(bytes.end(), more.begin(), more.end());
}

Result<void> SendQueue::flush(const Descriptor &socket) {
  while (sent < bytes.size()) {
    POLYRANK_ASSIGN(done, transfer([&] {
                      return send(socket.get(), bytes.data() + sent,
                                  bytes.size() - sent, MSG_NOSIGNAL);
                    }));
    if (!done)
      return {};
    sent += *done;
  }
  bytes = {};
  sent = 0;
  return {};
}

Result<void> readSome(const Descriptor &socket, std::vector<uint8_t> &into,
                      size_t most) {
  into.clear();
  uint8_t buffer[16384];
  while (into.size() < most) {
    POLYRANK_ASSIGN(got, transfer([&] {
                      return recv(socket.get(), buffer,
                                  std::min(sizeof(buffer), most - into.size()),
                                  0);
                    }));
    if (!got)
      return {};
    if (*got == 0)
      return into.empty() ? Result<void>(Error{"it has closed the connection",
                                               Error::Fault::Rank})
                          : Result<void>();
    into.insert(into.end(), buffer, buffer + *got);
  }
  return {};
}

} // namespace polyrank::runtime::net
