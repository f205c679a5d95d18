// Parses --rates.

#include "support/RatesSpec.h"

#include "support/KeyValue.h"

#include <string>

namespace polyrank {

double *RatesSpec::find(std::string_view key) {
  if (key == "compute")
    return &gigaflops;
  if (key == "memory")
    return &gigabytes;
  auto type = findElementType(&ElementTypeRow::name, key);
  if (!type || !isFloat(*type) || rowOf(*type).accumulator == *type)
    return nullptr;
  for (auto &[known, rate] : narrow)
    if (known == *type)
      return &rate;
  return &narrow.emplace_back(*type, 0).second;
}

Result<RatesSpec> RatesSpec::parse(std::string_view text) {
  constexpr PairForm form{"compute=GFLOPS,memory=GB_PER_S",
                          "compute=120,memory=16"};
  RatesSpec rates;
  if (auto both = numbersOf(text, 2)) { // the former spelling, 120:16
    rates = {(*both)[0], (*both)[1]};
  } else {
    auto pairs = parsePairs(text, form);
    if (!pairs)
      return notPair(text, form);
    for (const KeyValue &pair : *pairs) {
      double *rate = rates.find(pair.key);
      auto number = numberOf(pair.value);
      if (!rate || !number || *rate != 0)
        return notPair(text, form);
      *rate = *number;
    }
    if (pairs->size() != 2 + rates.narrow.size())
      return notPair(text, form);
  }
  bool areRates = canCompute(rates.gigaflops) && canRead(rates.gigabytes);
  for (auto [type, gigaflops] : rates.narrow)
    areRates &= canCompute(gigaflops);
  if (!areRates)
    return Error{"'" + std::string(text) +
                 "': from 1e-3 to 1e7 GFLOP/s and from 1e-3 to 1e6 GB/s are "
                 "possible"};
  return rates;
}

} // namespace polyrank
