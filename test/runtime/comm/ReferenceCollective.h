// The reference for all communicators: the collectives as plan.fbs defines
// them, element by element.

#pragma once

#include "runtime/comm/Communicator.h"

#include <cstring>
#include <vector>

namespace polyrank::runtime::test {

using Bytes = std::vector<std::byte>;

/// Returns a deterministic input: small integers for integer types, fractions
/// for floats.
Bytes makeInput(ElementType dtype, int64_t elements, int rank, uint64_t salt);

int64_t inputElements(const Collective &collective, const Transfer &transfer,
                      int members);
int64_t outputElements(const Collective &collective, const Transfer &transfer,
                       int members);

/// Returns the output of member `me`, from the inputs of all members.
Bytes referenceOutput(const Collective &collective, const Transfer &transfer,
                      const std::vector<Bytes> &inputs, int me);

} // namespace polyrank::runtime::test
