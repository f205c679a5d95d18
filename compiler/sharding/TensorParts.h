// A tensor of the boundary in parts, of which each device holds one: its layout
// with more axes than it computes with.

#pragma once

#include <string>

#include "dialects/sharding/Sharding.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::sharding {

/// Why a tensor stays whole; empty where nothing is against its parts.
using WhyWhole = std::string;

/// The layout of a value that has one.
inline LayoutAttr layoutOf(mlir::Value value) { return getLayout(value); }

/// What padding contains; undefined where there is none.
Fill fillOf(LayoutAttr layout);

/// Equal parts of what a device has of the whole. Where it divides, they are
/// blocks of the first dim of more than one element, or else of all elements as
/// a row, or else of another dim: the first two are consecutive, so that
/// nothing needs to be copied. What does not divide is padded: the row where
/// there can be one, or else the dim that grows least.
class TensorParts {
public:
  /// `whole` has a layout, which uses none of `axes`.
  TensorParts(mlir::RankedTensorType whole, llvm::ArrayRef<AxisRef> axes);

  /// Finds the blocks. Where they would be those of a row, `whyNoRow` says what
  /// is against it ("and as a row ..").
  WhyWhole choose(llvm::function_ref<WhyWhole()> whyNoRow);
  /// What collectives say of themselves: which constraint, and for whom.
  void setWhy(std::string constraint, std::string user);

  bool isRow() const { return row; }
  /// Elements of padding over all parts that the whole does not have.
  int64_t getExcess() const;
  mlir::RankedTensorType getWholeType() const { return whole; }
  llvm::ArrayRef<AxisRef> getAxes() const { return axes; }

  /// The type of a device's part of a tensor of the same shape and layout.
  /// `fill` is what the padding of the whole contains, where it has some.
  mlir::RankedTensorType getPartType(mlir::Type element, Fill fill) const;
  /// The type of a part that is kept from step to step: zeros are its padding.
  mlir::RankedTensorType getStoredType(mlir::Type element) const;

  /// These write ops that have the location of what they take.
  /// @{
  mlir::Value split(mlir::OpBuilder &builder, mlir::Value whole,
                    ReasonAttr why = {}) const;
  /// The whole tensor, which has this type, from its parts.
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
  int64_t padded = 0; // extent of `dim` in the parts; 0: as in the whole
  std::string constraint, user;
};

} // namespace polyrank::sharding
