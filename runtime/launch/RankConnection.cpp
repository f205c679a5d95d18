// A rank's environment, and its reports through the pipe.

#include "runtime/launch/EndMessage.h"
#include "runtime/launch/Launcher.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

int numberFrom(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : -1;
}

/// Reads "3,-1,5". Returns nothing if the variable is missing or something
/// else. The descriptors do not survive another exec.
std::optional<std::vector<int>> descriptorsFrom(const char *variable) {
  const char *text = std::getenv(variable);
  if (!text)
    return std::nullopt;
  std::vector<int> numbers;
  for (char *next; *text; text = *next == ',' ? next + 1 : next) {
    numbers.push_back(static_cast<int>(std::strtol(text, &next, 10)));
    if (next == text)
      return std::nullopt;
  }
  for (int number : numbers)
    fcntl(number, F_SETFD, FD_CLOEXEC);
  return numbers;
}

} // namespace

std::optional<RankConnection> RankConnection::fromEnvironment() {
  RankConnection connection;
  connection.number = numberFrom("POLYRANK_RANK");
  connection.pipe = numberFrom("POLYRANK_REPORTS");
  auto job = descriptorsFrom("POLYRANK_JOB"),
       files = descriptorsFrom("POLYRANK_FILES");
  if (connection.number < 0 || connection.pipe < 0 || !job || !files)
    return std::nullopt;
  connection.jobFiles = *std::move(job);
  connection.files = *std::move(files);
  fcntl(connection.pipe, F_SETFD, FD_CLOEXEC);
  return connection;
}

void RankConnection::endWithLauncher() const {
  struct stat status;
  if (fstat(pipe, &status) != 0 || !S_ISSOCK(status.st_mode))
    return; // a child
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // signals are not the thread's
  std::thread([socket = pipe] {
    // The launcher closes its end of the socket after the guest has ended, or
    // the system does when the launcher dies.
    pollfd end{socket, POLLRDHUP, 0};
    while (poll(&end, 1, -1) < 0)
      ;
    _exit(int(Error::Fault::Rank));
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void RankConnection::report(const TaggedMessage &message) const {
  std::string line = message.line() + "\n";
  for (size_t done = 0; done < line.size();) {
    ssize_t written = write(pipe, line.data() + done, line.size() - done);
    if (written < 0 && errno != EINTR)
      return; // the launcher is gone, and this rank ends too
    done += written > 0 ? written : 0;
  }
}

int RankConnection::fail(const Error &error) const {
  report(toTagged(EndMessage(RankFailed{error}), endKinds));
  return int(error.fault);
}

void RankConnection::stopped(uint64_t step) const {
  report(toTagged(EndMessage(RankStopped{step}), endKinds));
}

int RankConnection::finish() const {
  report(toTagged(EndMessage(RankFinished()), endKinds));
  return 0;
}

} // namespace polyrank::runtime
