// Sockets of this machine that have a name and no file, and what goes over
// them: lines of text, and open files.

#pragma once

#include "support/File.h"

#include <optional>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// The error of the latest call of the system, with what was tried.
Error socketError(const std::string &what);

/// Returns what is wrong with the name by which guests find a run; empty if
/// nothing is.
std::string checkJobName(const std::string &name);

/// The address of the abstract socket by which the guests of a run come, and
/// its length. The name is one that checkJobName finds right.
std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name);

/// The process at the other end, as the kernel knows it.
Result<ucred> peerOf(int socket);

/// False if the other end is gone.
/// @{
bool sendAll(int socket, const std::string &text);
bool sendFiles(int socket, std::span<const int> files);
/// @}

/// Returns the descriptors that were sent, fewer if the other end is gone.
std::vector<int> receiveFiles(int socket, size_t count);

/// Reads up to the end of a line; nothing if the other end is gone.
std::optional<std::string> receiveLine(int socket);

} // namespace polyrank::runtime
