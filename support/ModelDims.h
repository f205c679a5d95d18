// Converts dims from the order with the batch first to that of the user's
// model.

#pragma once

#include "support/BatchDim.h"

#include <span>
#include <string>
#include <vector>

namespace polyrank {

/// The order of dims in the user's model, with the batch at dim `batchDim`, of
/// a tensor of `rank` dims whose dim 0 is the batch: [1, 0, 2] for 3 and 1.
/// With `noBatch`, dim 0 is a single row that the model does not have: [1, 2].
inline std::vector<int64_t> modelOrder(int64_t rank, int64_t batchDim) {
  std::vector<int64_t> order;
  for (int64_t dim = 1; dim < rank; ++dim)
    order.push_back(dim);
  if (batchDim != noBatch)
    order.insert(order.begin() + batchDim, 0);
  return order;
}

/// The shape of an array of many samples of shape `row`, stacked along dim
/// `batchDim`: "[2,SAMPLES,8]", or "[2,8]" with `noBatch`.
inline std::string samplesText(std::span<const int64_t> row, int64_t batchDim) {
  std::vector<std::string> dims;
  for (int64_t size : row)
    dims.push_back(std::to_string(size));
  if (batchDim != noBatch)
    dims.insert(dims.begin() + batchDim, "SAMPLES");
  std::string text;
  for (const std::string &dim : dims)
    text += (text.empty() ? "" : ",") + dim;
  return "[" + text + "]";
}

} // namespace polyrank
