// Einsum: sums of products, with a letter per dim.

#include "frontends/emit/Einsum.h"

#include <map>
#include <set>

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends {
namespace {

/// A letter, or a dim of the ellipsis: -1 for the last one, -2 for the one
/// before it, ..
using Label = int;
using Labels = SmallVector<Label>;

/// A tensor with a label for each dim.
struct Term {
  Imported value;
  Labels labels;
};

/// The labels of `text`; "..." stands for `ellipsis` dims. Nullopt if `text` is
/// malformed.
std::optional<Labels> readLabels(StringRef text, int64_t ellipsis) {
  Labels labels;
  for (bool seen = false; !text.empty();) {
    if (text.consume_front("...")) {
      if (seen || ellipsis < 0)
        return std::nullopt;
      seen = true;
      for (int64_t i = ellipsis; i > 0; --i)
        labels.push_back(static_cast<Label>(-i));
      continue;
    }
    if (!llvm::isAlpha(text.front()))
      return std::nullopt;
    labels.push_back(text.front());
    text = text.drop_front();
  }
  return labels;
}

bool repeats(const Labels &labels) {
  return std::set<Label>(labels.begin(), labels.end()).size() != labels.size();
}

/// If two dims have the same label, keeps only the elements whose indices are
/// equal there.
LogicalResult takeDiagonals(Emitter &emit, Term &term) {
  for (size_t j = 0; j < term.labels.size();) {
    auto i = static_cast<size_t>(llvm::find(term.labels, term.labels[j]) -
                                 term.labels.begin());
    if (i == j) {
      ++j;
      continue;
    }
    const Imported &x = term.value;
    Shape shape = x.getShape();
    if (shape[i] != shape[j])
      return emit.fail("the diagonal of dims of " + Twine(shape[i]) + " and " +
                       Twine(shape[j]));
    Type index = emit.getBuilder().getI64Type();
    Imported isEqual = emit.binary<graph::CompareOp>(emit.iota(shape, i, index),
                                                     emit.iota(shape, j, index),
                                                     graph::Comparison::EQ);
    Imported zero = emit.broadcast(emit.scalar(x.getElementType(), 0), shape,
                                   !x.isConstant());
    term.value =
        emit.reduce(sharding::ReductionKind::Sum, emit.select(isEqual, x, zero),
                    static_cast<int64_t>(j));
    term.labels.erase(term.labels.begin() + j);
  }
  return success();
}

/// Sums `term` over the dims at which `drop` is true.
template <typename Fn>
Term sumOver(Emitter &emit, const Term &term, Fn drop) {
  Term result;
  SmallVector<int64_t> dims;
  for (auto [i, label] : llvm::enumerate(term.labels))
    if (drop(label))
      dims.push_back(static_cast<int64_t>(i));
    else
      result.labels.push_back(label);
  result.value = emit.reduce(sharding::ReductionKind::Sum, term.value, dims);
  return result;
}

/// The product of two terms, summed over the labels for which `needs` is false.
template <typename Fn>
Term multiply(Emitter &emit, Term a, Term b, Fn needs) {
  auto alone = [&](const Term &other) {
    return [&](Label label) {
      return !llvm::is_contained(other.labels, label) && !needs(label);
    };
  };
  Term left = sumOver(emit, a, alone(b)), right = sumOver(emit, b, alone(a)),
       result;
  SmallVector<int64_t> leftBatch, rightBatch, leftContract, rightContract;
  for (auto [i, label] : llvm::enumerate(left.labels)) {
    auto *found = llvm::find(right.labels, label);
    if (found == right.labels.end())
      continue;
    (needs(label) ? leftBatch : leftContract)
        .push_back(static_cast<int64_t>(i));
    (needs(label) ? rightBatch : rightContract)
        .push_back(found - right.labels.begin());
    if (needs(label))
      result.labels.push_back(label);
  }
  for (const Term *term : {&left, &right})
    for (Label label : term->labels)
      if (!llvm::is_contained(left.labels, label) ||
          !llvm::is_contained(right.labels, label))
        result.labels.push_back(label);
  result.value = emit.binary<graph::MatmulOp>(
      left.value, right.value, ArrayRef<int64_t>(leftBatch),
      ArrayRef<int64_t>(rightBatch), ArrayRef<int64_t>(leftContract),
      ArrayRef<int64_t>(rightContract));
  return result;
}

/// The operands with their labels. A dim of size 1 is dropped if others have
/// that label with a larger size, since NumPy repeats it.
FailureOr<std::vector<Term>> readTerms(Emitter &emit, ArrayRef<StringRef> texts,
                                       ArrayRef<Imported> operands) {
  std::map<Label, int64_t> sizes;
  std::vector<Term> terms;
  for (auto [i, text] : llvm::enumerate(texts)) {
    Term term{operands[i], {}};
    StringRef letters = text;
    int64_t rank = term.value.getRank(), ellipsis = -1;
    if (letters.contains("..."))
      ellipsis = rank - (static_cast<int64_t>(letters.size()) - 3);
    auto labels = readLabels(letters, ellipsis);
    if (!labels || static_cast<int64_t>(labels->size()) != rank)
      return emit.fail("`" + text + "` does not fit operand " + Twine(i) +
                       " of " + toString(term.value.getShape()));
    if (!isa<FloatType>(term.value.getElementType()))
      return emit.fail("Einsum of integers; multiply floats (x.float())");
    term.labels = *labels;
    if (failed(takeDiagonals(emit, term)))
      return failure();
    for (auto [label, size] :
         llvm::zip_equal(term.labels, term.value.getShape())) {
      int64_t &known = sizes.try_emplace(label, size).first->second;
      if (known != size && known != 1 && size != 1)
        return emit.fail("dims of " + Twine(known) + " and " + Twine(size) +
                         " go by one name in its equation");
      known = known == 1 ? size : known;
    }
    terms.push_back(std::move(term));
  }
  for (Term &term : terms) {
    Shape shape = term.value.getShape(), kept;
    Labels labels;
    for (auto [label, size] : llvm::zip_equal(term.labels, shape)) {
      if (size == 1 && sizes[label] != 1)
        continue;
      kept.push_back(size);
      labels.push_back(label);
    }
    term = {emit.reshape(term.value, kept), labels};
  }
  return terms;
}

} // namespace

FailureOr<Imported> einsum(Emitter &emit, std::string equation,
                           ArrayRef<Imported> operands) {
  llvm::erase(equation, ' ');
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != operands.size())
    return emit.fail("`" + equation + "` has " + Twine(texts.size()) +
                     " terms for " + Twine(operands.size()) + " operands");
  auto terms = readTerms(emit, texts, operands);
  if (failed(terms))
    return failure();
  int64_t ellipsis = 0;
  std::map<Label, int> uses;
  for (auto [i, text] : llvm::enumerate(texts)) {
    if (text.contains("..."))
      ellipsis = std::max<int64_t>(ellipsis,
                                   operands[i].getRank() -
                                       (static_cast<int64_t>(text.size()) - 3));
    for (char letter : text)
      if (letter != '.')
        ++uses[letter];
  }
  // Without an arrow, the result has the ellipsis and then the labels that
  // occur once, in order.
  std::string implied = "...";
  for (auto [label, count] : uses)
    if (count == 1)
      implied += static_cast<char>(label);
  auto output = readLabels(
      StringRef(equation).contains("->") ? right : StringRef(implied),
      ellipsis);
  auto isNamed = [&](Label label) { return label < 0 || uses.count(label); };
  if (!output || repeats(*output) || !llvm::all_of(*output, isNamed))
    return emit.fail("its equation `" + equation + "`");

  Term result = terms->front();
  for (size_t i = 1; i < terms->size(); ++i)
    result = multiply(emit, result, (*terms)[i], [&](Label label) {
      if (llvm::is_contained(*output, label))
        return true;
      return std::any_of(terms->begin() + i + 1, terms->end(),
                         [&](const Term &later) {
                           return llvm::is_contained(later.labels, label);
                         });
    });
  result = sumOver(emit, result, [&](Label label) {
    return !llvm::is_contained(*output, label);
  });
  SmallVector<int64_t> order;
  for (Label label : *output)
    order.push_back(llvm::find(result.labels, label) - result.labels.begin());
  return emit.transpose(result.value, order);
}

} // namespace polyrank::frontends
