// Lays out the arrays of outputs.

#include "runtime/session/OutputArrays.h"

#include "runtime/plan/plan_generated.h"
#include "support/BatchDim.h"

#include <set>

namespace polyrank::runtime {

std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples) {
  std::vector<OutputArray> arrays;
  uint64_t end = 0;
  std::set<std::string> seen;
  for (uint32_t program = 0; program < plan.programs()->size(); ++program) {
    const auto &outputs = *plan.programs()->Get(program)->outputs();
    for (uint32_t number = 0; number < outputs.size(); ++number) {
      const plan::Output &output = *outputs.Get(number);
      if (output.kind() != plan::OutputKind::Tensor ||
          !seen.insert(output.name()->str()).second)
        continue;
      OutputArray array{program,
                        number,
                        output.name()->str(),
                        ElementType(output.dtype()),
                        {},
                        (end + 63) / 64 * 64,
                        uint64_t(elementSize(output.dtype()))};
      for (uint32_t d = 2; d < output.dims()->size(); ++d)
        array.shape.push_back(output.dims()->Get(d)->size());
      if (output.batch_dim() != noBatch)
        array.shape.insert(array.shape.begin() + output.batch_dim(),
                           int64_t(samples));
      for (int64_t size : array.shape)
        array.bytes *= size;
      end = array.offset + array.bytes;
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

uint64_t bytesOf(const std::vector<OutputArray> &outputs) {
  return outputs.empty() ? 0 : outputs.back().offset + outputs.back().bytes;
}

} // namespace polyrank::runtime
