// Coordinates of a mesh in messages: those that are alike share a line.

#pragma once

#include <span>
#include <string>

namespace polyrank {

/// Joins places such as "pipe=1", which are in the order of their coordinates:
/// "pipe=0, 2 to 124" of those of one axis. Places of other forms are listed
/// whole: "pipe=0,data=1, pipe=1,data=1".
std::string joinPlaces(std::span<const std::string> places);

} // namespace polyrank
