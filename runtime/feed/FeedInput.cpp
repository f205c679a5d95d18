// Reads from a pipe of a command, or from a FIFO.

#include "runtime/feed/FeedInput.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

extern char **environ;

namespace polyrank::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int tick = 100; // milliseconds
// After so long without a byte the user is told.
constexpr auto soon = std::chrono::milliseconds(10000);
// A command may go on for this long after it has closed the feed, or was asked
// to end; then it is killed.
constexpr auto grace = std::chrono::seconds(2);

Error systemError(const FeedName &name, const char *what) {
  return {
      fmt::format("{}: {}: {}", name.describe(), what, std::strerror(errno)),
      Error::Fault::Rank};
}

class Fifo : public FeedInput {
public:
  Fifo(const FeedName &name, Descriptor file)
      : FeedInput(std::move(file)), path(name.text) {}

  Result<void> finish(bool isWhole) override {
    if (isWhole)
      return {};
    return Error{"it was closed before the block that ends a feed: its writer "
                 "has ended, or did not write that block",
                 Error::Fault::Rank};
  }

private:
  // A read gives 0 bytes also before anybody has opened it for writing. Linux
  // states POLLHUP only if somebody had, and POLLIN if bytes have come since
  // the read.
  bool isAtEnd() override {
    pollfd ready{file.get(), POLLIN, 0};
    poll(&ready, 1, 0);
    return hasBegun || ready.revents == POLLHUP;
  }
  std::string whyNothing() const override {
    return hasBegun ? "its writer gives nothing"
                    : fmt::format("nobody writes to it: start what writes "
                                  "blocks, with POLYRANK_FEED={}",
                                  path);
  }

  std::string path;
};

class Command : public FeedInput {
public:
  Command(pid_t pid, Descriptor feed, Descriptor errors,
          const std::string &mark, Say said)
      : FeedInput(std::move(feed)), pid(pid), errors(std::move(errors)),
        say(std::move(said)),
        pidFile(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), lines(mark),
        listener([this] { listen(); }) {}
  ~Command() override {
    file.close(); // so the command's next write fails
    if (!endsWithin(std::chrono::milliseconds(0))) {
      ::kill(-pid, SIGTERM);
      endsWithin(grace);
    }
    // This also kills the processes that the command has started. The kernel
    // gives the number of the group to no other until the command is reaped.
    ::kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    isEnding = true;
    listener.join();
  }

  Result<void> finish(bool isWhole) override {
    bool isDone = endsWithin(grace);
    // After a whole feed the command's exit status does not count: it may fail
    // while it ends its workers, for example.
    if (isWhole)
      return {};
    if (!isDone)
      return Error{"the command has closed the feed and goes on; a feed ends "
                   "with a block that says so, or with the command",
                   Error::Fault::Rank};
    if (isKilled)
      return Error{fmt::format("the command was killed by signal {} ({})",
                               status, strsignal(status)),
                   Error::Fault::Rank};
    if (status != 0)
      return Error{fmt::format("the command ended with status {}", status),
                   Error::Fault::Rank};
    return {};
  }

  std::string lastLines() override {
    // The last lines may come a moment after the end of the feed.
    if (endsWithin(std::chrono::milliseconds(tick)))
      for (auto end = Clock::now() + std::chrono::milliseconds(tick);
           !isDrained && Clock::now() < end;)
        usleep(1000);
    std::lock_guard lock(mutex);
    std::string last = lines.last();
    return last.empty() ? "" : "; the last lines of the command:" + last;
  }

private:
  bool isAtEnd() override { return true; }
  bool isGone() override { return hasEnded(); }
  std::string whyNothing() const override {
    return "the command gives nothing";
  }

