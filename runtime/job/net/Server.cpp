// One epoll for all connections of the coordinator.

#include "runtime/job/net/Server.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t listenerTag = 0; // no link has the number 0
/// The server keeps at most so many bytes that a node does not read; beyond
/// that the node counts as lost.
constexpr size_t mostUnsent = 8 << 20;
constexpr size_t mostAtOnce = 256 << 10;
/// A connection that is closed waits at most this long for its other end, so
/// that the bytes that were sent last arrive.
constexpr auto farewell = 1s;

} // namespace

Result<Server> Server::open(std::vector<Descriptor> listeners,
                            const JobKey &key, uint64_t incarnation,
                            std::function<void(const std::string &)> log) {
  Server server(key, incarnation, std::move(log));
  server.events = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (server.events.get() < 0)
    return Error{
        fmt::format("cannot watch connections: {}", std::strerror(errno)),
        Error::Fault::Rank};
  server.listeners = std::move(listeners);
  for (const Descriptor &listener : server.listeners) {
    epoll_event event{.events = 0, .data = {.u64 = listenerTag}};
    epoll_ctl(server.events.get(), EPOLL_CTL_ADD, listener.get(), &event);
  }
  server.armListeners(true);
  return std::move(server);
}

void Server::armListeners(bool now) {
  if (armed == now)
    return;
  armed = now;
  for (const Descriptor &listener : listeners) {
    epoll_event event{.events = armed ? uint32_t(EPOLLIN) : 0,
                      .data = {.u64 = listenerTag}};
    epoll_ctl(events.get(), EPOLL_CTL_MOD, listener.get(), &event);
  }
}

/// True if a connection waits to be let in.
bool Server::othersWait() const {
  std::vector<pollfd> files;
  for (const Descriptor &listener : listeners)
    files.push_back({listener.get(), POLLIN, 0});
  return poll(files.data(), files.size(), 0) > 0;
}

Server::Time Server::nextTime(Time now) const {
  Time next = now + 1s;
  // While the door is full, somebody may come at any time.
  if (!door.hasRoom())
    next = now + Door::leastTime;
  if (std::optional<Time> dismissed = door.nextTime(false))
    next = std::min(next, now + (*dismissed - doorTime));
  if (!armed && door.hasRoom())
    next = std::min(next, armAgain);
  for (const auto &[link, connection] : connections)
    if (connection.closingSince)
      next = std::min(next, *connection.closingSince + farewell);
  return next;
}

void Server::serve(Coordinator &coordinator, Time now) {
  constexpr int most = 256;
  epoll_event ready[most];
  int count = epoll_wait(events.get(), ready, most, 0);
  doorTime += std::clamp<Time>(now - lastServed.value_or(now), 0ms, 100ms);
  lastServed = now;
  bool knocks = false;
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.u64 == listenerTag) {
      knocks = true;
      continue;
    }
    Link link = static_cast<Link>(ready[i].data.u64);
    if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
      read(link, coordinator, now);
    if (ready[i].events & EPOLLOUT)
      flush(link, coordinator, now);
  }
  if (!armed && door.hasRoom() && now >= armAgain)
    armListeners(true);
  if (knocks)
    acceptAll(now);
  dismissCallers(now);
  std::vector<Link> over;
  for (const auto &[link, connection] : connections)
    if (connection.closingSince && now >= *connection.closingSince + farewell)
      over.push_back(link);
  for (Link link : over)
    connections.erase(link);
}

void Server::dismissCallers(Time now) {
  bool wait = !door.hasRoom() && othersWait();
  for (Link link : door.dismiss(wait, doorTime)) {
    auto found = connections.find(link);
    refuseCaller(found->second, "it has not proved that it has the key", now);
    connections.erase(found);
  }
}

void Server::acceptAll(Time now) {
  for (const Descriptor &listener : listeners)
    while (door.hasRoom()) {
      SocketAddress from;
      Descriptor socket = acceptFrom(listener, from);
      if (socket.get() < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
            errno == ENOBUFS) {
          armListeners(false);
          armAgain = now + 100ms;
        }
        break;
      }
      Link link = next++;
      Nonce nonce;
      drawRandom(nonce);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = link}};
      epoll_ctl(events.get(), EPOLL_CTL_ADD, socket.get(), &event);
      Connection connection;
      connection.socket = std::move(socket);
      connection.address = from.host();
      connection.handshake.emplace(key, incarnation, nonce);
      connections.emplace(link, std::move(connection));
      door.cameIn(link, doorTime);
    }
  if (!door.hasRoom())
    armListeners(false);
}

