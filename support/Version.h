// The version of all tools. It is written only here; CMake reads it.

#pragma once

namespace polyrank {

inline constexpr const char *versionText = "0.1.0";
/// The date of this version, for man pages.
inline constexpr const char *versionDate = "2026-11-25";

} // namespace polyrank
