// The version of all tools: the one place where it is written. CMake reads it.

#pragma once

namespace polyrank {

inline constexpr const char *versionText = "0.1.0";

} // namespace polyrank
