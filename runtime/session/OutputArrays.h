// The arrays that a forward run writes.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "support/ElementType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// An output of a forward plan for all samples that a run writes. All outputs
/// lie one after another in one memory, each aligned to 64 bytes.
struct OutputArray {
  uint32_t program; // the program that has it
  size_t number;    // its number in the program
  std::string name;
  ElementType dtype;
  std::vector<int64_t> shape; // the batch dim has all samples
  uint64_t offset, bytes;
};
/// Returns the tensor outputs of a plan. If several programs have an output,
/// it is that of the first. Scalar outputs, which are reported, are not among
/// them.
std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples);

/// The size of the memory that these arrays lie in.
uint64_t bytesOf(const std::vector<OutputArray> &outputs);

} // namespace polyrank::runtime
