// Open files go over a socket some hundred at a time, each time with one byte.

#include "runtime/launch/LocalSocket.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <string_view>

namespace polyrank::runtime {
namespace {

constexpr size_t longestLine = 16 << 20, longestName = 64;
constexpr std::string_view prefix = "polyrank/";
/// Linux passes at most 253 descriptors in one message.
constexpr size_t filesOfAMessage = 128;

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

} // namespace

Error socketError(const std::string &what) {
  return Error{fmt::format("{}: {}", what, std::strerror(errno)),
               Error::Fault::Rank};
}

std::string checkJobName(const std::string &name) {
  bool isRight = !name.empty() && name.size() <= longestName &&
                 std::all_of(name.begin(), name.end(), [](unsigned char c) {
                   return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                 });
  return isRight ? ""
                 : fmt::format("'{}' is no name of a run: it has 1 to {} "
                               "letters, digits, '-', '_' and '.'",
                               name, longestName);
}

std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = std::string(prefix) + name;
  size_t length = std::min(path.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, path.data(), length);
  return {address,
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

Result<ucred> peerOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return socketError("who is at the other end");
  return peer;
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

std::optional<std::string> receiveLine(int socket) {
  std::string line;
  char byte;
  while (line.size() < longestLine) {
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

} // namespace polyrank::runtime
