// The protocol: a guest sends a line of JSON with the rank and its build. The
// answer is a line of JSON, either "refused" or what the rank starts with, and
// then the open files, some hundred at a time.

#include "runtime/launch/Guests.h"

#include "support/Failpoint.h"
#include "support/Version.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr size_t mostCallers = 4096, longestRequest = 1024,
                 longestAnswer = 16 << 20;
/// Linux passes at most 253 descriptors in one message.
constexpr size_t filesOfAMessage = 128;

Error systemError(const std::string &what) {
  return Error{fmt::format("{}: {}", what, std::strerror(errno)),
               Error::Fault::Rank};
}

/// The address of an abstract socket, and its length.
std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return {address,
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

/// The process at the other end, as the kernel knows it.
Result<ucred> peerOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return systemError("who is at the other end");
  return peer;
}

Result<Descriptor> pidFileOf(int socket, const ucred &peer) {
  int file = -1;
#ifdef SO_PEERPIDFD
  socklen_t size = sizeof(file);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &file, &size) == 0)
    return Descriptor(file);
#endif
  file = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  if (file < 0)
    return systemError(fmt::format("process {}", peer.pid));
  return Descriptor(file);
}

bool sendAll(int socket, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t sent =
        send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR)
      return false;
    done += sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  return true;
}

union Control {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(filesOfAMessage * sizeof(int))];
};

/// A message of one byte, with room for descriptors.
struct FileMessage {
  FileMessage(Control &control, size_t files) {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(files * sizeof(int));
  }
  char byte = 'f';
  iovec part{&byte, 1};
  msghdr header{};
};

bool sendFiles(int socket, std::span<const int> files) {
  for (size_t first = 0; first < files.size(); first += filesOfAMessage) {
    size_t count = std::min(filesOfAMessage, files.size() - first);
    Control control{};
    FileMessage message(control, count);
    cmsghdr *head = CMSG_FIRSTHDR(&message.header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(head), &files[first], count * sizeof(int));
    if (sendmsg(socket, &message.header, MSG_NOSIGNAL) != 1)
      return false;
  }
  return true;
}

/// Returns the descriptors that were sent, fewer if the other end is gone.
std::vector<int> receiveFiles(int socket, size_t count) {
  std::vector<int> files;
  while (files.size() < count) {
    Control control{};
    FileMessage message(control, filesOfAMessage);
    ssize_t got = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR)
      continue;
    cmsghdr *head = CMSG_FIRSTHDR(&message.header);
    if (got != 1 || !head || head->cmsg_type != SCM_RIGHTS)
      break;
    size_t more = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    size_t before = files.size();
    files.resize(before + more);
    std::memcpy(&files[before], CMSG_DATA(head), more * sizeof(int));
  }
  return files;
}

/// Reads up to the end of a line; nothing if the other end is gone.
std::optional<std::string> receiveLine(int socket) {
  std::string line;
  char byte;
  while (line.size() < longestAnswer) {
    ssize_t got = recv(socket, &byte, 1, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return std::nullopt;
    if (byte == '\n')
      return line;
    line += byte;
  }
  return std::nullopt;
}

/// Which of the numbers are open files.
std::vector<bool> openOf(const std::vector<int> &files) {
  std::vector<bool> open;
  for (int file : files)
    open.push_back(file >= 0);
  return open;
}

/// Puts the next of the received files where the launcher has open ones.
std::vector<int> placed(const std::vector<bool> &open,
                        std::vector<int>::const_iterator &next) {
  std::vector<int> files;
  for (bool isOpen : open)
    files.push_back(isOpen ? *next++ : -1);
  return files;
}

} // namespace

