// What is requested of a session that is one machine of a job of several.

#pragma once

#include "runtime/comm/WireKind.h"

#include <cstdint>
#include <map>
#include <string>

namespace polyrank::runtime {

struct MachineOptions {
  int machines = 1; // 1: this machine alone
  /// Further ones, with the numbers that follow, which wait until they are
  /// needed in the place of another one.
  int spares = 0;
  int machine = 0; // this one
  /// Where machine 0 is: a name or an address (IPv6 without brackets), and a
  /// port.
  std::string host;
  uint16_t port = 0;
  /// The address of `--interface`; empty: any.
  std::string bindAddress;
  std::string key;            // the file of the job's key; empty: POLYRANK_KEY
  double joinTimeout = 300;   // seconds
  double rejoinTimeout = 300; // seconds, for the place of a lost machine
  /// The plans with which fewer machines go on, by their number.
  std::map<int, std::string> plansIf;
  bool allowMixedCpus = false;
  bool checksWire = true; // checksums of what ranks send to other machines
  WireKind wire = WireKind::Tcp; // what moves it
  /// Every machine runs all ranks of the plan, on data of its own.
  bool wholePlan = false;

  bool isOneOfSeveral() const { return machines > 1; }
  bool isSpare() const { return machine >= machines; }
};

} // namespace polyrank::runtime
