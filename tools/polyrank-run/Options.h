// The command line of polyrank-run.

#pragma once

#include "runtime/session/SessionOptions.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace polyrank::runtime {

/// What is said of the machines of the job, before it is known which one this
/// is.
struct MachineRequest {
  PlaceOptions said;
  std::string interface, key;
  double joinTimeout = 300, rejoinTimeout = 300; // seconds
  std::vector<std::string> plansIf;              // "4=half.plan"
  bool wholePlan = false, allowMixedCpus = false, checksWire = true;
  WireKind wire = WireKind::Tcp;
};

/// What the command line requests: a session, and what the tool does itself.
struct RunOptions : SessionOptions {
  /// To be rank `rank` of the run of this name, instead of a run.
  std::string guestOf;
  std::optional<int64_t> rank;
  MachineRequest request;
  std::string transport = "shm";
  bool check = false; // check everything, and run nothing
  /// To measure this machine instead, and write `output`, a machine file.
  bool calibrate = false;
  std::string output;
  double calibrateSeconds = 60;
};

/// Parses the command line. An integer is the exit status after a request for
/// help or an error, which have been printed.
std::variant<RunOptions, int> parseOptions(int argc, char **argv);

} // namespace polyrank::runtime
