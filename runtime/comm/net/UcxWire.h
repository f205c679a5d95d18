// Frames as active messages of UCX.
//
// A message has a header, which is that of the frame and a number by which the
// receiver knows the sender, and the frame's payload. Small payloads come with
// the header. Of others UCX tells the receiver, who says where they go, and
// moves them there: by the adapter, where the network has such.
//
// UCX promises no order between messages. The receiver keeps what comes early,
// and takes one frame of a peer at a time, as it would from a stream.

#pragma once

#include "runtime/comm/net/Ucx.h"
#include "runtime/comm/net/UcxLibrary.h"

#include <array>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

class UcxWire : public Wire, private WireUser {
public:
  static Result<std::unique_ptr<Wire>>
  create(const UcxLibrary &library, const TcpOptions &options,
         const JobKey &key, Descriptor listener, int bell, WireUser &user);
  ~UcxWire() override;

  void send(int peer, Frame frame, Payload payload) override;
  size_t queued(int peer) const override { return connections[peer].waiting; }
  Result<void> flush() override;
  Result<void> look() override;
  Result<void> await(int milliseconds) override;
  Result<void> progress() override;

private:
  /// The header of a message.
  struct Envelope {
    std::array<std::byte, Frame::size> frame;
    uint64_t number; // which the receiver has given the sender
  };
  struct Outgoing {
    UcxWire *wire;
    int peer;
    Envelope envelope;
    Payload payload;
    std::list<Outgoing>::iterator place = {}; // in `outgoing`
    size_t size() const { return Frame::size + payload.bytes.size(); }
  };
  /// A message that has come and whose turn has not.
  struct Held {
    Frame frame;
    void *data = nullptr; // or where UCX gets it from
    bool isElsewhere = false;
  };
  struct Connection {
    UcxWire *wire = nullptr;
    int peer = 0;
    uint32_t process = 0;
    uint64_t numberThere = 0; // what this rank is to the peer
    ucp_ep_h endpoint = nullptr;
    bool isGone = false;
    bool isDeaf = false;            // what comes is not taken any more
    std::vector<Outgoing *> unsent; // until there is an endpoint
    size_t waiting = 0;             // bytes that UCX has not sent yet
    uint32_t sentFrames = 0, gotFrames = 0;
    std::map<uint32_t, Held> held; // by sequence
    std::optional<Error> wrong;    // what came
    /// The frame whose payload is being received, where that goes, and how that
    /// has ended.
    /// @{
    std::optional<Frame> frame;
    std::byte *place = nullptr;
    std::optional<ucs_status_t> received;
    /// @}
    // Two things say that the peer is gone: its connection of TCP has ended,
    // because of `why`; UCX has failed.
    std::optional<std::string> why;
    ucs_status_t failure = UCS_OK;
    int64_t endsAt = 0; // when the one that came first is enough
  };

  static constexpr unsigned messageId = 1;
  /// How long, in milliseconds, an `await` may take while a time is measured
  /// after which a peer is gone.
  static constexpr int shortWait = 10;

  UcxWire(const UcxLibrary &library, const TcpOptions &options, WireUser &user);
  Result<void> open(const JobKey &key, Descriptor listener, int bell);
  Error failure(const std::string &what, ucs_status_t status) const;
  std::string nameOf(int peer) const;

  // The connections of TCP call these; the addresses of workers go over them.
  Result<std::byte *> placeOf(int peer, const Frame &frame) override;
  Result<void> arrived(int peer, const Frame &frame) override;
  void sent(const std::shared_ptr<void> &) override {}
  void connected(int peer, uint32_t process) override;
  void gone(int peer, const std::string &why) override;

  // What UCX calls.
  static ucs_status_t hasCome(void *wire, const void *header, size_t headerSize,
                              void *data, size_t size,
                              const ucp_am_recv_param_t *how);
  static void hasSent(void *request, ucs_status_t status, void *outgoing);
  static void hasReceived(void *request, ucs_status_t status, size_t size,
                          void *connection);
  static void hasFailed(void *connection, ucp_ep_h endpoint,
                        ucs_status_t status);

  // UcxConnections.cpp
  void endIfGone(Connection &connection);
  /// Lets UCX close an endpoint; with `force` it forgets what is under way.
  void close(ucp_ep_h endpoint, bool force);
  void closeAll();
  void forgetClosed();
  void beginsToEnd(Connection &connection);

  // UcxWire.cpp
  void post(Outgoing &message);
  void forget(Outgoing &message);
  /// Lets UCX work, and takes what has come.
  Result<void> drive();
  /// Takes the frames of a peer whose turn has come.
  Result<void> take(Connection &connection);
  Result<void> takeNext(Connection &connection, const Held &held);
  Result<void> takePayload(Connection &connection);
  void drop(Connection &connection);
  void tellSent();

  const UcxLibrary &library;
  TcpOptions options;
  WireUser &user;
  /// Held by who uses UCX, since `await` does at the same time as others. The
  /// user may send while it is told something.
  std::recursive_mutex mutex;
  std::list<Outgoing> outgoing;        // what UCX has not finished
  std::vector<Connection> connections; // by rank
  std::map<uint64_t, int> peers;       // by the number that they have here
  UcxContext context;
  UcxWorker worker;               // destroyed before what its callbacks use
  std::vector<std::byte> address; // of the worker
  std::vector<std::vector<std::byte>> bodies; // over TCP, by rank
  std::vector<std::shared_ptr<void>> handed;  // tokens of what was sent
  std::vector<Connection *> ready;            // of which something can be taken
  std::vector<void *> closing; // requests of endpoints that are being closed
  int ending = 0;              // connections that end soon
  bool isOver = false;         // nothing that comes is taken any more
  std::unique_ptr<TcpWire> tcp;
};

} // namespace polyrank::runtime::net
