// Counts the ops that an import has created.

#pragma once

#include <iterator>

#include "mlir/IR/Builders.h"

namespace polyrank::frontends {

/// Counts the ops in the builder's current block that were created since
/// construction.
class OpCount {
public:
  explicit OpCount(mlir::OpBuilder &builder)
      : block(builder.getInsertionBlock()),
        last(block->empty() ? nullptr : &block->back()) {}

  int64_t get() const {
    auto first = last ? std::next(last->getIterator()) : block->begin();
    return std::distance(first, block->end());
  }

private:
  mlir::Block *block;
  mlir::Operation *last;
};

} // namespace polyrank::frontends
