// The addresses of this machine, and which of them others can use.

#pragma once

#include "support/Result.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// An address of an interface that is up.
struct InterfaceAddress {
  std::string interface; // "eth0"
  std::string address;   // "10.0.0.2", "fd00::2"
  int prefix = 0;        // bits of its network
  bool isLoopback = false;

  bool isSix() const { return address.find(':') != std::string::npos; }
  bool operator==(const InterfaceAddress &) const = default;
};

/// All addresses of this machine but those that hold for one link alone
/// (fe80::/10), in the order of the system.
Result<std::vector<InterfaceAddress>> interfaceAddresses();

/// The addresses that `--interface` means: of the interface of that name
/// ("eth0"), or in that network ("10.0.0.0/8", "fd00::/8"). The error of one
/// that is not there lists those that are.
Result<std::vector<InterfaceAddress>>
selectInterface(const std::vector<InterfaceAddress> &all,
                const std::string &choice);

/// True if both addresses begin with the same `prefix` bits.
bool areInOneNetwork(const std::string &a, const std::string &b, int prefix);

/// Of the addresses of another machine the one that this machine reaches best:
/// in a network that both are in, else the first. An address that this machine
/// has as well (such as that of a bridge of containers) leads nowhere. Empty if
/// none is left.
std::string chooseAddress(const std::vector<std::string> &theirs,
                          const std::vector<InterfaceAddress> &own);

/// What distinguishes this machine, and each container with a network of its
/// own, from others: processes with the same identity reach each other by
/// sockets without a network.
Result<std::string> identityOfMachine();

} // namespace polyrank::runtime
