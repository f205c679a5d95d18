// The launcher's end of the way by which ranks come whose processes it has not
// started: a socket of this machine, where they get what a child inherits.

#pragma once

#include "runtime/launch/RankProcess.h"

#include <memory>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Where guests (Guest.h) come in. Its socket is abstract: it has a name and no
/// file, and vanishes with its process. Only processes of the same
/// user come in, and only such as run the same build.
class GuestDoor {
public:
  /// Fails if another process of this machine (more exactly, of its network
  /// namespace) has the name. checkJobName finds the name right.
  static Result<GuestDoor> open(const std::string &name);
  /// The same under a name that is drawn at random.
  static Result<GuestDoor> open();

  /// What a guest needs to know to come (comeAsGuest).
  const std::string &name() const { return title; }

  /// A process that asks to be a rank.
  struct Request {
    Descriptor socket, pidFile;
    int pid = 0, rank = -1;
    /// The SHA-256 of the plan that the process knows; empty: it knows none.
    std::string planHash;
  };
  /// Returns the requests that have come. Does not wait. A process that may not
  /// come in is refused, and told why.
  std::vector<Request> look();
  /// The descriptors that are readable when `look` finds something new.
  std::vector<int> descriptors() const;

  /// Tells the process why it cannot be the rank, and with which status it is
  /// to end.
  static void refuse(const Request &request, const Error &why);
  /// Hands the process all that the rank needs.
  static Result<std::unique_ptr<RankProcess>> admit(Request request,
                                                    const RankStart &start);

private:
  /// A process that has not asked for anything yet.
  struct Caller {
    Request request;
    std::string text;
  };
  GuestDoor() = default;
  void accept();
  /// Returns true once the caller's request is complete or it is gone.
  bool listenTo(Caller &caller, std::vector<Request> &found);

  Descriptor listener;
  std::string title;
  std::vector<Caller> callers;
};

} // namespace polyrank::runtime
