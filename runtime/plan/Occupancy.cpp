// How many blocks of a kernel run at the same time on a GPU's multiprocessor.

#include "runtime/plan/Occupancy.h"

#include <algorithm>
#include <charconv>

namespace polyrank::runtime {
namespace {

/// What a multiprocessor has: CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability". All have 64 K registers.
struct Multiprocessor {
  int capability; // times ten
  uint64_t threads, blocks, sharedBytes;
};

constexpr Multiprocessor all[] = {
    {80, 2048, 32, 164 << 10},  {86, 1536, 16, 100 << 10},
    {87, 1536, 16, 164 << 10},  {89, 1536, 24, 100 << 10},
    {90, 2048, 32, 228 << 10},  {100, 2048, 32, 228 << 10},
    {103, 2048, 32, 228 << 10}, {120, 1536, 24, 100 << 10}};

constexpr uint64_t registersOfAll = 64 << 10, warpThreads = 32,
                   /// Registers are given to warps in units of so many, and to
                   /// so many warps at once.
    registerUnit = 256, warpUnit = 4,
                   /// Shared memory that each block takes for the system.
    reservedBytes = 1 << 10;

constexpr uint64_t roundUp(uint64_t number, uint64_t unit) {
  return (number + unit - 1) / unit * unit;
}

const Multiprocessor *find(std::string_view architecture) {
  constexpr std::string_view prefix = "sm_";
  if (!architecture.starts_with(prefix))
    return nullptr;
  architecture.remove_prefix(prefix.size());
  int capability = 0;
  std::from_chars(architecture.data(),
                  architecture.data() + architecture.size(), capability);
  const auto *found = std::find_if(std::begin(all), std::end(all),
                                   [&](const Multiprocessor &each) {
                                     return each.capability == capability;
                                   });
  return found == std::end(all) ? nullptr : found;
}

} // namespace

uint64_t residentBlocks(std::string_view architecture,
                        const BlockNeeds &block) {
  const Multiprocessor *has = find(architecture);
  if (!has || block.threads == 0 || block.registers == 0)
    return 0;
  uint64_t warps = roundUp(block.threads, warpThreads) / warpThreads;
  uint64_t ofWarp = roundUp(block.registers * warpThreads, registerUnit);
  uint64_t allWarps = registersOfAll / ofWarp / warpUnit * warpUnit;
  return std::min({has->blocks, has->threads / (warps * warpThreads),
                   allWarps / warps,
                   has->sharedBytes / (block.sharedBytes + reservedBytes)});
}

} // namespace polyrank::runtime
