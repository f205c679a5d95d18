// What a file is that is not what was asked for: by its first bytes.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace polyrank {

/// What a file was taken for.
enum class WantedFile { Model, Weights, Data };

/// As much of a file's beginning as `foreignFormat` looks at.
constexpr size_t formatBytes = 512;

/// "is compressed with gzip; unpack it first: gzip -dk FILE": what a file that
/// begins with `start` is, where that is known and not what is wanted, and the
/// way to what is. Empty where nothing is known against it. An npz set is data;
/// any text may be.
std::string foreignFormat(std::string_view start, WantedFile wanted);

} // namespace polyrank
