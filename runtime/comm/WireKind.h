// The ways to move bytes between the ranks of different machines (--wire).

#pragma once

#include <cstdint>

namespace polyrank::runtime {

enum class WireKind : uint32_t {
  Tcp,
  Ucx // the library of this name, which is loaded where it is used
};

inline const char *nameOf(WireKind kind) {
  return kind == WireKind::Ucx ? "ucx" : "tcp";
}

} // namespace polyrank::runtime
