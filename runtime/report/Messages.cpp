// A queue and the thread that empties it.

#include "runtime/report/Messages.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

class Messages {
public:
  /// Never destroyed: its thread may hang in a write when the process ends.
  static Messages &instance() {
    static auto *messages = new Messages;
    return *messages;
  }

  void add(std::string text, bool progress) {
    if (!hasThread) {
      write(text);
      return;
    }
    std::lock_guard lock(mutex);
    if (progress && !queue.empty() && queue.back().progress)
      queue.back().text = std::move(text);
    else
      queue.push_back({std::move(text), progress});
    changed.notify_all();
  }

  void finish() {
    std::unique_lock lock(mutex);
    while (writing || !queue.empty()) {
      uint64_t before = written;
      changed.wait_for(lock, std::chrono::seconds(2), [&] {
        return written != before || (!writing && queue.empty());
      });
      if (written == before && (writing || !queue.empty()))
        return;
    }
  }

private:
  struct Message {
    std::string text;
    bool progress;
  };

  Messages() {
    // The new thread blocks signals, which are for the thread that waits for
    // them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    // If the system has no thread to give, the caller waits for the reader.
    try {
      std::thread([this] { run(); }).detach();
      hasThread = true;
    } catch (const std::system_error &) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !queue.empty(); });
      std::string text = std::move(queue.front().text);
      queue.pop_front();
      writing = true;
      lock.unlock();
      write(text);
      lock.lock();
      writing = false;
      ++written;
      changed.notify_all();
    }
  }

  void write(const std::string &text) {
    for (size_t done = 0; done < text.size();) {
      ssize_t count =
          ::write(STDERR_FILENO, text.data() + done, text.size() - done);
      if (count > 0) {
        done += static_cast<size_t>(count);
        std::lock_guard lock(mutex);
        ++written;
        changed.notify_all();
      } else if (count < 0 &&
                 errno == EAGAIN) { // another process made it non-blocking
        pollfd file{STDERR_FILENO, POLLOUT, 0};
        poll(&file, 1, -1);
      } else if (count == 0 || errno != EINTR) {
        return;
      }
    }
  }

  bool hasThread = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Message> queue;
  bool writing = false;
  uint64_t written = 0; // counts written bytes
};

} // namespace

void tell(std::string text) {
  Messages::instance().add(std::move(text), false);
}

void tellProgress(std::string text) {
  Messages::instance().add(std::move(text), true);
}

void finishTelling() { Messages::instance().finish(); }

void takeStandardDescriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)
      open("/", O_PATH); // takes the lowest free number; fails when used
}

bool print(const std::string &text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

} // namespace polyrank::runtime