void Server::read(Link link, Coordinator &coordinator, Time now) {
  auto found = connections.find(link);
  if (found == connections.end())
    return;
  Connection &connection = found->second;
  std::vector<uint8_t> bytes;
  size_t most = connection.handshake ? mostBytesBeforeProof : mostAtOnce;
  Result<void> got = readSome(connection.socket, bytes, most);
  // The other end of a connection that is being closed says nothing any more.
  if (connection.closes) {
    if (!got)
      connections.erase(found);
    return;
  }
  if (!bytes.empty())
    if (Result<void> taken = take(link, connection, bytes, coordinator, now);
        !taken)
      got = taken;
  if (!got)
    remove(link, got.error().message, coordinator, now);
}

Result<void> Server::take(Link link, Connection &connection,
                          std::span<const uint8_t> bytes,
                          Coordinator &coordinator, Time now) {
  std::vector<uint8_t> pending(bytes.begin(), bytes.end());
  if (connection.handshake) {
    std::vector<uint8_t> reply;
    Result<void> taken = connection.handshake->receive(bytes, reply);
    connection.out.add(reply);
    if (Result<void> sent = connection.out.flush(connection.socket); !sent)
      return sent;
    if (!taken || !connection.handshake->isDone())
      return taken;
    door.left(link);
    // It is to come again, and be told the new incarnation.
    if (connection.handshake->drawn() != incarnation)
      return Error{"all machines start again meanwhile", Error::Fault::Rank};
    connection.stream = connection.handshake->stream();
    if (own.empty())
      own = localAddress(connection.socket).host();
    pending = connection.handshake->rest();
    coordinator.arrived(link, connection.handshake->claim(), connection.address,
                        now);
    connection.handshake.reset();
  }
  std::vector<Message> messages;
  Result<void> taken = connection.stream->receive(pending, messages);
  for (const Message &message : messages)
    coordinator.received(link, message, now);
  return taken;
}

void Server::flush(Link link, Coordinator &coordinator, Time now) {
  auto found = connections.find(link);
  if (found == connections.end())
    return;
  Connection &connection = found->second;
  if (Result<void> sent = connection.out.flush(connection.socket); !sent)
    return remove(link, sent.error().message, coordinator, now);
  if (connection.out.size() > mostUnsent)
    return remove(link, "it does not read what is sent to it", coordinator,
                  now);
  if (connection.out.isEmpty() && connection.closes &&
      !connection.closingSince) {
    shutdown(connection.socket.get(), SHUT_WR);
    connection.closingSince = now;
  }
  if (bool wants = !connection.out.isEmpty(); wants != connection.wantsToSend) {
    connection.wantsToSend = wants;
    epoll_event event{.events = EPOLLIN | (wants ? uint32_t(EPOLLOUT) : 0),
                      .data = {.u64 = link}};
    epoll_ctl(events.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
  }
}

void Server::apply(const Coordinator::Action &action, Coordinator &coordinator,
                   Time now) {
  auto found = connections.find(action.link);
  if (found == connections.end() || found->second.closes ||
      !found->second.stream)
    return;
  if (action.message)
    found->second.out.add(found->second.stream->seal(*action.message));
  else
    found->second.closes = true;
  flush(action.link, coordinator, now);
}

void Server::remove(Link link, const std::string &why, Coordinator &coordinator,
                    Time now) {
  auto found = connections.find(link);
  if (found->second.handshake) {
    door.left(link);
    refuseCaller(found->second, why, now);
  }
  connections.erase(found);
  coordinator.closed(link, why, now);
}

void Server::refuseCaller(const Connection &connection, const std::string &why,
                          Time now) {
  if (door.mayLog(connection.address, now))
    log(fmt::format("refused a connection from {}: {}", connection.address,
                    why));
}

} // namespace polyrank::runtime::net
