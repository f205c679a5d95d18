// Connections of TCP that are open: frames that go and come.

#include "runtime/comm/net/TcpWire.h"

#include "support/Futex.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// What one connection may read before others have their turn.
constexpr size_t readAtOnce = 1 << 19;

Error systemError(const std::string &what) {
  return Error{what + ": " + std::strerror(errno), Error::Fault::Rank};
}

} // namespace

Result<std::unique_ptr<TcpWire>> TcpWire::create(const TcpOptions &options,
                                                 const JobKey &key,
                                                 Descriptor listener, int bell,
                                                 WireUser &user) {
  std::unique_ptr<TcpWire> wire(
      new TcpWire(options, key, std::move(listener), bell, user));
  if (wire->epoll.get() < 0)
    return systemError("watching connections");
  for (auto [socket, tag] :
       {std::pair(bell, bellTag), {wire->listener.get(), listenerTag}})
    if (auto watched = wire->watch(socket, tag, false, true); !watched)
      return watched.error();
  if (options.also >= 0)
    if (auto watched = wire->watch(options.also, alsoTag, false, true);
        !watched)
      return watched.error();
  int64_t now = monotonicNanoseconds();
  for (size_t rank = 0; rank < options.listeners.size(); ++rank)
    if (int(rank) > options.self && !wire->isNear(int(rank))) {
      ++wire->unopened;
      wire->connections[rank].callUntil = now + options.patience;
    }
  return wire;
}

TcpWire::TcpWire(const TcpOptions &options, const JobKey &key,
                 Descriptor listener, int bell, WireUser &user)
    : options(options), key(key), listener(std::move(listener)),
      epoll(epoll_create1(EPOLL_CLOEXEC)), bell(bell), user(user),
      connections(options.listeners.size()) {}

TcpWire::~TcpWire() = default;

std::string TcpWire::nameOf(int peer) const {
  const auto &[address, port] = options.listeners[peer];
  return "rank " + std::to_string(peer) + " (" + address + " port " +
         std::to_string(port) + ")";
}

Result<void> TcpWire::watch(int socket, uint64_t tag, bool writes, bool isNew,
                            bool reads) {
  epoll_event event{};
  event.events =
      (reads ? uint32_t(EPOLLIN) : 0) | (writes ? uint32_t(EPOLLOUT) : 0);
  event.data.u64 = tag;
  if (epoll_ctl(epoll.get(), isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket,
                &event) != 0)
    return systemError("watching a connection");
  return {};
}

void TcpWire::send(int peer, Frame frame, Payload payload) {
  Connection &connection = connections[peer];
  if (connection.isGone)
    return;
  frame = sealed(frame, options.pairing.incarnation, connection.sentFrames++,
                 payload.bytes, options.checksData);
  connection.queue.push_back({encode(frame), std::move(payload)});
  connection.waiting += connection.queue.back().size();
  if (toFlush.empty() || toFlush.back() != peer)
    toFlush.push_back(peer);
}

/// Sends what the socket takes.
Result<void> TcpWire::flush(int peer) {
  Connection &connection = connections[peer];
  while (connection.isOpen && !connection.queue.empty()) {
    iovec parts[32];
    size_t count = 0, skip = connection.sent;
    auto add = [&](const std::byte *data, size_t size) {
      if (skip >= size) {
        skip -= size;
        return;
      }
      parts[count++] = {const_cast<std::byte *>(data + skip), size - skip};
      skip = 0;
    };
    for (const Outgoing &each : connection.queue) {
      if (count + 2 > std::size(parts))
        break;
      add(each.header.data(), each.header.size());
      add(each.payload.bytes.data(), each.payload.bytes.size());
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    ssize_t sent =
        sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && isNothingNow(errno))
      break;
    if (sent < 0) {
      // What the peer has said before it was gone comes first.
      connection.queue.clear();
      connection.waiting = connection.sent = 0;
      return {};
    }
    connection.waiting -= sent;
    connection.sent += sent;
    while (!connection.queue.empty() &&
           connection.sent >= connection.queue.front().size()) {
      Outgoing done = std::move(connection.queue.front());
      connection.queue.pop_front();
      connection.sent -= done.size();
      if (done.payload.token)
        user.sent(done.payload.token);
    }
  }
  bool wants = !connection.queue.empty();
  if (connection.isOpen && wants != connection.wantsWriting) {
    connection.wantsWriting = wants;
    return watch(connection.socket.get(), peer, wants, false,
                 !connection.isDeaf);
  }
  return {};
}

Error TcpWire::ignore(int peer, Error error) {
  Connection &connection = connections[peer];
  connection.isDeaf = true;
  if (connection.isOpen)
    (void)watch(connection.socket.get(), peer, connection.wantsWriting, false,
                false);
  return error;
}

void TcpWire::end(int peer, const std::string &why) {
  Connection &connection = connections[peer];
  connection.isOpen = false;
  connection.isGone = true;
  connection.socket.close();
  connection.queue.clear();
  connection.waiting = connection.sent = 0;
  user.gone(peer, why);
}

/// Called with a whole header.
Result<void> TcpWire::readHeader(int peer) {
  Connection &connection = connections[peer];
  connection.headerBytes = 0;
  Result<Frame> frame = decode(connection.header, options.pairing.incarnation,
                               connection.gotFrames);
  if (!frame)
    return Error{"from " + nameOf(peer) + ": " + frame.error().message,
                 Error::Fault::Rank};
  ++connection.gotFrames;
  POLYRANK_ASSIGN(place, user.placeOf(peer, *frame));
  if (frame->bytes == 0)
    return user.arrived(peer, *frame);
  connection.frame = *frame;
  connection.place = place;
  connection.placeBytes = 0;
  return {};
}

