// Operators inside a region of torch.vmap that are formulas of others.

#include "frontends/aten/BatchedCall.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace polyrank::frontends::aten {

//===-- products ---------------------------------------------------------===//

/// As in matmul, a vector is a row on the left and a column on the right.
Value BatchedCall::product() {
  Value a = arguments[0], b = arguments[1];
  int64_t aRank = rankOf(a), bRank = rankOf(b);
  if (aRank == 0 || bRank == 0)
    return fail("a matrix product of a scalar");
  // All rows of all samples are multiplied by the same matrix.
  if (!asBatched(b) && bRank == 2)
    return wrap(op("matmul", {Value(heldTensor(a)), b}));
  if (aRank == 1)
    a = op("unsqueeze", {a, Value(0)});
  if (bRank == 1)
    b = op("unsqueeze", {b, Value(1)});
  int64_t toRank = std::max({aRank, bRank, int64_t(2)});
  Value result = wrap(op("matmul", {align(a, toRank, /*isWhole=*/false),
                                    align(b, toRank, /*isWhole=*/false)}));
  if (aRank == 1)
    result = op("squeeze", {result, Value(-2)});
  return bRank == 1 ? op("squeeze", {result, Value(-1)}) : result;
}

Value BatchedCall::linear() {
  const Value &input = (*this)["input"], &weight = (*this)["weight"],
              &bias = (*this)["bias"];
  if (!asBatched(weight) && !asBatched(bias)) {
    set("input", heldTensor(input));
    return wrap(callHeld());
  }
  Value result =
      op("matmul", {input, rankOf(weight) == 2
                               ? op("transpose", {weight, Value(0), Value(1)})
                               : weight});
  return bias.isNone() ? result : op("add", {result, bias});
}

/// beta * self + alpha * product.
Value BatchedCall::addProduct() {
  auto scaled = [&](const Value &x, StringRef by) {
    const Value &factor = (*this)[by];
    return factor.getNumber() == 1 ? x : op("mul", {x, factor});
  };
  return op("add",
            {scaled(arguments[0], "beta"),
             scaled(op("matmul", {arguments[1], arguments[2]}), "alpha")});
}

Value BatchedCall::outer() {
  return op("mul", {op("unsqueeze", {arguments[0], Value(1)}), arguments[1]});
}

/// Each level gets a letter of its own, before the others.
Value BatchedCall::einsum() {
  std::string equation;
  for (char c : (*this)["equation"].getString())
    if (c != ' ')
      equation += c;
  auto [left, right] = StringRef(equation).split("->");
  std::string result = right.str();
  if (!StringRef(equation).contains("->")) {
    // The letters that occur once, in alphabetical order.
    result = left.contains("...") ? "..." : "";
    std::string letters = left.str();
    llvm::sort(letters);
    for (char c : letters)
      if (llvm::isAlpha(c) && left.count(c) == 1)
        result += c;
  }
  std::map<int64_t, char> letterOf;
  std::string unused;
  for (char c = 'A'; c <= 'z'; ++c)
    if (llvm::isAlpha(c) && !StringRef(equation).contains(c))
      unused += c;
  if (unused.size() < levels.size())
    return fail("more letters than there are");
  std::string lettersOfAll;
  for (auto [level, letter] : llvm::zip(levels, unused)) {
    letterOf[level] = letter;
    lettersOfAll += letter;
  }
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  const List &operands = (*this)["tensors"].getElements();
  if (terms.size() != operands.size())
    return fail("as many operands as '" + equation + "' has");
  std::string whole;
  List held;
  for (auto [term, operand] : llvm::zip_equal(terms, operands)) {
    whole += held.empty() ? "" : ",";
    if (auto batched = asBatched(operand))
      for (int64_t level : batched->levels)
        whole += letterOf[level];
    whole += term;
    held.push_back(heldTensor(operand));
  }
  return wrap(op("einsum", {Value(whole + "->" + lettersOfAll + result),
                            Value::list(std::move(held))}));
}

//===-- layers -----------------------------------------------------------===//

/// The operand's own batch dims come before the dims of an attention.
Value BatchedCall::attention() {
  int64_t toRank = 0;
  for (StringRef each : {"query", "key", "value"})
    toRank = std::max(toRank, rankOf((*this)[each]));
  for (StringRef each : {"query", "key", "value"})
    set(each, align((*this)[each], toRank, /*isWhole=*/true));
  if (const Value &mask = (*this)["attn_mask"]; !mask.isNone())
    set("attn_mask", align(mask, toRank, /*isWhole=*/true));
  return wrap(callHeld());
}

/// The last dims are normalized; the weights may differ between samples.
Value BatchedCall::normalize() {
  Value weight = (*this)["weight"], bias = (*this)["bias"];
  if (!asBatched(weight) && !asBatched(bias)) {
    arguments[0] = heldTensor(arguments[0]);
    return wrap(callHeld());
  }
  Value result = op(name.drop_front(StringRef("aten::").size()),
                    {arguments[0], (*this)["normalized_shape"]},
                    {{"eps", (*this)["eps"]}});
  if (!weight.isNone())
    result = op("mul", {result, weight});
  return bias.isNone() ? result : op("add", {result, bias});
}

//===-- losses -----------------------------------------------------------===//

/// The values of PyTorch's `reduction`.
static constexpr int64_t noReduction = 0, meanReduction = 1;

Value BatchedCall::loss() {
  int64_t reduction = (*this)["reduction"].getInt();
  set("reduction", Value(noReduction));
  Value each = broadcast();
  if (reduction == noReduction)
    return each;
  return op(reduction == meanReduction ? "mean" : "sum", {each});
}

/// The hidden dims are merged into the loss's own batch, and the losses of the
/// elements are summed for each sample.
Value BatchedCall::crossEntropy() {
  Value self = arguments[0], target = arguments[1];
  int64_t reduction = (*this)["reduction"].getInt(), dims = rankOf(self);
  if (isBatched("weight") || isFloat(heldTensor(target)->getType()) ||
      (reduction == meanReduction && has("weight")))
    return fail("weights of classes, or targets that are probabilities");
  int64_t numBatch = dims > 1 ? 1 : 0; // the number of its own batch dims
  if (dims < 1 || rankOf(target) != dims - 1)
    return fail("targets of " + std::to_string(rankOf(target)) + " dims");
  Shape batch;
  auto fold = [&](const Value &x) -> Value {
    Value whole = align(x, rankOf(x), /*isWhole=*/true);
    if (!whole.isTensor())
      return Value::unknown();
    Shape shape = whole.getTensor()->getShape();
    auto end = shape.begin() + numHidden() + numBatch;
    batch.assign(shape.begin(), end);
    Shape folded = {countElements(batch)};
    folded.append(end, shape.end());
    return op("reshape", {whole, Value::ints(folded)});
  };
  arguments[0] = fold(self);
  arguments[1] = fold(target);
  set("reduction", Value(noReduction));
  Value each = wrap(reshaped(callHeld(), [&](Shape shape) {
    Shape unfolded = batch;
    unfolded.append(shape.begin() + 1, shape.end());
    return unfolded;
  }));
  if (reduction == noReduction)
    return each;
  Value sum = op("sum", {each});
  if (reduction != meanReduction)
    return sum;
  Value counts = op("ne", {target, (*this)["ignore_index"]});
  return op("div", {sum, op("sum", {counts})});
}

} // namespace polyrank::frontends::aten
