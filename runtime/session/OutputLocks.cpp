// Locks the folder of checkpoints by flock, which other machines see too, and a
// file by the name of a socket, which leaves nothing on a disk.

#include "runtime/session/OutputLocks.h"

#include "runtime/report/Messages.h"
#include "support/Sha256.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr auto patience = std::chrono::seconds(5);

/// Returns a key of a file that is the same in all processes, whether or not
/// the file exists: the folder after resolving all links, by device and inode,
/// and the name in it. Nothing for what is not and cannot become a regular
/// file.
std::optional<std::string> keyOf(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return std::nullopt;
  std::error_code error;
  std::filesystem::path real = std::filesystem::absolute(path, error);
  if (!error)
    real = std::filesystem::weakly_canonical(real, error);
  if (error)
    return std::nullopt; // opening it reports the error
  std::string name = real.filename();
  std::filesystem::path folder = real.parent_path();
  while (stat(folder.c_str(), &status) != 0) {
    if (folder == folder.parent_path())
      return std::nullopt;
    name = folder.filename().string() + "/" + name;
    folder = folder.parent_path();
  }
  return fmt::format("{}:{}:{}", status.st_dev, status.st_ino, name);
}

/// Calls `lock` until it returns true, fails, or the time is up. `what` is for
/// messages: "--log run.jsonl".
Result<void> await(const std::string &what, const std::string &doing,
                   const std::function<Result<bool>()> &lock) {
  auto end = std::chrono::steady_clock::now() + patience;
  for (bool told = false;; told = true) {
    POLYRANK_ASSIGN(holds, lock());
    if (holds)
      return {};
    if (!told)
      tell(fmt::format("polyrank-run: {}: another run is {}; this one waits up "
                       "to {} s for its end\n",
                       what, doing, patience.count()));
    if (std::chrono::steady_clock::now() >= end)
      return Error{
          fmt::format("{}: another run is {}; start this one when that "
                      "has ended, or give another name",
                      what, doing),
          Error::Fault::Rank};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace

OutputLocks::~OutputLocks() {
  if (!madeFolder.empty())
    rmdir(madeFolder.c_str()); // fails if it is not empty
}

Result<void> OutputLocks::lockFolder(const std::string &folder) {
  std::string what = "--checkpoint " + folder;
  auto cannot = [&] {
    return Error{fmt::format("{}: {}", what, std::strerror(errno))};
  };
  return await(what, "writing checkpoints there", [&]() -> Result<bool> {
    struct stat opened, named;
    if (mkdir(folder.c_str(), 0777) == 0)
      madeFolder = folder;
    else if (errno != EEXIST)
      return cannot();
    else if (stat(folder.c_str(), &named) == 0 && !S_ISDIR(named.st_mode))
      return Error{what + ": it is no folder"};
    Descriptor file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.get() < 0 && errno == ENOENT)
      return false; // its creator has just removed it
    if (file.get() < 0)
      return cannot();
    // Any other error means that the file system has no locks.
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return false;
    if (fstat(file.get(), &opened) != 0 || stat(folder.c_str(), &named) != 0 ||
        opened.st_ino != named.st_ino || opened.st_dev != named.st_dev)
      return false;
    held.push_back(std::move(file));
    return true;
  });
}

Result<void> OutputLocks::lockName(const OutputUse &file,
                                   const std::string &key) {
  Sha256 hash;
  hash.add({reinterpret_cast<const uint8_t *>(key.data()), key.size()});
  // A name in Linux's abstract namespace, which begins with a zero byte,
  // vanishes with its process.
  std::string name = std::string(1, '\0') + "polyrank-output-" + hash.hex();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return await(
      file.option + " " + file.path, "writing it", [&]() -> Result<bool> {
        Descriptor lock(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (bind(lock.get(), reinterpret_cast<sockaddr *>(&address), length) !=
            0)
          // On a system without such sockets there is no lock.
          return errno != EADDRINUSE;
        held.push_back(std::move(lock));
        return true;
      });
}

Result<OutputLocks> OutputLocks::take(const std::string &checkpoints,
                                      std::span<const OutputUse> files) {
  OutputLocks locks;
  if (!checkpoints.empty())
    if (Result<void> locked = locks.lockFolder(checkpoints); !locked)
      return locked.error();
  // The locks are taken in sorted order, so that no two runs deadlock.
  std::map<std::string, const OutputUse *> byKey;
  for (const OutputUse &file : files)
    if (std::optional<std::string> key = keyOf(file.path))
      byKey.emplace(*key, &file);
  for (auto &[key, file] : byKey)
    if (Result<void> locked = locks.lockName(*file, key); !locked)
      return locked.error();
  return std::move(locks);
}

} // namespace polyrank::runtime
