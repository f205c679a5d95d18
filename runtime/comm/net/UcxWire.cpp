// A wire over UCX: what it sends and receives.

#include "runtime/comm/net/UcxWire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// Payloads of up to this many bytes come with their headers: as many as the
/// start of a small operation carries.
constexpr size_t eagerBytes = 1 << 14;
/// How many times UCX works before others have their turn.
constexpr int mostRounds = 64;
/// How many messages of a peer may be there whose predecessor is not.
constexpr size_t mostEarly = 256;

} // namespace

void UcxWire::send(int peer, Frame frame, Payload payload) {
  std::lock_guard lock(mutex);
  Connection &connection = connections[peer];
  if (connection.isGone)
    return;
  frame = sealed(frame, options.pairing.incarnation, connection.sentFrames++,
                 payload.bytes, options.checksData);
  auto place = outgoing.insert(
      outgoing.end(),
      Outgoing{this, peer, {encode(frame), 0}, std::move(payload)});
  place->place = place;
  connection.waiting += place->size();
  if (connection.endpoint)
    post(*place);
  else
    connection.unsent.push_back(&*place);
}

void UcxWire::post(Outgoing &message) {
  Connection &connection = connections[message.peer];
  message.envelope.number = connection.numberThere;
  std::span<const std::byte> bytes = message.payload.bytes;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                     UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = bytes.size() > eagerBytes ? UCP_AM_SEND_FLAG_RNDV
                                        : UCP_AM_SEND_FLAG_EAGER;
  how.cb.send = hasSent;
  how.user_data = &message;
  ucs_status_ptr_t request = library.send(
      connection.endpoint, messageId, &message.envelope, sizeof(Envelope),
      bytes.empty() ? nullptr : bytes.data(), bytes.size(), &how);
  if (UCS_PTR_IS_ERR(request)) {
    hasFailed(&connection, connection.endpoint, UCS_PTR_STATUS(request));
    forget(message);
  } else if (!request) {
    hasSent(nullptr, UCS_OK, &message);
  }
}

void UcxWire::hasSent(void *request, ucs_status_t status, void *outgoing) {
  auto &message = *static_cast<Outgoing *>(outgoing);
  UcxWire &wire = *message.wire;
  if (status == UCS_OK && message.payload.token)
    wire.handed.push_back(std::move(message.payload.token));
  wire.forget(message);
  if (request)
    wire.library.freeRequest(request);
}

void UcxWire::forget(Outgoing &message) {
  Connection &connection = connections[message.peer];
  if (!connection.isGone)
    connection.waiting -= message.size();
  outgoing.erase(message.place);
}

/// Tells the user outside of what UCX calls.
void UcxWire::tellSent() {
  for (const std::shared_ptr<void> &token : std::exchange(handed, {}))
    user.sent(token);
}

/// A message has come. It is taken when its turn comes, outside of what UCX
/// calls.
ucs_status_t UcxWire::hasCome(void *self, const void *header, size_t headerSize,
                              void *data, size_t size,
                              const ucp_am_recv_param_t *how) {
  auto &wire = *static_cast<UcxWire *>(self);
  Envelope envelope;
  if (headerSize != sizeof(envelope) || wire.isOver)
    return UCS_OK; // which drops it
  std::memcpy(&envelope, header, sizeof(envelope));
  auto peer = wire.peers.find(envelope.number);
  if (peer == wire.peers.end())
    return UCS_OK; // of another start of the job, or of nobody
  Connection &connection = wire.connections[peer->second];
  if (connection.isGone || connection.isDeaf || connection.wrong)
    return UCS_OK;
  uint32_t sequence = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&sequence, envelope.frame.data() + Frame::sequenceAt,
              sizeof(sequence));
  uint32_t next = connection.gotFrames, expected = sequence;
  if (int32_t(sequence - next) < 0 || connection.held.contains(sequence))
    expected = next + (sequence == next); // it has come already
  Result<Frame> frame =
      decode(envelope.frame, wire.options.pairing.incarnation, expected);
  if (frame && frame->bytes != size)
    frame = Error{describe(*frame) + " came with " + std::to_string(size),
                  Error::Fault::Rank};
  wire.ready.push_back(&connection);
  if (!frame) {
    connection.wrong = Error{"from " + wire.nameOf(connection.peer) + ": " +
                                 frame.error().message,
                             Error::Fault::Rank};
    return UCS_OK;
  }
  bool isElsewhere = how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV,
       stays = size > 0; // as the handler's flags have it
  connection.held[sequence] = {*frame, stays ? data : nullptr, isElsewhere};
  return stays ? UCS_INPROGRESS : UCS_OK;
}

