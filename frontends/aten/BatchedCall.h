// One call of an operator inside a region of torch.vmap, as its rule sees it.

#pragma once

#include <map>

#include "frontends/aten/Batched.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::aten {

/// Rules are of three kinds. Most operators are *adjusted*: their operands are
/// aligned, their arguments that name dims or shapes are shifted, and then the
/// operator is called as usual, with the hidden dims as ordinary leading dims.
/// A few *choose* what to call by what their arguments are (a reduction without
/// dims is one over all dims that are seen). The rest are *formulas* of other
/// operators on batched tensors.
class BatchedCall {
public:
  BatchedCall(Context &context, llvm::StringRef name, const Schema &schema,
              std::vector<Value> arguments);
  Value run();

  using Rule = Value (BatchedCall::*)();
  struct Entry {
    Rule rule;
    /// True for rules that call the operator itself, so that they also hold for
    /// its in-place form (`add_`).
    bool mayWrite;
  };
  /// The rules by operator name, without the namespace.
  static const llvm::StringMap<Entry> &rules();

private:
  //===-- arguments ------------------------------------------------------===//

  /// Returns the argument; None if the schema has no such parameter.
  const Value &operator[](llvm::StringRef parameter) const;
  bool has(llvm::StringRef parameter) const {
    return !(*this)[parameter].isNone();
  }
  void set(llvm::StringRef parameter, Value value);
  bool isBatched(llvm::StringRef parameter) const {
    return asBatched((*this)[parameter]) != nullptr;
  }
  /// Returns true if no tensor argument but the first is batched.
  bool isFirstOnly() const;

  //===-- calls ----------------------------------------------------------===//

  /// Calls an operator on batched and other values; unknown if one of them is.
  Value op(llvm::StringRef of, std::vector<Value> given,
           const Keywords &keywords = {}) const {
    return call(context, ("aten::" + of).str(), std::nullopt, given, keywords);
  }
  /// Calls the operator itself with `arguments`, none of which is batched any
  /// more, and returns its results unchanged.
  Value callHeld() const;
  /// Marks the tensors of a result, alone or in lists, as batched: their
  /// leading dims are all levels of the call.
  Value wrap(const Value &result) const;
  /// Reshapes each tensor of a result to the shape that `shapeOf` computes from
  /// its own.
  Value reshaped(const Value &result,
                 llvm::function_ref<Shape(Shape)> shapeOf) const;
  Value viewed(const Value &tensor, llvm::ArrayRef<int64_t> shape) const;
  Value fail(const std::string &reason) const;
  Value refuse() const;

  //===-- operands -------------------------------------------------------===//

  /// Returns `operand` with a dim for each level of the call and then at least
  /// `toRank` dims; dims of size 1 are inserted, so that it broadcasts. A
  /// tensor that is not batched broadcasts anyway and is returned unchanged,
  /// unless `isWhole`: then every hidden dim is expanded to its full size.
  Value align(const Value &operand, int64_t toRank, bool isWhole) const;
  static int64_t rankOf(const Value &operand);
  static Shape shapeOf(const Value &operand);
  int64_t numHidden() const { return static_cast<int64_t>(levels.size()); }
  /// The sizes of all hidden dims.
  Shape hidden() const;
  Shape withHidden(llvm::ArrayRef<int64_t> shape) const;
  /// Calls `visit` with each tensor argument, including those in lists.
  void forEachOperand(
      llvm::function_ref<void(Value &)> visit,
      llvm::function_ref<bool(const SchemaParameter &)> accepts =
          [](const auto &) { return true; });
  /// Returns true if each written operand has all levels of the call.
  bool mayWrite() const;
  /// Shifts the arguments that name a dim past the hidden dims; returns false
  /// and records a failure if one of them is out of range.
  bool shiftDims(int64_t ofRank);
  void convertAligned(ElementType seen);

  //===-- rules ----------------------------------------------------------===//

  Value adjustTo(bool isWhole);
  Value broadcast() { return adjustTo(/*isWhole=*/false); }
  Value whole() { return adjustTo(/*isWhole=*/true); }
  Value wholeAlongIndex();
  Value likeFirst();
  Value folded();

  Value reduce();
  Value withShape();
  Value withShapeOf();
  Value flatten();
  Value squeeze();
  Value permute();
  Value reverseDims();
  Value transposeMatrix();
  Value broadcastTensors();
  Value roll();
  Value repeat();
  Value property();
  Value nothing() { return {}; }

  Value product();
  Value linear();
  Value addProduct();
  Value outer();
  Value einsum();
  Value attention();
  Value normalize();
  Value loss();
  Value crossEntropy();
  Value embedding();
  Value repeatInterleave();
  Value chooseExtremum();
  Value chooseWhere();
  Value index();
  Value indexSelect();
  Value pickAt(const Value &self, const List &indices);

  Context &context;
  llvm::StringRef name; // with the namespace
  const Schema &schema;
  std::vector<Value> arguments;
  /// The levels of all operands, ascending, with their sizes.
  llvm::SmallVector<int64_t, 2> levels;
  std::map<int64_t, int64_t> sizes;
  int64_t rank = 0;  // the most visible dims of any operand
  std::string error; // set if sizes of operands do not fit
};

} // namespace polyrank::frontends::aten
