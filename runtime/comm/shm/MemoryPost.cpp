// The message with the descriptor stays in the queue of the receiving end: each
// process looks at it with MSG_PEEK, by which the system gives it a descriptor
// of its own.

#include "runtime/comm/shm/MemoryPost.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace polyrank::runtime::shm {
namespace {

Error postError(const std::string &what) {
  return Error{what + ": " + std::strerror(errno), Error::Fault::Rank};
}

/// A message of one byte, with room for a descriptor.
struct Message {
  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  Message(const Message &) = delete;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 'm';
  iovec part{&byte, 1};
  msghdr header{};
};

} // namespace

Result<MemoryPost> MemoryPost::create() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
    return postError("making the sockets by which ranks share memory");
  return MemoryPost{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<void> leaveMemory(int sending, int descriptor) {
  Message message;
  if (descriptor >= 0) {
    cmsghdr *head = CMSG_FIRSTHDR(&message.header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
  } else {
    message.header.msg_control = nullptr;
    message.header.msg_controllen = 0;
  }
  while (sendmsg(sending, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    if (errno != EINTR)
      return postError("giving the other ranks the memory of this one");
  return {};
}

Result<std::optional<LeftMemory>>
takeMemory(int receiving, std::chrono::milliseconds longest) {
  pollfd waited{receiving, POLLIN, 0};
  int ready = poll(&waited, 1, static_cast<int>(longest.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR))
    return std::optional<LeftMemory>();
  Message message;
  if (ready < 0 || recvmsg(receiving, &message.header,
                           MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
    return postError("taking the memory of another rank");
  // It is cut off if this process may open no more files.
  if (message.header.msg_flags & MSG_CTRUNC) {
    errno = EMFILE;
    return postError("taking the memory of another rank");
  }
  int descriptor = -1;
  if (cmsghdr *head = CMSG_FIRSTHDR(&message.header))
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof(int));
  return std::optional(LeftMemory{Descriptor(descriptor)});
}

} // namespace polyrank::runtime::shm