  /// True if the command has ended. It stays a zombie, so that its number is
  /// not given to another process.
  bool hasEnded() {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != pid)
      return false;
    isKilled = info.si_code != CLD_EXITED;
    status = info.si_status;
    return true;
  }

  bool endsWithin(std::chrono::milliseconds time) {
    for (auto end = Clock::now() + time; !hasEnded();) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - Clock::now());
      if (left.count() <= 0)
        return false;
      pollfd ended{pidFile.get(), POLLIN, 0};
      poll(&ended, 1, static_cast<int>(std::min<int64_t>(left.count(), tick)));
    }
    return true;
  }

  /// Reads the command's output and errors until it has closed them.
  void listen() {
    std::array<char, 4096> buffer{};
    while (!isEnding) {
      pollfd ready{errors.get(), POLLIN, 0};
      if (poll(&ready, 1, tick) != 1)
        continue;
      ssize_t got = ::read(errors.get(), buffer.data(), buffer.size());
      if (got <= 0)
        break;
      std::string shown;
      {
        std::lock_guard lock(mutex);
        shown = lines.take({buffer.data(), static_cast<size_t>(got)});
      }
      if (!shown.empty())
        say(shown);
    }
    isDrained = true;
  }

  pid_t pid;
  int status = 0; // or the signal that killed it
  bool isKilled = false;
  Descriptor errors;
  Say say;
  Descriptor pidFile;
  std::mutex mutex;
  FeedLines lines;
  std::atomic<bool> isEnding = false, isDrained = false;
  std::thread listener; // the last member, since it uses the others
};

Result<std::unique_ptr<FeedInput>> openFifo(const FeedName &name) {
  struct stat found;
  if (stat(name.text.c_str(), &found) != 0)
    return fileError(name.text, "cannot be opened");
  if (!S_ISFIFO(found.st_mode))
    return Error{fmt::format("{}: is no FIFO; mkfifo makes one, and files are "
                             "named without 'fifo:'",
                             name.text)};
  Descriptor file(::open(name.text.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0)
    return fileError(name.text, "cannot be opened");
  return std::unique_ptr<FeedInput>(new Fifo(name, std::move(file)));
}

std::vector<std::string> environmentOf(int feed, uint64_t first) {
  std::vector<std::string> all;
  for (char **variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("POLYRANK_FEED"))
      all.emplace_back(*variable);
  all.push_back(fmt::format("POLYRANK_FEED=/dev/fd/{}", feed));
  all.push_back(fmt::format("POLYRANK_FEED_FIRST={}", first));
  return all;
}

/// Runs the command in the child. The child gets a process group of its own, so
/// that everything it starts can be killed together, and a Ctrl-C at the
/// terminal reaches the launcher alone.
[[noreturn]] void becomeCommand(pid_t launcher, int feed, int errors,
                                char **arguments, char **environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher)
    _exit(2);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL); // a write after the end of the run ends it
  int input = ::open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);
  dup2(errors, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  fcntl(feed, F_SETFD, 0);
  execve("/bin/sh", arguments, environment);
  _exit(127);
}

Result<std::unique_ptr<FeedInput>> startCommand(const FeedName &name,
                                                uint64_t first,
                                                const std::string &mark,
                                                const FeedInput::Say &say) {
  int feed[2], errors[2];
  if (pipe2(feed, O_CLOEXEC) != 0)
    return systemError(name, "pipe");
  Descriptor feedRead(feed[0]), feedWrite(feed[1]);
  if (pipe2(errors, O_CLOEXEC) != 0)
    return systemError(name, "pipe");
  Descriptor errorsRead(errors[0]), errorsWrite(errors[1]);
  fcntl(feed[0], F_SETFL, O_NONBLOCK);
  constexpr int pipeBytes = 1 << 20; // else 64 KiB; it may be forbidden
  fcntl(feed[0], F_SETPIPE_SZ, pipeBytes);
  // Everything that allocates comes before the fork.
  std::vector<std::string> arguments{"sh", "-c", name.text},
      environment = environmentOf(feedWrite.get(), first);
  std::vector<char *> argv, envp;
  for (auto [strings, pointers] :
       {std::pair(&arguments, &argv), {&environment, &envp}}) {
    for (std::string &each : *strings)
      pointers->push_back(each.data());
    pointers->push_back(nullptr);
  }
  pid_t launcher = getpid(), pid = fork();
  if (pid < 0)
    return systemError(name, "fork");
  if (pid == 0)
    becomeCommand(launcher, feedWrite.get(), errorsWrite.get(), argv.data(),
                  envp.data());
  setpgid(pid, pid); // whoever of the two is first
  return std::unique_ptr<FeedInput>(
      new Command(pid, std::move(feedRead), std::move(errorsRead), mark, say));
}

} // namespace

