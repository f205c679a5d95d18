// Asks at a GuestDoor, and becomes what the answer says.

#include "runtime/launch/Guest.h"

#include "runtime/launch/Launcher.h"
#include "runtime/launch/LocalSocket.h"
#include "support/Failpoint.h"
#include "support/Version.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// Puts the next of the received files where the launcher has open ones.
std::vector<int> placed(const std::vector<bool> &open,
                        std::vector<int>::const_iterator &next) {
  std::vector<int> files;
  for (bool isOpen : open)
    files.push_back(isOpen ? *next++ : -1);
  return files;
}

/// Connects to a run, once there is one.
Result<Descriptor> connectTo(const GuestRequest &guest) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  auto [address, length] = addressOf(guest.job);
  for (bool isFirst = true;; isFirst = false) {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() >= 0 &&
        connect(socket.get(), reinterpret_cast<sockaddr *>(&address), length) ==
            0)
      return std::move(socket);
    if (socket.get() < 0 || (errno != ECONNREFUSED && errno != EINTR))
      return socketError(
          fmt::format("rank {}: the way to run '{}'", guest.rank, guest.job));
    if (Clock::now() - begin >= guest.patience)
      return Error{
          fmt::format("rank {}: no run on this machine waits for guests under "
                      "the name '{}': it has not begun, or is over",
                      guest.rank, guest.job),
          Error::Fault::Rank};
    if (isFirst && guest.onWait)
      guest.onWait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace

Result<Admission> comeAsGuest(const GuestRequest &guest) {
  failpoint("guest.before");
  int rank = guest.rank;
  POLYRANK_ASSIGN(socket, connectTo(guest));
  POLYRANK_ASSIGN(launcher, peerOf(socket.get()));
  if (launcher.uid != geteuid())
    return Error{fmt::format("rank {}: the launcher of '{}' is a process of "
                             "user {}, and this one is of user {}",
                             rank, guest.job, launcher.uid, geteuid())};
  nlohmann::json request{
      {"rank", rank}, {"version", versionText}, {"plan", guest.planHash}};
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
                 answer.value("status", 0) == int(Error::Fault::Input)
                     ? Error::Fault::Input
                     : Error::Fault::Rank};
  Admission admission;
  admission.rank = rank;
  RankStart &start = admission.start;
  std::vector<bool> jobFiles, files;
  try {
    answer.at("arguments").get_to(start.arguments);
    answer.at("environment").get_to(start.environment);
    answer.at("folder").get_to(start.folder);
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

int becomeRank(const Admission &admission) {
  const RankStart &start = admission.start;
  auto fail = [&](const std::string &what) {
    return RankConnection(admission.rank, admission.reports)
        .fail(socketError(what));
  };
  if (chdir(start.folder.c_str()) != 0)
    return fail(fmt::format("process {} cannot enter '{}', the folder of the "
                            "run",
                            getpid(), start.folder));
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
  return fail(
      fmt::format("process {} cannot run its program as a rank", getpid()));
}

} // namespace polyrank::runtime
