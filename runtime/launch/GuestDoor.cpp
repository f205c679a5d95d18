// A guest sends a line of JSON with the rank and its build. The answer is a
// line of JSON, either "refused" or what the rank starts with, and then the
// open files.

#include "runtime/launch/GuestDoor.h"

#include "runtime/launch/LocalSocket.h"
#include "support/Version.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr size_t mostCallers = 4096, longestRequest = 1024;

Result<Descriptor> pidFileOf(int socket, const ucred &peer) {
  int file = -1;
#ifdef SO_PEERPIDFD
  socklen_t size = sizeof(file);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &file, &size) == 0)
    return Descriptor(file);
#endif
  file = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  if (file < 0)
    return socketError(fmt::format("process {}", peer.pid));
  return Descriptor(file);
}

/// Which of the numbers are open files.
std::vector<bool> openOf(const std::vector<int> &files) {
  std::vector<bool> open;
  for (int file : files)
    open.push_back(file >= 0);
  return open;
}

} // namespace

Result<GuestDoor> GuestDoor::open() {
  std::random_device random;
  return open(fmt::format("{:08x}{:08x}{:08x}", random(), random(), random()));
}

Result<GuestDoor> GuestDoor::open(const std::string &name) {
  GuestDoor door;
  door.title = name;
  door.listener = Descriptor(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto [address, length] = addressOf(door.title);
  int bound = door.listener.get() < 0
                  ? -1
                  : bind(door.listener.get(),
                         reinterpret_cast<sockaddr *>(&address), length);
  if (bound != 0 && errno == EADDRINUSE)
    return Error{fmt::format("another run on this machine has the name '{}' "
                             "for its guests; give this one another name, or "
                             "wait until that one has ended",
                             name),
                 Error::Fault::Rank};
  if (bound != 0 || listen(door.listener.get(), SOMAXCONN) != 0)
    return socketError("a socket for ranks to come by");
  return std::move(door);
}

std::vector<int> GuestDoor::descriptors() const {
  std::vector<int> all{listener.get()};
  for (const Caller &caller : callers)
    all.push_back(caller.request.socket.get());
  return all;
}

void GuestDoor::refuse(const Request &request, const Error &why) {
  nlohmann::json answer{{"refused", why.message}, {"status", int(why.fault)}};
  sendAll(request.socket.get(), answer.dump() + "\n");
}

void GuestDoor::accept() {
  for (;;) {
    Caller caller;
    Request &request = caller.request;
    request.socket = Descriptor(accept4(listener.get(), nullptr, nullptr,
                                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (request.socket.get() < 0)
      return;
    Result<ucred> peer = peerOf(request.socket.get());
    if (!peer) {
      refuse(request, peer.error());
      continue;
    }
    if (peer->uid != geteuid()) {
      refuse(request,
             {fmt::format("the ranks of this job are processes of user {}, and "
                          "process {} is of user {}",
                          geteuid(), peer->pid, peer->uid)});
      continue;
    }
    if (peer->pid <= 0) {
      refuse(request, {"the launcher does not see the process, which is in "
                       "another pid namespace"});
      continue;
    }
    Result<Descriptor> file = pidFileOf(request.socket.get(), *peer);
    if (!file) {
      refuse(request, file.error());
      continue;
    }
    if (callers.size() >= mostCallers) {
      refuse(request, {"too many processes ask at once", Error::Fault::Rank});
      continue;
    }
    request.pid = peer->pid;
    request.pidFile = *std::move(file);
    callers.push_back(std::move(caller));
  }
}

bool GuestDoor::listenTo(Caller &caller, std::vector<Request> &found) {
  char buffer[longestRequest];
  ssize_t got = recv(caller.request.socket.get(), buffer, sizeof(buffer), 0);
  if (got < 0)
    return errno != EAGAIN && errno != EINTR;
  if (got == 0)
    return true;
  caller.text.append(buffer, static_cast<size_t>(got));
  size_t end = caller.text.find('\n');
  if (end == std::string::npos && caller.text.size() < longestRequest)
    return false;
  nlohmann::json request = nlohmann::json::parse(
      caller.text.substr(0, std::min(end, caller.text.size())), nullptr, false);
  if (!request.is_object() || !request.contains("rank") ||
      !request["rank"].is_number_integer()) {
    refuse(caller.request, {"this is no request to be a rank"});
    return true;
  }
  auto textOf = [&](const char *field) {
    return request.contains(field) && request[field].is_string()
               ? request[field].get<std::string>()
               : "";
  };
  std::string version = textOf("version");
  if (version != versionText) {
    refuse(caller.request,
           {fmt::format("the launcher is of version {}, and the process of {}: "
                        "all ranks must be of the same build",
                        versionText, version.empty() ? "none" : version)});
    return true;
  }
  caller.request.rank = request["rank"].get<int>();
  caller.request.planHash = textOf("plan");
  found.push_back(std::move(caller.request));
  return true;
}

std::vector<GuestDoor::Request> GuestDoor::look() {
  accept();
  std::vector<Request> found;
  std::erase_if(callers,
                [&](Caller &caller) { return listenTo(caller, found); });
  return found;
}

Result<std::unique_ptr<RankProcess>> GuestDoor::admit(Request request,
                                                      const RankStart &start) {
  nlohmann::json answer{{"rank", request.rank},
                        {"arguments", start.arguments},
                        {"environment", start.environment},
                        {"folder", start.folder},
                        {"ignored_signals", start.ignoredSignals},
                        {"job_files", openOf(start.jobFiles)},
                        {"files", openOf(start.files)}};
  std::vector<int> open;
  for (const std::vector<int> *files : {&start.jobFiles, &start.files})
    std::copy_if(files->begin(), files->end(), std::back_inserter(open),
                 [](int file) { return file >= 0; });
  if (!sendAll(request.socket.get(), answer.dump() + "\n") ||
      !sendFiles(request.socket.get(), open))
    return socketError(fmt::format("process {} was not told what rank {} needs",
                                   request.pid, request.rank));
  return watchGuest(request.pid, std::move(request.pidFile),
                    std::move(request.socket));
}

} // namespace polyrank::runtime
