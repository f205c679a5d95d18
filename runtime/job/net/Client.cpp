// Attempts to connect, and what follows.

#include "runtime/job/net/Client.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;

constexpr Client::Time firstPause = 50ms, longestPause = 2s;
constexpr Client::Time connectTime = 5s, proofTime = 5s;
constexpr size_t mostAtOnce = 256 << 10;

} // namespace

Client::Client(const Options &options, const JobKey &key)
    : options(options), key(key), pause(firstPause),
      jitter(std::random_device()()) {}

std::string Client::where() const {
  return options.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", options.host, options.port)
             : fmt::format("[{}]:{}", options.host, options.port);
}

bool Client::isToLookUp(Time now) const {
  return stage == Stage::Pausing && !hopeless && now >= until &&
         addresses.empty();
}

Result<std::vector<SocketAddress>> Client::lookUp() const {
  return resolve(options.host, options.port);
}

void Client::found(const Result<std::vector<SocketAddress>> &answer, Time now) {
  if (!answer)
    return failed(answer.error().message, now);
  addresses = *answer;
  if (options.onlyLoopback) {
    std::erase_if(addresses, [](const SocketAddress &address) {
      return !address.isLoopback();
    });
    if (addresses.empty()) {
      hopeless = Error{fmt::format(
          "machine 0 is at '{}', which is not this machine, and without a key "
          "no machine connects to another one: make a key by polyrank-run "
          "--new-key FILE, copy it to all machines, and give --key FILE on "
          "each",
          options.host)};
      return;
    }
  }
  if (addresses.empty())
    failed(fmt::format("'{}' has no address", options.host), now);
}

void Client::serve(Node &node, Time now) {
  switch (stage) {
  case Stage::Pausing:
    if (now >= until && !addresses.empty() && !hopeless)
      begin(now);
    break;
  case Stage::Connecting: {
    pollfd file{socket.get(), POLLOUT, 0};
    if (poll(&file, 1, 0) <= 0) {
      if (now >= until)
        failed("it does not answer", now);
      break;
    }
    if (int error = connectError(socket))
      failed(std::strerror(error), now);
    else
      prove(now);
    break;
  }
  case Stage::Proving:
    if (now >= until) {
      failed("what answers there is no polyrank-run", now);
      break;
    }
    read(node, now);
    break;
  case Stage::Open:
    read(node, now);
    break;
  }
}

void Client::begin(Time now) {
  current = addresses.front();
  addresses.erase(addresses.begin());
  Result<Descriptor> begun = beginConnect(current, options.from);
  if (!begun)
    return failed(begun.error().message, now);
  socket = std::move(*begun);
  stage = Stage::Connecting;
  until = now + connectTime;
}

void Client::prove(Time now) {
  Nonce nonce;
  drawRandom(nonce);
  handshake.emplace(key, options.claim, nonce);
  out = {};
  out.add(handshake->hello());
  stage = Stage::Proving;
  until = now + proofTime;
  if (Result<void> sent = out.flush(socket); !sent)
    failed(sent.error().message, now);
}

void Client::read(Node &node, Time now) {
  if (Result<void> sent = out.flush(socket); !sent) {
    node.disconnected(sent.error().message, now);
    return failed(sent.error().message, now);
  }
  std::vector<uint8_t> bytes;
  Result<void> got = readSome(
      socket, bytes, stage == Stage::Open ? mostAtOnce : mostBytesBeforeProof);
  if (!bytes.empty())
    if (Result<void> taken = take(bytes, node, now); !taken)
      got = taken;
  if (got)
    return;
  node.disconnected(got.error().message, now);
  failed(got.error().message, now);
}

Result<void> Client::take(std::span<const uint8_t> bytes, Node &node,
                          Time now) {
  std::vector<uint8_t> pending(bytes.begin(), bytes.end());
  if (stage == Stage::Proving) {
    std::vector<uint8_t> reply;
    Result<void> taken = handshake->receive(bytes, reply);
    if (!taken) {
      if (taken.error().fault == Error::Fault::Input)
        hopeless = Error{
            fmt::format("machine 0 at {}: {}", where(), taken.error().message)};
      return taken;
    }
    out.add(reply);
    if (Result<void> sent = out.flush(socket); !sent)
      return sent;
    if (!handshake->isDone())
      return {};
    stream = handshake->stream();
    drawn = handshake->incarnation();
    pending = handshake->rest();
    handshake.reset();
    stage = Stage::Open;
    pause = firstPause;
    node.connected(localAddress(socket).host(), now);
  }
  std::vector<Message> messages;
  Result<void> taken = stream->receive(pending, messages);
  drawn = stream->incarnation();
  for (const Message &message : messages)
    node.received(message, now);
  return taken;
}

void Client::send(const Message &message, Node &node, Time now) {
  if (stage != Stage::Open)
    return;
  out.add(stream->seal(message));
  if (Result<void> sent = out.flush(socket); !sent) {
    node.disconnected(sent.error().message, now);
    failed(sent.error().message, now);
  }
}

void Client::close() {
  socket = Descriptor();
  stage = Stage::Pausing;
  stream.reset();
  handshake.reset();
  out = {};
}

void Client::failed(const std::string &why, Time now) {
  close();
  last = why;
  until = now;
  if (!addresses.empty())
    return;
  // All machines of a job begin at once: they must not come at once again and
  // again.
  std::uniform_real_distribution<double> share(0.5, 1.0);
  until = now + std::chrono::duration_cast<Time>(pause * share(jitter));
  pause = std::min(pause * 2, longestPause);
}

short Client::events() const {
  if (stage == Stage::Connecting)
    return POLLOUT;
  return out.isEmpty() ? POLLIN : POLLIN | POLLOUT;
}

Client::Time Client::nextTime(Time now) const {
  if (hopeless || stage == Stage::Open)
    return now + 1s;
  return until;
}

} // namespace polyrank::runtime::net
