// Sends and receives over UCX.

#include "runtime/comm/net/UcxWire.h"

#include "support/Futex.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <poll.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

constexpr unsigned messageId = 1;
/// A payload of so many bytes comes with its header, as much as the start of a
/// small operation carries.
constexpr size_t eagerBytes = 1 << 14;
/// How many times UCX works before others have their turn.
constexpr int mostRounds = 64;
/// How many messages of a peer may be there whose predecessor is not.
constexpr size_t mostEarly = 256;
/// A peer is gone if its connection of TCP has ended and UCX has failed. One of
/// both is enough after this time, in which what the peer has sent before
/// arrives.
constexpr int64_t lastWords = 100'000'000;
/// How long a rank that ends lets UCX send what it was given.
constexpr int64_t longestClose = 2'000'000'000;

/// How long `await` may take while such a time is being measured.
constexpr int shortWait = 10; // milliseconds

} // namespace

Result<std::unique_ptr<Wire>> createUcxWire(const TcpOptions &options,
                                            const JobKey &key,
                                            Descriptor listener, int bell,
                                            WireUser &user) {
  POLYRANK_ASSIGN(library, UcxLibrary::get());
  return UcxWire::create(*library, options, key, std::move(listener), bell,
                         user);
}

Result<std::unique_ptr<Wire>> UcxWire::create(const UcxLibrary &library,
                                              const TcpOptions &options,
                                              const JobKey &key,
                                              Descriptor listener, int bell,
                                              WireUser &user) {
  std::unique_ptr<UcxWire> wire(new UcxWire(library, options, user));
  if (auto opened = wire->open(key, std::move(listener), bell); !opened)
    return opened.error();
  return std::unique_ptr<Wire>(std::move(wire));
}

UcxWire::UcxWire(const UcxLibrary &library, const TcpOptions &given,
                 WireUser &user)
    : library(library), options(given), user(user),
      connections(given.listeners.size()), context(nullptr, {&library}),
      worker(nullptr, {&library}), bodies(given.listeners.size()) {
  for (size_t peer = 0; peer < connections.size(); ++peer) {
    connections[peer].wire = this;
    connections[peer].peer = static_cast<int>(peer);
  }
}

Error UcxWire::failure(const std::string &what, ucs_status_t status) const {
  return Error{"UCX failed to " + what + ": " + library.statusString(status) +
                   ". UCX_LOG_LEVEL=info has it say more, UCX_TLS and "
                   "UCX_NET_DEVICES say what it uses (ucx_info -d), and --wire "
                   "tcp does without it",
               Error::Fault::Rank};
}

Result<void> UcxWire::open(const JobKey &key, Descriptor listener, int bell) {
  ucp_config_t *config = nullptr;
  if (auto status = library.readConfig(nullptr, nullptr, &config))
    return failure("read its settings", status);
  ucp_params_t wanted{};
  wanted.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  wanted.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  wanted.estimated_num_eps = connections.size();
  ucp_context_h made = nullptr;
  ucs_status_t status =
      library.init(UCP_API_MAJOR, UCP_API_MINOR, &wanted, config, &made);
  library.releaseConfig(config);
  if (status != UCS_OK)
    return failure("start", status);
  context.reset(made);
  ucp_worker_params_t how{};
  how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  how.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h begun = nullptr;
  if (auto failed = library.createWorker(made, &how, &begun))
    return failure("make a worker", failed);
  worker.reset(begun);
  ucp_am_handler_param_t handler{};
  handler.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = messageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = hasCome;
  handler.arg = this;
  if (auto failed = library.setHandler(begun, &handler))
    return failure("receive messages", failed);
  ucp_address_t *own = nullptr;
  size_t size = 0;
  if (auto failed = library.getAddress(begun, &own, &size))
    return failure("tell its address", failed);
  auto *bytes = reinterpret_cast<const std::byte *>(own);
  address.assign(bytes, bytes + size);
  library.releaseAddress(begun, own);
  if (auto failed = library.getDescriptor(begun, &options.also))
    return failure("wait for messages", failed);
  POLYRANK_ASSIGN(begunTcp, TcpWire::create(options, key, std::move(listener),
                                            bell, *this));
  tcp = std::move(begunTcp);
  return {};
}

std::string UcxWire::nameOf(int peer) const {
  return "rank " + std::to_string(peer) + " (" +
         options.listeners[peer].address + ")";
}

// -- Connecting

/// Both have proved themselves: the peer is told this worker's address, and the
/// number by which its messages are known.
void UcxWire::connected(int peer, uint32_t process) {
  connections[peer].process = process;
  std::array<uint8_t, sizeof(uint64_t)> random;
  drawRandom(random);
  uint64_t number = 0;
  std::memcpy(&number, random.data(), sizeof(number));
  peers[number] = peer;
  auto body = std::make_shared<std::vector<std::byte>>(sizeof(number));
  std::memcpy(body->data(), &number, sizeof(number));
  body->insert(body->end(), address.begin(), address.end());
  Frame frame;
  frame.kind = FrameKind::Address;
  tcp->send(peer, frame, {*body, body, {}});
}

Result<std::byte *> UcxWire::placeOf(int peer, const Frame &frame) {
  bodies[peer].resize(frame.bytes);
  return bodies[peer].data();
}

