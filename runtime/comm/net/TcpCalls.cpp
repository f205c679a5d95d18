// Connections of TCP until they are open: calls, and their proofs.

#include "runtime/comm/net/TcpWire.h"

#include "support/Futex.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace polyrank::runtime::net {
namespace {

constexpr size_t mostCalls = 64; // that have not proved themselves
constexpr int64_t callTime = 5'000'000'000;
constexpr int64_t firstPause = 5'000'000, longestPause = 1'000'000'000;

} // namespace

/// Calls the ranks with higher numbers that are not there yet.
Result<void> TcpWire::callOthers(int64_t now) {
  for (size_t peer = 0; unopened > 0 && peer < connections.size(); ++peer) {
    Connection &each = connections[peer];
    bool isCalled =
        std::any_of(calls.begin(), calls.end(), [&](const Call &other) {
          return other.isThere && other.peer == int(peer);
        });
    if (int(peer) <= options.self || isNear(int(peer)) || each.isOpen ||
        each.isGone || isCalled || now < each.callAt)
      continue;
    if (auto begun = call(int(peer), now); !begun)
      return begun;
  }
  return {};
}

Result<void> TcpWire::call(int peer, int64_t now) {
  Connection &each = connections[peer];
  if (now > each.callUntil)
    return Error{nameOf(peer) + " does not answer rank " +
                     std::to_string(options.self),
                 Error::Fault::Rank};
  each.pause = std::min(std::max(firstPause, 2 * each.pause), longestPause);
  each.callAt = now + each.pause;
  const auto &[address, port] = options.listeners[peer];
  POLYRANK_ASSIGN(found, resolve(address, port));
  if (found.empty())
    return Error{nameOf(peer) + " has no address", Error::Fault::Rank};
  Result<Descriptor> socket = beginConnect(found.front(), "");
  if (!socket)
    return {}; // again after a pause
  Pairing pairing = options.pairing;
  pairing.caller = static_cast<uint32_t>(options.self);
  pairing.called = static_cast<uint32_t>(peer);
  std::vector<uint8_t> hello;
  RankProof proof = RankProof::ofCaller(key, pairing, options.process, hello);
  Call &begun = calls.emplace_back(
      Call{std::move(*socket), std::move(proof), {}, {}, now + callTime, peer});
  begun.queue.add(hello);
  return watch(begun.socket.get(), callTag, true, true);
}

void TcpWire::acceptAll(int64_t now) {
  SocketAddress from;
  while (true) {
    Descriptor socket = acceptFrom(listener, from);
    if (socket.get() < 0)
      return;
    if (std::count_if(calls.begin(), calls.end(), [](const Call &each) {
          return each.peer < 0;
        }) >= static_cast<ptrdiff_t>(mostCalls))
      continue; // which closes it
    Pairing expected = options.pairing;
    expected.called = static_cast<uint32_t>(options.self);
    Call &call = calls.emplace_back(
        Call{std::move(socket),
             RankProof::ofCalled(key, expected, options.process),
             {},
             {},
             now + callTime,
             -1});
    if (!watch(call.socket.get(), callTag, false, true))
      giveUp(std::prev(calls.end()));
  }
}

/// Ends a connection that is not proved. It is erased by `progress`.
void TcpWire::giveUp(std::list<Call>::iterator call) {
  call->isThere = false;
  call->socket.close();
}

Result<void> TcpWire::converse(std::list<Call>::iterator call) {
  if (!call->queue.flush(call->socket)) {
    giveUp(call);
    return {};
  }
  while (call->isThere && !call->proof.isDone()) {
    size_t missing = call->proof.wanted() - call->got.size();
    uint8_t bytes[256];
    ssize_t count =
        recv(call->socket.get(), bytes, std::min(missing, sizeof(bytes)), 0);
    if (count < 0 && isNothingNow(errno))
      return watch(call->socket.get(), callTag, !call->queue.isEmpty(), false);
    if (count <= 0) {
      giveUp(call);
      return {};
    }
    call->got.insert(call->got.end(), bytes, bytes + count);
    if (call->got.size() < call->proof.wanted())
      continue;
    std::vector<uint8_t> reply;
    Result<void> proved = call->proof.receive(call->got, reply);
    call->got.clear();
    if (!proved) {
      int peer = call->peer;
      giveUp(call);
      // Whoever calls this rank may be anybody; but it was told whom to call.
      if (peer >= 0)
        return Error{nameOf(peer) + ": " + proved.error().message,
                     Error::Fault::Rank};
      return {};
    }
    call->queue.add(reply);
    if (!call->queue.flush(call->socket)) {
      giveUp(call);
      return {};
    }
  }
  if (call->isThere && call->proof.isDone() && call->queue.isEmpty())
    return open(call);
  return {};
}

Result<void> TcpWire::open(std::list<Call>::iterator call) {
  int peer = static_cast<int>(call->proof.peer());
  bool isExpected = peer >= 0 && peer < int(connections.size()) &&
                    !isNear(peer) && (call->peer >= 0) == (peer > options.self);
  if (!isExpected || connections[peer].isOpen || connections[peer].isGone) {
    giveUp(call);
    return {};
  }
  Connection &connection = connections[peer];
  connection.socket = std::move(call->socket);
  connection.isOpen = true;
  unopened -= peer > options.self;
  call->isThere = false;
  if (auto watched = watch(connection.socket.get(), peer, true, false);
      !watched)
    return watched;
  connection.wantsWriting = true;
  user.connected(peer, call->proof.process());
  return {};
}

} // namespace polyrank::runtime::net
