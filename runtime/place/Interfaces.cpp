// Reads the interfaces of this machine.

#include "runtime/place/Interfaces.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>
#include <sys/stat.h>

namespace polyrank::runtime {
namespace {

/// The bytes of an address: 4 or 16; empty if it is none.
std::vector<uint8_t> bytesOf(const std::string &address) {
  std::vector<uint8_t> bytes(16);
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1)
    return bytes;
  bytes.resize(4);
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1)
    return bytes;
  return {};
}

int countBits(const std::vector<uint8_t> &mask) {
  int bits = 0;
  for (uint8_t byte : mask)
    bits += std::popcount(byte);
  return bits;
}

/// Reads the bytes of an address, or of a mask, of the system.
std::vector<uint8_t> bytesOf(const sockaddr *address) {
  const uint8_t *begin = nullptr;
  size_t size = 0;
  if (address->sa_family == AF_INET) {
    begin = reinterpret_cast<const uint8_t *>(
        &reinterpret_cast<const sockaddr_in *>(address)->sin_addr);
    size = 4;
  } else if (address->sa_family == AF_INET6) {
    begin = reinterpret_cast<const uint8_t *>(
        &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
    size = 16;
  }
  return {begin, begin + size};
}

} // namespace

Result<std::vector<InterfaceAddress>> interfaceAddresses() {
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return Error{fmt::format("cannot list the network interfaces of this "
                             "machine: {}",
                             std::strerror(errno)),
                 Error::Fault::Rank};
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs *each = list; each; each = each->ifa_next) {
    if (!each->ifa_addr || !each->ifa_netmask || !(each->ifa_flags & IFF_UP))
      continue;
    std::vector<uint8_t> bytes = bytesOf(each->ifa_addr);
    if (bytes.empty())
      continue;
    bool six = bytes.size() == 16;
    if (six && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80)
      continue; // fe80::/10
    char text[INET6_ADDRSTRLEN];
    inet_ntop(six ? AF_INET6 : AF_INET, bytes.data(), text, sizeof(text));
    all.push_back({each->ifa_name, text, countBits(bytesOf(each->ifa_netmask)),
                   (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return std::move(all);
}

bool areInOneNetwork(const std::string &a, const std::string &b, int prefix) {
  std::vector<uint8_t> first = bytesOf(a), second = bytesOf(b);
  if (first.empty() || first.size() != second.size() || prefix < 0 ||
      size_t(prefix) > 8 * first.size())
    return false;
  for (size_t bit = 0; bit < size_t(prefix); ++bit) {
    uint8_t mask = uint8_t(0x80 >> bit % 8);
    if ((first[bit / 8] & mask) != (second[bit / 8] & mask))
      return false;
  }
  return true;
}

Result<std::vector<InterfaceAddress>>
selectInterface(const std::vector<InterfaceAddress> &all,
                const std::string &choice) {
  size_t slash = choice.find('/');
  std::string network = choice.substr(0, slash);
  int prefix = -1;
  if (slash != choice.npos) {
    const char *end = choice.data() + choice.size();
    auto [stop, error] =
        std::from_chars(choice.data() + slash + 1, end, prefix);
    if (error != std::errc() || stop != end ||
        !areInOneNetwork(network, network, prefix))
      return Error{fmt::format("--interface {}: neither the name of an "
                               "interface nor a network such as 10.0.0.0/8",
                               choice)};
  }
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress &each : all)
    if (prefix < 0 ? each.interface == choice
                   : areInOneNetwork(each.address, network, prefix))
      chosen.push_back(each);
  if (!chosen.empty())
    return std::move(chosen);
  std::vector<std::string> there;
  for (const InterfaceAddress &each : all)
    there.push_back(
        fmt::format("{} ({}/{})", each.interface, each.address, each.prefix));
  return Error{fmt::format("--interface {}: this machine has no such "
                           "interface that is up; it has {}",
                           choice, fmt::join(there, ", "))};
}

std::string chooseAddress(const std::vector<std::string> &theirs,
                          const std::vector<InterfaceAddress> &own) {
  std::vector<std::string> left;
  for (const std::string &address : theirs)
    if (std::none_of(own.begin(), own.end(), [&](const InterfaceAddress &each) {
          return each.address == address;
        }))
      left.push_back(address);
  for (const std::string &address : left)
    for (const InterfaceAddress &each : own)
      if (!each.isLoopback &&
          areInOneNetwork(address, each.address, each.prefix))
        return address;
  return left.empty() ? "" : left.front();
}

Result<std::string> identityOfMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network{};
  if (!std::getline(file, boot) || stat("/proc/self/ns/net", &network) != 0)
    return Error{"cannot read the identity of this machine below /proc",
                 Error::Fault::Rank};
  return fmt::format("{}/{}", boot, network.st_ino);
}

} // namespace polyrank::runtime
