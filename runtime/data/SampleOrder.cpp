// The keyed permutation of samples.

#include "runtime/data/SampleOrder.h"

#include <bit>

namespace polyrank::runtime {
namespace {

/// The finaliser of SplitMix64 (Steele et al., 2014).
uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

constexpr uint64_t increment = 0x9e3779b97f4a7c15;

} // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, uint64_t seed, uint64_t epoch)
    : size(size) {
  int bits = size > 1 ? std::bit_width(size - 1) : 1;
  halfBits = (bits + 1) / 2;
  mask = (uint64_t(1) << halfBits) - 1;
  uint64_t state = mix(mix(seed + increment) ^ (epoch + 1) * increment);
  for (uint64_t &key : keys)
    key = mix(state += increment);
}

uint64_t KeyedPermutation::operator()(uint64_t index) const {
  do {
    uint64_t left = index >> halfBits, right = index & mask;
    for (uint64_t key : keys) {
      uint64_t next = left ^ (mix(right + key) & mask);
      left = right;
      right = next;
    }
    index = left << halfBits | right;
  } while (index >= size);
  return index;
}

uint64_t sampleAt(SampleOrder order, uint64_t size, uint64_t seed,
                  uint64_t position) {
  uint64_t epoch = position / size, index = position % size;
  return order == SampleOrder::Sequential
             ? index
             : KeyedPermutation(size, seed, epoch)(index);
}

} // namespace polyrank::runtime
