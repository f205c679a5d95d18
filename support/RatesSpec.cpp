// Parses --rates.

#include "support/RatesSpec.h"

#include "support/KeyValue.h"

#include <string>

namespace polyrank {

Result<RatesSpec> RatesSpec::parse(std::string_view text) {
  constexpr PairForm form{"compute=GFLOPS,memory=GB_PER_S",
                          "compute=120,memory=16"};
  RatesSpec rates;
  if (auto both = numbersOf(text, 2)) { // the former spelling, 120:16
    rates = {(*both)[0], (*both)[1]};
  } else {
    auto pairs = parsePairs(text, form);
    if (!pairs || pairs->size() != 2)
      return notPair(text, form);
    for (const KeyValue &pair : *pairs) {
      auto number = numberOf(pair.value);
      double &rate = pair.key == "compute" ? rates.gigaflops : rates.gigabytes;
      if (!number || rate != 0 ||
          (pair.key != "compute" && pair.key != "memory"))
        return notPair(text, form);
      rate = *number;
    }
  }
  if (!canCompute(rates.gigaflops) || !canRead(rates.gigabytes))
    return Error{"'" + std::string(text) +
                 "': from 1e-3 to 1e7 GFLOP/s and from 1e-3 to 1e6 GB/s are "
                 "possible"};
  return rates;
}

} // namespace polyrank