/// Called with a whole payload.
Result<void> TcpWire::readPayload(int peer) {
  Connection &connection = connections[peer];
  Frame frame = *connection.frame;
  connection.frame.reset();
  if (Result<void> whole =
          checkPayload(frame, connection.place, options.checksData);
      !whole)
    return whole.error().saying("from " + nameOf(peer) + ": " +
                                whole.error().message);
  return user.arrived(peer, frame);
}

Result<void> TcpWire::take(int peer, std::span<const std::byte> bytes) {
  Connection &connection = connections[peer];
  while (!bytes.empty()) {
    bool isHeader = !connection.frame;
    std::byte *to = isHeader ? connection.header.data() : connection.place;
    size_t &had = isHeader ? connection.headerBytes : connection.placeBytes;
    size_t size = isHeader ? Frame::size : connection.frame->bytes,
           count = std::min(size - had, bytes.size());
    if (to + had != bytes.data())
      std::memcpy(to + had, bytes.data(), count);
    had += count;
    bytes = bytes.subspan(count);
    if (had < size)
      continue;
    Result<void> read = isHeader ? readHeader(peer) : readPayload(peer);
    if (!read)
      return read;
  }
  return {};
}

Result<void> TcpWire::read(int peer) {
  Connection &connection = connections[peer];
  for (size_t got = 0; got < readAtOnce && connection.isOpen;) {
    // The rest of a payload goes to its place, and with it comes the header of
    // what follows. Few bytes more are read, since they have to be copied.
    std::span<std::byte> rest;
    if (connection.frame)
      rest = {connection.place + connection.placeBytes,
              connection.frame->bytes - connection.placeBytes};
    std::span<std::byte> beyond =
        std::span(ahead).first(rest.empty() ? ahead.size() : ahead.size() / 4);
    iovec parts[] = {{rest.data(), rest.size()},
                     {beyond.data(), beyond.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    ssize_t count = recvmsg(connection.socket.get(), &message, MSG_DONTWAIT);
    if (count < 0 && isNothingNow(errno))
      return {};
    if (count <= 0) {
      end(peer, count == 0 ? "" : std::strerror(errno));
      return {};
    }
    size_t bytes = count, placed = std::min(bytes, rest.size());
    if (auto taken = take(peer, rest.first(placed)); !taken)
      return taken;
    if (auto taken = take(peer, beyond.first(bytes - placed)); !taken)
      return taken;
    if (bytes < rest.size() + beyond.size())
      return {}; // there is no more
    got += bytes;
  }
  return {};
}

Result<void> TcpWire::flush() {
  for (int peer : std::exchange(toFlush, {}))
    if (!connections[peer].wantsWriting) // else the socket says when
      if (auto flushed = flush(peer); !flushed)
        return flushed;
  return {};
}

Result<void> TcpWire::await(int milliseconds) {
  if (unopened > 0)
    milliseconds = std::min(milliseconds, 5);
  eventCount =
      epoll_wait(epoll.get(), events.data(), int(events.size()), milliseconds);
  if (eventCount < 0 && errno != EINTR)
    return systemError("watching connections");
  return {};
}

Result<void> TcpWire::progress() {
  if (unopened > 0 || !calls.empty()) {
    int64_t now = monotonicNanoseconds();
    if (auto called = callOthers(now); !called)
      return called;
    for (auto call = calls.begin(); call != calls.end(); ++call)
      if (call->isThere && now > call->until)
        giveUp(call);
    std::erase_if(calls, [](const Call &call) { return !call.isThere; });
  }
  for (int n = 0, count = std::exchange(eventCount, 0); n < count; ++n)
    if (auto handled = handle(events[n]); !handled)
      return handled;
  return flush();
}

Result<void> TcpWire::look() {
  std::array<epoll_event, 8> found;
  int count = epoll_wait(epoll.get(), found.data(), int(found.size()), 0);
  for (int n = 0; n < count; ++n)
    if (found[n].data.u64 < bellTag) // the others are for who waits
      if (auto handled = handle(found[n]); !handled)
        return handled;
  return {};
}

Result<void> TcpWire::handle(const epoll_event &event) {
  uint64_t tag = event.data.u64;
  if (tag == bellTag) {
    uint64_t rings;
    [[maybe_unused]] ssize_t ignored = ::read(bell, &rings, sizeof(rings));
    return {};
  }
  if (tag == listenerTag) {
    acceptAll(monotonicNanoseconds());
    return {};
  }
  if (tag == alsoTag)
    return {};
  if (tag == callTag) {
    for (auto call = calls.begin(); call != calls.end(); ++call)
      if (call->isThere)
        if (auto said = converse(call); !said)
          return said;
    return {};
  }
  int peer = static_cast<int>(tag);
  const Connection &connection = connections[peer];
  if (connection.isDeaf && (event.events & (EPOLLHUP | EPOLLERR)))
    end(peer, "");
  else if (connection.isOpen && (event.events & ~uint32_t(EPOLLOUT)))
    if (auto read = this->read(peer); !read)
      return ignore(peer, read.error());
  if (connection.isOpen && (event.events & EPOLLOUT))
    return flush(peer);
  return {};
}

} // namespace polyrank::runtime::net
