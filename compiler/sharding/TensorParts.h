// A tensor at the step's boundary of which each device stores a part: its
// layout is split over more axes than the one it computes with.

#pragma once

#include <string>

#include "dialects/sharding/Sharding.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::sharding {

/// The reason why a tensor is not split into parts; empty if it is.
using WhyWhole = std::string;

/// The layout of a value that has one.
inline LayoutAttr layoutOf(mlir::Value value) { return getLayout(value); }

/// The fill of the layout's padding; undefined if there is no padding.
Fill fillOf(LayoutAttr layout);

/// Equal parts of each device's block of the whole tensor. If the size divides,
/// the parts are blocks of the first dim of more than one element, or else of
/// all elements as a row, or else of another dim; in the first two cases they
/// are consecutive in memory, so that nothing is copied. If nothing divides,
/// the row is padded if a row is possible, or else the dim that grows least.
class TensorParts {
public:
  /// `whole` has a layout that uses none of `axes`.
  TensorParts(mlir::RankedTensorType whole, llvm::ArrayRef<AxisRef> axes);

  /// Chooses the parts, or returns why there are none. `whyNoRow` returns why
  /// the elements cannot be split as a row, to complete "and as a row ..".
  WhyWhole choose(llvm::function_ref<WhyWhole()> whyNoRow);
  /// Sets the reason of the collectives: the constraint and the user.
  void setWhy(std::string constraint, std::string user);

  bool isRow() const { return row; }
  /// The elements of padding that the parts add to the whole, over all parts.
  int64_t getExcess() const;
  mlir::RankedTensorType getWholeType() const { return whole; }
  llvm::ArrayRef<AxisRef> getAxes() const { return axes; }

  /// The type of a device's part of a tensor of the same shape and layout.
  /// `fill` is what the padding of the whole contains, if it has any.
  mlir::RankedTensorType getPartType(mlir::Type element, Fill fill) const;
  /// The type of a part that is kept between steps: its padding holds zeros.
  mlir::RankedTensorType getStoredType(mlir::Type element) const;

  /// These create ops at the location of their operand.
  /// @{
  mlir::Value split(mlir::OpBuilder &builder, mlir::Value whole,
                    ReasonAttr why = {}) const;
  /// Reassembles the whole tensor, of this type, from its parts.
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Value part,
                     mlir::RankedTensorType type) const;
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      LayoutAttr to, ReasonAttr why = {}) const;
  /// @}

private:
  WhyWhole whyNoRowOfElements() const;
  bool choosePadding(bool rowIsPossible);
  LayoutAttr getRowLayout(llvm::ArrayRef<AxisRef> more, Fill fill) const;
  mlir::Value reshape(mlir::OpBuilder &builder, mlir::Value value,
                      llvm::ArrayRef<int64_t> shape) const;

  mlir::RankedTensorType whole;
  LayoutAttr layout;
  llvm::SmallVector<AxisRef> axes;
  bool row = false;
  int64_t dim = 0;
  int64_t padded = 0; // the extent of `dim` in the parts; 0: that of the whole
  std::string constraint, user;
};

} // namespace polyrank::sharding