Result<void> UcxWire::takeNext(Connection &connection, const Held &held) {
  int peer = connection.peer;
  ++connection.gotFrames;
  Result<std::byte *> place = user.placeOf(peer, held.frame);
  if (!place || held.frame.bytes == 0) {
    if (held.data)
      library.releaseData(worker.get(), held.data);
    return place ? user.arrived(peer, held.frame) : place.error();
  }
  connection.frame = held.frame;
  connection.place = *place;
  connection.received = UCS_OK;
  if (!held.isElsewhere) {
    std::memcpy(*place, held.data, held.frame.bytes);
    library.releaseData(worker.get(), held.data);
    return takePayload(connection);
  }
  connection.received.reset();
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = hasReceived;
  how.user_data = &connection;
  ucs_status_ptr_t request =
      library.receive(worker.get(), held.data, *place, held.frame.bytes, &how);
  if (!request || UCS_PTR_IS_ERR(request)) {
    connection.received = UCS_PTR_STATUS(request);
    return takePayload(connection);
  }
  return {};
}

void UcxWire::hasReceived(void *request, ucs_status_t status, size_t,
                          void *given) {
  auto &connection = *static_cast<Connection *>(given);
  connection.received = status;
  connection.wire->ready.push_back(&connection);
  connection.wire->library.freeRequest(request);
}

/// Called when the receipt of a payload has ended.
Result<void> UcxWire::takePayload(Connection &connection) {
  Frame frame = *std::exchange(connection.frame, std::nullopt);
  if (*connection.received != UCS_OK) {
    hasFailed(&connection, connection.endpoint, *connection.received);
    connection.isDeaf = true; // what follows has lost its predecessor
    drop(connection);
    return {};
  }
  if (Result<void> whole =
          checkPayload(frame, connection.place, options.checksData);
      !whole)
    return whole.error().saying("from " + nameOf(connection.peer) + ": " +
                                whole.error().message);
  return user.arrived(connection.peer, frame);
}

Result<void> UcxWire::take(Connection &connection) {
  while (connection.endpoint && !connection.isDeaf &&
         (!connection.frame || connection.received)) {
    Result<void> taken;
    auto next = connection.held.find(connection.gotFrames);
    if (connection.frame) {
      taken = takePayload(connection);
    } else if (next != connection.held.end()) {
      Held held = next->second;
      connection.held.erase(next);
      taken = takeNext(connection, held);
    } else if (connection.wrong) {
      taken = *connection.wrong;
    } else if (connection.held.size() > mostEarly) {
      taken = Error{"from " + nameOf(connection.peer) + ": message " +
                        std::to_string(connection.gotFrames) +
                        " has not come, and " +
                        std::to_string(connection.held.size()) + " after it",
                    Error::Fault::Rank};
    } else {
      return {};
    }
    if (!taken) { // nothing more is taken of it
      connection.isDeaf = true;
      drop(connection);
      return taken;
    }
  }
  return {};
}

/// Lets go of what has come and is not taken.
void UcxWire::drop(Connection &connection) {
  for (auto &[sequence, held] : std::exchange(connection.held, {}))
    if (held.data)
      library.releaseData(worker.get(), held.data);
}

Result<void> UcxWire::drive() {
  Result<void> all;
  auto takeReady = [&] {
    for (Connection *each : std::exchange(ready, {}))
      if (Result<void> taken = take(*each); !taken && all)
        all = taken;
  };
  int rounds = 0;
  do
    takeReady();
  while (library.progress(worker.get()) != 0 && ++rounds < mostRounds);
  takeReady();
  if (ending > 0)
    for (Connection &connection : connections)
      endIfGone(connection);
  forgetClosed();
  tellSent();
  return all;
}

Result<void> UcxWire::flush() {
  std::lock_guard lock(mutex);
  tellSent();
  return tcp->flush();
}

Result<void> UcxWire::look() {
  std::lock_guard lock(mutex);
  if (Result<void> looked = tcp->look(); !looked)
    return looked;
  return drive();
}

Result<void> UcxWire::await(int milliseconds) {
  {
    std::lock_guard lock(mutex);
    // If something has come before this call, there is no wait; what comes
    // after it ends the wait.
    ucs_status_t status = library.arm(worker.get());
    if (status == UCS_ERR_BUSY)
      milliseconds = 0;
    else if (status != UCS_OK)
      return failure("wait for messages", status);
    if (ending > 0)
      milliseconds = std::min(milliseconds, shortWait);
  }
  return tcp->await(milliseconds);
}

Result<void> UcxWire::progress() {
  std::lock_guard lock(mutex);
  Result<void> done = tcp->progress();
  Result<void> driven = drive();
  return done ? driven : done;
}

} // namespace polyrank::runtime::net
