// Recognises, by its first bytes, what a file is that is not of the requested
// kind.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace polyrank {

/// The kind of file that was expected.
enum class WantedFile { Model, Weights, Data };

/// The number of bytes that `foreignFormat` looks at.
constexpr size_t formatBytes = 512;

/// Says what a file is that begins with `start`, and how to get what is wanted:
/// "is compressed with gzip; unpack it first: gzip -dk FILE". Empty if the file
/// may be what is wanted. An npz set is data, and any text may be data.
std::string foreignFormat(std::string_view start, WantedFile wanted);

} // namespace polyrank
