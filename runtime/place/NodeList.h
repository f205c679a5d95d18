// Slurm's lists of hosts: "node[01-03,7],login".

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// The most hosts that a list may stand for, and the longest name of one.
inline constexpr size_t mostHosts = 1 << 16;
inline constexpr size_t longestHost = 253; // of a name in DNS

/// Expands a list of hosts as Slurm writes it (hostlist(3), SLURM_NODELIST):
/// entries separated by commas, in each any number of brackets with numbers and
/// ranges of numbers, which keep their leading zeros. The last bracket of an
/// entry changes fastest, so `a[0-1]b[0-1]` is a0b0, a0b1, a1b0, a1b1. Hosts
/// come in the order of the list. Names consist of letters, digits, '.', '-'
/// and '_'. An error names what is wrong and where; takes no more memory than
/// mostHosts names need, whatever the text says.
Result<std::vector<std::string>> expandNodeList(std::string_view list);

} // namespace polyrank::runtime
