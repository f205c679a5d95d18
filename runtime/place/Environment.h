// The environment of a process as a function, so that tests can make one.

#pragma once

#include <functional>

namespace polyrank::runtime {

/// Returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char *(const char *)>;

} // namespace polyrank::runtime
