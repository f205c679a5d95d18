// The version of all tools: the one place where it is written. CMake reads it.

#pragma once

namespace polyrank {

inline constexpr const char *versionText = "0.1.0";
/// Of this version, as man pages have it.
inline constexpr const char *versionDate = "2026-11-25";

} // namespace polyrank
