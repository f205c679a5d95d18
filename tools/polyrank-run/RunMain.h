// The whole of polyrank-run, on devices and communicators of any kind.

#pragma once

#include "runtime/session/RankParts.h"

namespace polyrank::runtime {

/// The process is a launcher, or one of its ranks, which has these parts.
/// Returns the exit status.
int runMain(int argc, char **argv, const RankParts &parts = {});

} // namespace polyrank::runtime
