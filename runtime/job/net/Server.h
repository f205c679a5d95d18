// The connections of a coordinator: they are let in, proved, read and written.

#pragma once

#include "runtime/job/net/Coordinator.h"
#include "runtime/job/net/Door.h"
#include "runtime/job/net/Handshake.h"
#include "runtime/job/net/Sockets.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

class Server {
public:
  using Time = std::chrono::nanoseconds;
  using Link = Coordinator::Link;

  /// `log` shows one line to the user.
  static Result<Server> open(std::vector<Descriptor> listeners,
                             const JobKey &key, uint64_t incarnation,
                             std::function<void(const std::string &)> log);
  Server(Server &&) = default;

  /// Readable when `serve` has something to do.
  int descriptor() const { return events.get(); }
  /// When `serve` has something to do at the latest.
  Time nextTime(Time now) const;
  /// Reads and writes what is ready, and tells the coordinator what happens. It
  /// does not wait.
  void serve(Coordinator &coordinator, Time now);
  /// Sends a message, or with none closes the connection once all is sent.
  void apply(const Coordinator::Action &action, Coordinator &coordinator,
             Time now);

  /// Nobody comes from now on, and another server can have the port. The
  /// connections stay.
  void stopListening() { listeners.clear(); }

  /// Whoever comes from now on is told this incarnation.
  void setIncarnation(uint64_t now) { incarnation = now; }

  /// The address of this machine to which the first node came.
  const std::string &ownAddress() const { return own; }

  /// Connections that are there, those that are being closed included.
  size_t size() const { return connections.size(); }

private:
  struct Connection {
    Descriptor socket;
    std::string address; // "10.0.0.2", without its port
    std::optional<CoordinatorHandshake> handshake; // until it is proved
    std::optional<SealedStream> stream;            // after that
    SendQueue out;
    bool wantsToSend = false;         // as epoll knows it
    std::optional<Time> closingSince; // sent all, waits for the other end
    bool closes = false;              // once all is sent
  };
  Server(const JobKey &key, uint64_t incarnation,
         std::function<void(const std::string &)> log)
      : key(key), incarnation(incarnation), log(std::move(log)) {}

  void acceptAll(Time now);
  void dismissCallers(Time now);
  void armListeners(bool armed);
  bool othersWait() const;
  void read(Link link, Coordinator &coordinator, Time now);
  Result<void> take(Link link, Connection &connection,
                    std::span<const uint8_t> bytes, Coordinator &coordinator,
                    Time now);
  void flush(Link link, Coordinator &coordinator, Time now);
  /// The connection is gone, or to be gone at once.
  void remove(Link link, const std::string &why, Coordinator &coordinator,
              Time now);
  void refuseCaller(const Connection &connection, const std::string &why,
                    Time now);

  JobKey key;
  uint64_t incarnation;
  std::function<void(const std::string &)> log;
  Descriptor events;
  std::vector<Descriptor> listeners;
  bool armed = false;
  Time armAgain{}; // after the system had no descriptor left
  Door door;
  /// The clock of the door. It goes on by at most 100 ms from one `serve` to
  /// the next: what has come while this process did not run is read first.
  Time doorTime{};
  std::optional<Time> lastServed;
  std::map<Link, Connection> connections;
  std::string own;
  Link next = 1;
};

} // namespace polyrank::runtime::net