/// A peer has told its worker's address.
Result<void> UcxWire::arrived(int peer, const Frame &frame) {
  Connection &connection = connections[peer];
  const std::vector<std::byte> &body = bodies[peer];
  if (frame.kind != FrameKind::Address ||
      frame.bytes <= sizeof(connection.numberThere) || connection.endpoint)
    return Error{nameOf(peer) + " sent a " + describe(frame) +
                     " in place of its address: all machines need the same "
                     "--wire",
                 Error::Fault::Rank};
  std::memcpy(&connection.numberThere, body.data(),
              sizeof(connection.numberThere));
  ucp_ep_params_t how{};
  how.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                   UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                   UCP_EP_PARAM_FIELD_ERR_HANDLER;
  how.address = reinterpret_cast<const ucp_address_t *>(
      body.data() + sizeof(connection.numberThere));
  how.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  how.err_handler = {hasFailed, &connection};
  if (auto status =
          library.createEndpoint(worker.get(), &how, &connection.endpoint)) {
    connection.endpoint = nullptr;
    return failure("reach " + nameOf(peer), status);
  }
  for (Outgoing *each : std::exchange(connection.unsent, {}))
    post(*each);
  ready.push_back(&connection); // its messages may have come already
  user.connected(peer, connection.process);
  return {};
}

// -- Sending

void UcxWire::send(int peer, Frame frame, Payload payload) {
  std::lock_guard lock(mutex);
  Connection &connection = connections[peer];
  if (connection.isGone)
    return;
  frame.incarnation = options.pairing.incarnation;
  frame.sequence = connection.sentFrames++;
  frame.bytes = static_cast<uint32_t>(payload.bytes.size());
  frame.checksum = payloadSum(frame.kind, payload.bytes, options.checksData);
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

// -- Receiving

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
    return {};
  }
  if (payloadSum(frame.kind, {connection.place, frame.bytes},
                 options.checksData) != frame.checksum)
    return Error{"from " + nameOf(connection.peer) + ": " + describe(frame) +
                     " has changed on its way",
                 Error::Fault::Rank};
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

// -- Ends

/// UCX has failed to reach a peer.
void UcxWire::hasFailed(void *given, ucp_ep_h, ucs_status_t status) {
  auto &connection = *static_cast<Connection *>(given);
  if (connection.failure == UCS_OK)
    connection.failure = status;
  connection.wire->beginsToEnd(connection);
}

void UcxWire::beginsToEnd(Connection &connection) {
  if (connection.isGone || connection.endsAt != 0)
    return;
  connection.endsAt = monotonicNanoseconds() + lastWords;
  ++ending;
}

/// The connection of TCP has ended.
void UcxWire::gone(int peer, const std::string &why) {
  Connection &connection = connections[peer];
  connection.why = why;
  beginsToEnd(connection);
}

void UcxWire::endIfGone(Connection &connection) {
  if (connection.isGone || connection.endsAt == 0)
    return;
  bool isCertain = connection.why && connection.failure != UCS_OK;
  if (!isCertain && monotonicNanoseconds() < connection.endsAt)
    return;
  drop(connection);
  connection.isGone = true;
  connection.waiting = 0;
  for (Outgoing *each : std::exchange(connection.unsent, {}))
    forget(*each);
  --ending;
  if (ucp_ep_h endpoint = std::exchange(connection.endpoint, nullptr))
    close(endpoint, true);
  user.gone(connection.peer,
            connection.why ? *connection.why
                           : std::string("UCX: ") +
                                 library.statusString(connection.failure));
}

void UcxWire::close(ucp_ep_h endpoint, bool force) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  ucs_status_ptr_t request = library.closeEndpoint(endpoint, &how);
  if (UCS_PTR_IS_PTR(request))
    closing.push_back(request);
}

void UcxWire::forgetClosed() {
  std::erase_if(closing, [&](void *request) {
    if (library.checkStatus(request) == UCS_INPROGRESS)
      return false;
    library.freeRequest(request);
    return true;
  });
}

/// What UCX was given is sent, unless a peer takes nothing any more.
void UcxWire::closeAll() {
  isOver = true;
  for (Connection &connection : connections) {
    drop(connection);
    if (ucp_ep_h endpoint = std::exchange(connection.endpoint, nullptr))
      close(endpoint, connection.endsAt != 0);
  }
  int64_t until = monotonicNanoseconds() + longestClose;
  while (!closing.empty() && monotonicNanoseconds() < until) {
    if (library.progress(worker.get()) == 0 &&
        library.arm(worker.get()) == UCS_OK) {
      pollfd ready{options.also, POLLIN, 0};
      poll(&ready, 1, shortWait);
    }
    forgetClosed();
  }
  for (void *request : std::exchange(closing, {}))
    library.freeRequest(request);
}

UcxWire::~UcxWire() {
  if (worker)
    closeAll();
  worker.reset(); // which may still tell of what was under way
}

// -- Turns

Result<void> UcxWire::drive() {
  Result<void> all;
  int rounds = 0;
  do {
    for (Connection *each : std::exchange(ready, {}))
      if (Result<void> taken = take(*each); !taken && all)
        all = taken;
  } while (library.progress(worker.get()) != 0 && ++rounds < mostRounds);
  for (Connection *each : std::exchange(ready, {}))
    if (Result<void> taken = take(*each); !taken && all)
      all = taken;
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
    // What has come before this is done at once; what comes after it, wakes.
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
