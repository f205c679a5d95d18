// A wire over UCX: how its connections begin and end.

#include "runtime/comm/net/UcxWire.h"

#include "support/Futex.h"

#include <array>
#include <cstring>
#include <poll.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// A peer is gone if its connection of TCP has ended and UCX has failed. One of
/// both is enough after this time, in which what the peer has sent before
/// arrives.
constexpr int64_t lastWords = 100'000'000;
/// How long a rank that ends lets UCX send what it was given.
constexpr int64_t longestClose = 500'000'000;

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

/// Lets UCX send what it was given, except to peers that take nothing any more.
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

} // namespace polyrank::runtime::net
