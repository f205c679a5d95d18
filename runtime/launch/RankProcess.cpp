// Children are reaped by waitpid; guests are watched by pidfds.

#include "runtime/launch/RankProcess.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace polyrank::runtime {
namespace {

Error systemError(const char *what) {
  return Error{
      fmt::format("cannot start the ranks: {}: {}", what, std::strerror(errno)),
      Error::Fault::Rank};
}

std::vector<char *> pointersTo(std::vector<std::string> &strings) {
  std::vector<char *> pointers;
  for (std::string &text : strings)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class Child : public RankProcess {
public:
  Child(int pid, Descriptor reports) : RankProcess(pid, std::move(reports)) {}

  void kill() override { ::kill(number, SIGKILL); }
  void await() override {
    int ended = 0;
    if (running && waitpid(number, &ended, 0) == number)
      status = ended;
    running = false;
  }

private:
  bool hasEnded() override {
    int ended = 0;
    if (waitpid(number, &ended, WNOHANG) != number)
      return false;
    status = ended;
    return true;
  }
};

class Guest : public RankProcess {
public:
  Guest(int pid, Descriptor pidFile, Descriptor socket)
      : RankProcess(pid, std::move(socket)), pidFile(std::move(pidFile)) {}

  void kill() override {
    syscall(SYS_pidfd_send_signal, pidFile.get(), SIGKILL, nullptr, 0);
  }
  void await() override {
    while (running && !endsWithin(-1))
      ;
    running = false;
  }

private:
  bool hasEnded() override { return endsWithin(0); }
  /// A pidfd is readable once its process has ended.
  bool endsWithin(int milliseconds) const {
    pollfd file{pidFile.get(), POLLIN, 0};
    return poll(&file, 1, milliseconds) == 1;
  }

  Descriptor pidFile;
};

} // namespace

std::vector<std::string> environmentOf(const RankStart &start, int reports) {
  std::vector<std::string> result;
  for (char **variable = environ; *variable; ++variable) {
    std::string_view text = *variable;
    if (!text.starts_with("POLYRANK_") && !text.starts_with("OMP_") &&
        !text.starts_with("GOMP_"))
      result.emplace_back(text);
  }
  result.insert(result.end(), start.environment.begin(),
                start.environment.end());
  result.push_back(
      fmt::format("POLYRANK_JOB={}", fmt::join(start.jobFiles, ",")));
  result.push_back(
      fmt::format("POLYRANK_FILES={}", fmt::join(start.files, ",")));
  result.push_back(fmt::format("POLYRANK_REPORTS={}", reports));
  return result;
}

bool RankProcess::reap() {
  if (!running || !hasEnded())
    return false;
  running = false;
  return true;
}

int RankProcess::endSignal() const {
  return status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
}

std::string RankProcess::describeEnd() const {
  if (int signal = endSignal())
    return fmt::format("was killed by signal {} ({})", signal,
                       strsignal(signal));
  if (!status)
    return "ended before it was done";
  return fmt::format("ended with status {} before it was done",
                     WEXITSTATUS(*status));
}

Result<std::unique_ptr<RankProcess>> startChild(const RankStart &start,
                                                const sigset_t &mask) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return systemError("pipe");
  Descriptor stream(ends[0]), reports(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  // Everything that allocates comes before the fork.
  std::vector<std::string> arguments = start.arguments;
  std::vector<std::string> environment = environmentOf(start, reports.get());
  std::vector<char *> argv = pointersTo(arguments),
                      envp = pointersTo(environment);
  pid_t launcher = getpid();
  pid_t pid = fork();
  if (pid < 0)
    return systemError("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
      _exit(2);
    for (int ignored : start.ignoredSignals)
      signal(ignored, SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    if (start.cores)
      sched_setaffinity(0, sizeof(*start.cores), &*start.cores);
    fcntl(reports.get(), F_SETFD, 0);
    for (const std::vector<int> *files : {&start.jobFiles, &start.files})
      for (int file : *files)
        fcntl(file, F_SETFD, 0);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  return std::unique_ptr<RankProcess>(new Child(pid, std::move(stream)));
}

std::unique_ptr<RankProcess> watchGuest(int pid, Descriptor pidFile,
                                        Descriptor socket) {
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return std::make_unique<Guest>(pid, std::move(pidFile), std::move(socket));
}

} // namespace polyrank::runtime