std::optional<FeedName> feedNameOf(const std::string &given) {
  using Kind = FeedName::Kind;
  constexpr std::string_view command = "command:", fifo = "fifo:";
  if (given.starts_with(command))
    return FeedName{Kind::Command, given.substr(command.size()), given};
  if (given.starts_with(fifo))
    return FeedName{Kind::Fifo, given.substr(fifo.size()), given};
  struct stat found;
  if (stat(given.c_str(), &found) == 0 && S_ISFIFO(found.st_mode))
    return FeedName{Kind::Fifo, given, given};
  return std::nullopt;
}

Result<std::unique_ptr<FeedInput>> FeedInput::open(const FeedName &name,
                                                   uint64_t first,
                                                   const std::string &mark,
                                                   const Say &say) {
  return name.isCommand() ? startCommand(name, first, mark, say)
                          : openFifo(name);
}

std::string FeedInput::nothingFor(std::chrono::milliseconds time) const {
  return fmt::format("for {} seconds {}",
                     std::chrono::duration<double>(time).count(), whyNothing());
}

Result<size_t> FeedInput::read(void *into, size_t size,
                               const FeedPatience &patience) {
  auto noteAfter = std::min(soon, patience.limit / 2);
  size_t done = 0;
  bool wasGone = false; // before the latest read
  auto latest = Clock::now();
  while (done < size) {
    if (patience.isOver())
      return Error{"the run has ended", Error::Fault::Rank};
    ssize_t got =
        ::read(file.get(), static_cast<char *>(into) + done, size - done);
    if (got > 0) {
      hasBegun = true;
      done += static_cast<size_t>(got);
      latest = Clock::now();
      continue;
    }
    if (got == 0 && isAtEnd())
      return done;
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return Error{fmt::format("cannot be read: {}", std::strerror(errno)),
                   Error::Fault::Rank};
    if (wasGone)
      return done;
    wasGone = got < 0 && isGone();
    auto nothing = Clock::now() - latest;
    if (nothing >= patience.limit)
      return Error{nothingFor(patience.limit) + " (--data-timeout)",
                   Error::Fault::Rank};
    if (nothing >= noteAfter && !std::exchange(isNoted, true))
      patience.note(
          fmt::format("{}; after {} seconds the run ends (--data-timeout)",
                      nothingFor(noteAfter),
                      std::chrono::duration<double>(patience.limit).count()));
    pollfd ready{file.get(), POLLIN, 0};
    poll(&ready, 1, wasGone ? 0 : tick);
  }
  return done;
}

std::string FeedLines::take(std::string_view bytes) {
  std::string shown;
  for (char c : bytes) {
    if (c != '\n' && c != '\r') {
      if (line.size() < longestLine)
        line += c;
      else
        isCut = true;
      continue;
    }
    if (line.empty())
      continue;
    if (isCut)
      line += "..";
    if (lines++ < shownLines)
      shown += mark + ": " + line + "\n";
    else if (lines == shownLines + 1)
      shown += fmt::format("{}: what else the command says is not shown; if "
                           "it fails its last {} lines are\n",
                           mark, keptLines);
    kept.push_back(std::move(line));
    line.clear();
    isCut = false;
    if (kept.size() > keptLines)
      kept.pop_front();
  }
  return shown;
}

std::string FeedLines::last() const {
  std::string text;
  for (const std::string &each : kept)
    text += "\n    " + each;
  return line.empty() ? text : text + "\n    " + line;
}

} // namespace polyrank::runtime