Result<GuestDoor> GuestDoor::open() {
  GuestDoor door;
  std::random_device random;
  door.title =
      fmt::format("polyrank-{:08x}{:08x}{:08x}", random(), random(), random());
  door.listener = Descriptor(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto [address, length] = addressOf(door.title);
  if (door.listener.get() < 0 ||
      bind(door.listener.get(), reinterpret_cast<sockaddr *>(&address),
           length) != 0 ||
      listen(door.listener.get(), SOMAXCONN) != 0)
    return systemError("a socket for ranks to come by");
  return std::move(door);
}

std::vector<int> GuestDoor::descriptors() const {
  std::vector<int> all{listener.get()};
  for (const Caller &caller : callers)
    all.push_back(caller.request.socket.get());
  return all;
}

void GuestDoor::refuse(const Request &request, const std::string &why) {
  sendAll(request.socket.get(),
          nlohmann::json({{"refused", why}}).dump() + "\n");
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
      refuse(request, peer.error().message);
      continue;
    }
    if (peer->uid != geteuid()) {
      refuse(request, fmt::format("the ranks of this job are processes of user "
                                  "{}, and process {} is of user {}",
                                  geteuid(), peer->pid, peer->uid));
      continue;
    }
    if (peer->pid <= 0) {
      refuse(request, "the launcher does not see the process, which is in "
                      "another pid namespace");
      continue;
    }
    Result<Descriptor> file = pidFileOf(request.socket.get(), *peer);
    if (!file) {
      refuse(request, file.error().message);
      continue;
    }
    if (callers.size() >= mostCallers) {
      refuse(request, "too many processes ask at once");
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
    refuse(caller.request, "this is no request to be a rank");
    return true;
  }
  std::string version =
      request.contains("version") && request["version"].is_string()
          ? request["version"].get<std::string>()
          : "";
  if (version != versionText) {
    refuse(caller.request,
           fmt::format("the launcher is of version {}, and the process of {}: "
                       "all ranks must be of the same build",
                       versionText, version.empty() ? "none" : version));
    return true;
  }
  caller.request.rank = request["rank"].get<int>();
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
                        {"ignored_signals", start.ignoredSignals},
                        {"job_files", openOf(start.jobFiles)},
                        {"files", openOf(start.files)}};
  std::vector<int> open;
  for (const std::vector<int> *files : {&start.jobFiles, &start.files})
    std::copy_if(files->begin(), files->end(), std::back_inserter(open),
                 [](int file) { return file >= 0; });
  if (start.cores)
    sched_setaffinity(request.pid, sizeof(*start.cores), &*start.cores);
  if (!sendAll(request.socket.get(), answer.dump() + "\n") ||
      !sendFiles(request.socket.get(), open))
    return systemError(fmt::format("process {} was not told what rank {} needs",
                                   request.pid, request.rank));
  return watchGuest(request.pid, std::move(request.pidFile),
                    std::move(request.socket));
}

Result<Admission> comeAsGuest(const std::string &door, int rank) {
  failpoint("guest.before");
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto [address, length] = addressOf(door);
  if (socket.get() < 0 ||
      connect(socket.get(), reinterpret_cast<sockaddr *>(&address), length) !=
          0)
    return systemError(fmt::format("rank {}: nobody waits for ranks at '{}' on "
                                   "this machine; the job is over, or not "
                                   "begun",
                                   rank, door));
  POLYRANK_ASSIGN(launcher, peerOf(socket.get()));
  if (launcher.uid != geteuid())
    return Error{fmt::format("rank {}: the launcher at '{}' is a process of "
                             "user {}, and this one is of user {}",
                             rank, door, launcher.uid, geteuid()),
                 Error::Fault::Rank};
  nlohmann::json request{{"rank", rank}, {"version", versionText}};
  // A launcher that refuses may have done so before this was sent.
  sendAll(socket.get(), request.dump() + "\n");
  auto gone = [&] {
    return Error{fmt::format("rank {}: the launcher (process {}) has gone "
                             "before it answered",
                             rank, launcher.pid),
                 Error::Fault::Rank};
  };
  std::optional<std::string> line = receiveLine(socket.get());
  if (!line)
    return gone();
  nlohmann::json answer = nlohmann::json::parse(*line, nullptr, false);
  if (answer.is_object() && answer.contains("refused"))
    return Error{fmt::format("rank {} was refused: {}", rank,
                             answer["refused"].get<std::string>()),
                 Error::Fault::Rank};
  Admission admission;
  RankStart &start = admission.start;
  std::vector<bool> jobFiles, files;
  try {
    answer.at("arguments").get_to(start.arguments);
    answer.at("environment").get_to(start.environment);
    answer.at("ignored_signals").get_to(start.ignoredSignals);
    answer.at("job_files").get_to(jobFiles);
    answer.at("files").get_to(files);
  } catch (const nlohmann::json::exception &) {
    return Error{
        fmt::format("rank {}: the launcher's answer is malformed", rank),
        Error::Fault::Rank};
  }
  size_t open =
      static_cast<size_t>(std::count(jobFiles.begin(), jobFiles.end(), true) +
                          std::count(files.begin(), files.end(), true));
  std::vector<int> received = receiveFiles(socket.get(), open);
  if (received.size() != open) {
    for (int file : received)
      close(file);
    return gone();
  }
  auto next = received.cbegin();
  start.jobFiles = placed(jobFiles, next);
  start.files = placed(files, next);
  admission.reports = socket.release();
  return admission;
}

Error becomeRank(const Admission &admission) {
  const RankStart &start = admission.start;
  std::vector<std::string> arguments = start.arguments,
                           environment =
                               environmentOf(start, admission.reports);
  auto pointersTo = [](std::vector<std::string> &strings) {
    std::vector<char *> pointers;
    for (std::string &text : strings)
      pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  };
  std::vector<char *> argv = pointersTo(arguments),
                      envp = pointersTo(environment);
  for (int ignored : start.ignoredSignals)
    signal(ignored, SIG_IGN);
  fcntl(admission.reports, F_SETFD, 0);
  for (const std::vector<int> *files : {&start.jobFiles, &start.files})
    for (int file : *files)
      fcntl(file, F_SETFD, 0);
  execve("/proc/self/exe", argv.data(), envp.data());
  return systemError("cannot run this program as a rank");
}

} // namespace polyrank::runtime
