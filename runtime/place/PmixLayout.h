// The part of PMIx's binary interface that we use, so that building needs no
// headers of it: chapter 3 of the PMIx Standard 4.1, as PMIx 3, 4 and 5 have it
// (libpmix.so.2). test/runtime/place/PmixLayoutTest.cpp compares it with
// pmix_common.h.

#pragma once

#include <cstddef>
#include <cstdint>

namespace polyrank::runtime::pmix {

inline constexpr uint32_t everyRank = UINT32_MAX - 1; // PMIX_RANK_WILDCARD
inline constexpr uint8_t toAll = 3;                   // PMIX_GLOBAL
inline constexpr uint16_t typeBool = 1, typeString = 3;
inline constexpr const char *collectData = "pmix.collect";
inline constexpr const char *timeout = "pmix.timeout";
inline constexpr uint16_t typeInt = 6;

struct Process {
  char job[256];
  uint32_t rank;
};

struct Value {
  uint16_t type;
  union {
    bool flag;
    int integer;
    char *string;
    char most[24]; // the size of the largest member
    void *aligned;
  };
};

struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};

using Init = int (*)(Process *, Info *, size_t);
using Finalize = int (*)(const Info *, size_t);
using Put = int (*)(uint8_t, const char *, Value *);
using Commit = int (*)();
using Fence = int (*)(const Process *, size_t, const Info *, size_t);
using Get = int (*)(const Process *, const char *, const Info *, size_t,
                    Value **);
using ErrorString = const char *(*)(int);

} // namespace polyrank::runtime::pmix
