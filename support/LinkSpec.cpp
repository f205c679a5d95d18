// Parses --link.

#include "support/LinkSpec.h"

#include "support/KeyValue.h"

namespace polyrank {

Result<LinkSpec> LinkSpec::parse(std::string_view text) {
  constexpr PairForm form{"AXIS=MICROSECONDS:GB_PER_S", "tensor=10:25"};
  auto fail = [](const Error &error) { return Error{"link " + error.message}; };
  auto pair = parsePair(text, form);
  if (!pair)
    return fail(pair.error());
  auto numbers = numbersOf(pair->value, 2);
  if (!numbers)
    return fail(notPair(text, form));
  LinkSpec link{std::string(pair->key), (*numbers)[0], (*numbers)[1]};
  if (!hasLatency(link.microseconds) || !hasBandwidth(link.gigabytes))
    return Error{"link '" + std::string(text) +
                 "': from 0 to 1e6 microseconds and from 1e-6 to 1e6 GB/s are "
                 "possible"};
  return link;
}

} // namespace polyrank
