// Parses sizes.

#include "support/Bytes.h"

#include <array>
#include <cctype>
#include <charconv>

namespace polyrank {

Result<uint64_t> parseBytes(const std::string &text) {
  struct Unit {
    const char *name;
    uint64_t bytes;
  };
  static constexpr std::array<Unit, 9> units{{{"b", 1},
                                              {"kb", 1000},
                                              {"mb", 1000'000},
                                              {"gb", 1000'000'000},
                                              {"tb", 1000'000'000'000},
                                              {"kib", uint64_t(1) << 10},
                                              {"mib", uint64_t(1) << 20},
                                              {"gib", uint64_t(1) << 30},
                                              {"tib", uint64_t(1) << 40}}};
  uint64_t number = 0, bytes = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  std::string name(end, text.data() + text.size());
  for (char &c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (error == std::errc())
    for (const Unit &unit : units)
      if (name == unit.name &&
          !__builtin_mul_overflow(number, unit.bytes, &bytes) && bytes >= 1 &&
          bytes <= uint64_t(1) << 60)
        return bytes;
  return Error{"'" + text +
               "' is no size, such as 500MB, 5GB (powers of 1000) or 2GiB (of "
               "1024)"};
}

} // namespace polyrank
