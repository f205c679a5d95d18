// The part of a session that runs in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "runtime/session/RankParts.h"
#include "runtime/session/SessionOptions.h"

#include <exception>
#include <string>

namespace polyrank::runtime {

/// Describes an exception of the standard library.
std::string describe(const std::exception &exception);

/// Runs the rank to its end. Returns the exit status of the process.
int rankMain(const SessionOptions &options, const RankConnection &connection,
             const RankParts &parts = {});

} // namespace polyrank::runtime
