// How many operators an import has made.

#pragma once

#include <iterator>

#include "mlir/IR/Builders.h"

namespace polyrank::frontends {

/// Of the block that the builder writes, those since this was made.
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
