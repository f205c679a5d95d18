// The name of this machine's CPU.

#pragma once

#include <string>

namespace polyrank {

/// The kernel's name of the CPU, "AMD EPYC 9554"; empty if it is not known.
std::string cpuName();

} // namespace polyrank
