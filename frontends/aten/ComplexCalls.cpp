// Operators on complex tensors, in terms of operators on their parts.

#include "frontends/aten/Complex.h"

#include "frontends/aten/Nested.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace polyrank::frontends::aten {

std::shared_ptr<Complex> asComplex(const Value &value) {
  return value.isObject()
             ? std::dynamic_pointer_cast<Complex>(value.getObject())
             : nullptr;
}

bool hasComplex(const Value &value) {
  return !forEachValue(
      value, [](const Value &each) { return asComplex(each) == nullptr; });
}

namespace {

/// One call. `op` calls operators on the parts.
class ComplexCall {
public:
  ComplexCall(Context &context, StringRef name,
              std::optional<StringRef> overload, ArrayRef<Value> positional,
              const Keywords &keywords)
      : context(context), name(name), overload(overload),
        positional(positional), keywords(keywords) {}

  Value run();

private:
  using Formula = Value (ComplexCall::*)();
  static const llvm::StringMap<Formula> &formulas();

  Value fail(const std::string &reason) {
    context.failures.add(name.str() + ": " + reason, context.place);
    return Value::unknown();
  }

  /// Calls an operator on real values; unknown if one of them is.
  Value op(StringRef of, ArrayRef<Value> arguments) {
    return call(context, ("aten::" + of).str(), std::nullopt, arguments);
  }
  Value add(const Value &x, const Value &y) { return op("add", {x, y}); }
  Value sub(const Value &x, const Value &y) { return op("sub", {x, y}); }
  Value mul(const Value &x, const Value &y) { return op("mul", {x, y}); }
  static Value pair(const Value &real, const Value &imaginary) {
    return real.isTensor() && imaginary.isTensor()
               ? Complex::of(real, imaginary)
               : Value::unknown();
  }

  /// An argument by position or name; None if it is not given.
  Value argument(size_t at, StringRef key) const {
    if (at < positional.size())
      return positional[at];
    for (const auto &[name, value] : keywords)
      if (name == key)
        return value;
    return {};
  }

  Value self() const { return argument(0, "self"); }
  /// The second operand, whatever its name in the schema.
  Value other() const {
    for (StringRef key : {"other", "mat2", "vec", "exponent"})
      if (Value value = argument(1, key); !value.isNone())
        return value;
    return {};
  }

  /// The real and imaginary part of a complex tensor, or of a real tensor or
  /// number, whose imaginary part is zero.
  Value real(const Value &x) const {
    auto complex = asComplex(x);
    return complex ? Value(complex->real) : x;
  }
  Value imaginary(const Value &x) {
    if (auto complex = asComplex(x))
      return complex->imaginary;
    return x.isTensor() ? op("zeros_like", {x}) : Value(0.0);
  }

  /// Calls the operator on all real parts and on all imaginary parts; other
  /// arguments are the same for both. Several results become several complex
  /// tensors.
  Value partByPart(bool zeroElsewhere);
  Value callWith(bool takesReal, bool zeroElsewhere);

  Value eachPart() { return partByPart(/*zeroElsewhere=*/false); }
  /// For lists whose real elements have no imaginary part.
  Value joinParts() { return partByPart(/*zeroElsewhere=*/true); }
  /// For properties of the shape, which both parts share.
  Value ofShape() { return callWith(/*takesReal=*/true, false); }
  Value same() { return self(); }
  /// The export's own checks of a shape and a type have no result; both are
  /// known here.
  Value nothing() { return {}; }
  Value yes() { return Value(true); }
  Value no() { return Value(false); }

  Value realPart() { return real(self()); }
  Value imaginaryPart() { return imaginary(self()); }
  Value conjugate() {
    return pair(real(self()), op("neg", {imaginary(self())}));
  }
  Value conjugateTransposed();
  Value sum();
  Value product();
  Value quotient();
  Value square();
  Value power();
  Value matrixProduct();
  Value magnitude();
  Value angle();
  Value exponential();
  Value viewAsReal();
  Value toType();
  Value select();
  Value fourier();
  Value inverseToReal();
  Value productOf(const Value &x, const Value &y);

  Context &context;
  StringRef name;
  std::optional<StringRef> overload;
  ArrayRef<Value> positional;
  const Keywords &keywords;
};

Value ComplexCall::callWith(bool takesReal, bool zeroElsewhere) {
  auto partOf = [&](const Value &value) -> Value {
    if (auto complex = asComplex(value))
      return takesReal ? complex->real : complex->imaginary;
    return zeroElsewhere && !takesReal && value.isTensor() ? imaginary(value)
                                                           : value;
  };
  auto part = [&](const Value &value) -> Value {
    if (!value.isList() && !value.isTuple())
      return partOf(value);
    if (!hasComplex(value))
      return value;
    List elements;
    for (const Value &element : value.getElements())
      elements.push_back(partOf(element));
    return value.isList() ? Value::list(std::move(elements))
                          : Value::tuple(std::move(elements));
  };
  std::vector<Value> arguments;
  for (const Value &value : positional)
    arguments.push_back(part(value));
  Keywords named;
  for (const auto &[key, value] : keywords)
    named.push_back({key, part(value)});
  return call(context, name, overload, arguments, named);
}

Value ComplexCall::partByPart(bool zeroElsewhere) {
  Value first = callWith(/*takesReal=*/true, zeroElsewhere),
        second = callWith(/*takesReal=*/false, zeroElsewhere);
  if (first.hasUnknown() || second.hasUnknown())
    return Value::unknown();
  if (first.isTensor())
    return pair(first, second);
  if (!first.isList() && !first.isTuple())
    return first;
  List results;
  for (auto [x, y] : llvm::zip_equal(first.getElements(), second.getElements()))
    results.push_back(x.isTensor() ? pair(x, y) : x);
  return first.isList() ? Value::list(std::move(results))
                        : Value::tuple(std::move(results));
}

Value ComplexCall::sum() {
  StringRef of = name.substr(sizeof("aten::") - 1);
  Value x = self(), y = other(), alpha = argument(2, "alpha");
  if (of == "rsub") {
    std::swap(x, y);
    of = "sub";
  }
  auto part = [&](const Value &a, const Value &b) {
    Value scaled = alpha.isNone() ? b : mul(b, alpha);
    // At least one of x and y is a tensor; two numbers need no op.
    return a.isTensor() || !of.starts_with("sub")
               ? op(of.starts_with("sub") ? "sub" : "add",
                    a.isTensor() ? ArrayRef<Value>({a, scaled})
                                 : ArrayRef<Value>({scaled, a}))
               : op("rsub", {scaled, a});
  };
  return pair(part(real(x), real(y)), part(imaginary(x), imaginary(y)));
}

/// (a + bi) (c + di); a real factor multiplies each part.
Value ComplexCall::productOf(const Value &x, const Value &y) {
  auto left = asComplex(x), right = asComplex(y);
  if (!left || !right) {
    const auto &complex = left ? left : right;
    const Value &factor = left ? y : x;
    return pair(mul(complex->real, factor), mul(complex->imaginary, factor));
  }
  return pair(
      sub(mul(left->real, right->real), mul(left->imaginary, right->imaginary)),
      add(mul(left->real, right->imaginary),
          mul(left->imaginary, right->real)));
}

Value ComplexCall::product() { return productOf(self(), other()); }

/// Multiplies by the conjugate of a complex divisor w and divides by |w|^2.
Value ComplexCall::quotient() {
  Value x = self(), y = other();
  auto divisor = asComplex(y);
  if (!divisor)
    return pair(op("div", {real(x), y}), op("div", {imaginary(x), y}));
  Value size = add(mul(divisor->real, divisor->real),
                   mul(divisor->imaginary, divisor->imaginary));
  Value inverse = pair(op("div", {divisor->real, size}),
                       op("div", {op("neg", {divisor->imaginary}), size}));
  return inverse.isUnknown() ? inverse : productOf(inverse, x);
}

Value ComplexCall::square() { return productOf(self(), self()); }

Value ComplexCall::power() {
  Value exponent = other();
  if (exponent.isNumber() && exponent.getNumber() == 2)
    return square();
  return fail("a power of complex numbers with the exponent " +
              exponent.describe() + "; 2 is supported");
}

/// A product that is linear in each of its two operands.
Value ComplexCall::matrixProduct() {
  bool isEinsum = name == "aten::einsum";
  List operands;
  if (isEinsum)
    operands = argument(1, "tensors").getElements();
  else
    operands = {self(), other()};
  if (operands.size() != 2)
    return fail("of complex numbers, with " + std::to_string(operands.size()) +
                " operands; 2 are supported");
  auto times = [&](const Value &x, const Value &y) {
    if (isEinsum)
      return call(context, name, overload,
                  {argument(0, "equation"), Value::list({x, y})});
    return call(context, name, overload, {x, y});
  };
  auto left = asComplex(operands[0]), right = asComplex(operands[1]);
  if (!right)
    return pair(times(left->real, operands[1]),
                times(left->imaginary, operands[1]));
  if (!left)
    return pair(times(operands[0], right->real),
                times(operands[0], right->imaginary));
  return pair(sub(times(left->real, right->real),
                  times(left->imaginary, right->imaginary)),
              add(times(left->real, right->imaginary),
                  times(left->imaginary, right->real)));
}

Value ComplexCall::conjugateTransposed() {
  auto complex = asComplex(self());
  Value turned = op("mT", {Value(complex->imaginary)});
  return turned.isUnknown()
             ? turned
             : pair(op("mT", {Value(complex->real)}), op("neg", {turned}));
}

/// A copy, so that writing into the result does not write into the parts.
Value ComplexCall::viewAsReal() {
  Value parts =
      op("stack", {Value::list({real(self()), imaginary(self())}), Value(-1)});
  if (auto complex = asComplex(self());
      complex && parts.isTensor() && !complex->real->whyFixed().empty())
    parts.getTensor()->forbidWriting(complex->real->whyFixed());
  return parts;
}

/// The norm of the pair (real, imaginary); its gradient at 0 is 0, as in
/// PyTorch.
Value ComplexCall::magnitude() {
  Value parts = viewAsReal();
  return parts.isUnknown()
             ? parts
             : op("linalg_vector_norm", {parts, Value(2.0), Value::ints({-1})});
}

Value ComplexCall::angle() {
  return op("atan2", {imaginary(self()), real(self())});
}

/// e^a (cos b + i sin b).
Value ComplexCall::exponential() {
  Value size = op("exp", {real(self())}), turn = imaginary(self());
  return pair(mul(size, op("cos", {turn})), mul(size, op("sin", {turn})));
}

/// Converts to another complex type; all are computed in float32.
Value ComplexCall::toType() {
  auto isComplexType = [](const Value &value) {
    return value.isInt() && (value.getInt() == rowOf(ElementType::C64).torch ||
                             value.getInt() == rowOf(ElementType::C128).torch);
  };
  Value dtype = argument(1, "dtype");
  if (dtype.isNone() || dtype.isString() || isComplexType(dtype) ||
      asComplex(dtype))
    return self();
  return fail("complex numbers as real ones; take .real of them");
}

Value ComplexCall::select() {
  Value condition = argument(0, "condition"), x = argument(1, "self"),
        y = argument(2, "other");
  return pair(op("where", {condition, real(x), real(y)}),
              op("where", {condition, imaginary(x), imaginary(y)}));
}

/// F(a + i b) = F(a) + i F(b); both transforms are complex.
Value ComplexCall::fourier() {
  Value first = callWith(/*takesReal=*/true, false),
        second = callWith(/*takesReal=*/false, false);
  auto a = asComplex(first), b = asComplex(second);
  return a && b ? pair(sub(a->real, b->imaginary), add(a->imaginary, b->real))
                : Value::unknown();
}

/// The inverse of one half of a spectrum, whose other half is the conjugates:
/// completes the spectrum along the last of the dims, and returns the real part
/// of its inverse.
Value ComplexCall::inverseToReal() {
  auto z = asComplex(self());
  bool isOne = name == "aten::fft_irfft";
  int64_t rank = z->real->getRank();
  Value given = argument(1, isOne ? "n" : "s"), along = argument(2, "dim"),
        norm = argument(3, "norm");
  // The dims, of which the last is halved, and their sizes in the result.
  List dims, sizes;
  if (along.isInt())
    dims = {along};
  else if (along.isList())
    dims = along.getList();
  else if (isOne)
    dims = {Value(-1)};
  else if (name == "aten::fft_irfft2")
    dims = {Value(-2), Value(-1)};
  else
    for (int64_t dim = given.isList() ? rank - given.getList().size() : 0;
         dim < rank; ++dim)
      dims.push_back(Value(dim));
  if (given.isInt())
    sizes = {given};
  else if (given.isList())
    sizes = given.getList();
  if (dims.empty() || (!sizes.empty() && sizes.size() != dims.size()))
    return fail("its dims and sizes do not go together");
  Value last = dims.back();
  int64_t at = last.getInt() < 0 ? last.getInt() + rank : last.getInt();
  if (at < 0 || at >= rank)
    return fail("dim " + std::to_string(last.getInt()) + " of " +
                toString(z->real->getShape()));
  int64_t half = z->real->getShape()[at];
  int64_t size = sizes.empty() ? 2 * (half - 1) : sizes.back().getInt();
  if (size < 1)
    return fail("a Fourier transform of " + std::to_string(size) + " elements");

  Value spectrum = self();
  if (dims.size() > 1) {
    Value others = Value::list(List(dims.begin(), dims.end() - 1));
    Value otherSizes = sizes.empty()
                           ? Value()
                           : Value::list(List(sizes.begin(), sizes.end() - 1));
    spectrum = call(context, "aten::fft_ifftn", std::nullopt,
                    {spectrum, otherSizes, others, norm});
  }
  auto whole = [&](const Value &part, bool isImaginary) -> Value {
    int64_t wanted = size / 2 + 1;
    Value kept = op("slice", {part, last, Value(0),
                              Value(std::min(half, wanted)), Value(1)});
    if (half < wanted && !kept.isUnknown()) {
      List padding(2 * (rank - at), Value(0));
      padding.back() = Value(wanted - half);
      kept = op("constant_pad_nd", {kept, Value::list(padding), Value(0)});
    }
    // Elements (size - 1) / 2 .. 1, which are appended as conjugates.
    Value mirrored =
        op("slice", {kept, last, Value(1), Value(size - wanted + 1), Value(1)});
    mirrored = op("flip", {mirrored, Value::list({last})});
    if (isImaginary)
      mirrored = op("neg", {mirrored});
    return mirrored.isUnknown() || size - wanted < 1
               ? kept
               : op("cat", {Value::list({kept, mirrored}), last});
  };
  auto complex = asComplex(spectrum);
  if (!complex)
    return Value::unknown();
  Value result =
      pair(whole(complex->real, false), whole(complex->imaginary, true));
  if (result.isUnknown())
    return result;
  return real(call(context, "aten::fft_ifft", std::nullopt,
                   {result, Value(), last, norm}));
}

const llvm::StringMap<ComplexCall::Formula> &ComplexCall::formulas() {
  static const auto *table = [] {
    auto *result = new llvm::StringMap<Formula>();
    auto put = [&](Formula formula, std::initializer_list<StringRef> names) {
      for (StringRef name : names)
        (*result)["aten::" + name.str()] = formula;
    };
    put(&ComplexCall::eachPart, {"view",
                                 "reshape",
                                 "_unsafe_view",
                                 "flatten",
                                 "unflatten",
                                 "permute",
                                 "transpose",
                                 "t",
                                 "mT",
                                 "swapaxes",
                                 "swapdims",
                                 "movedim",
                                 "moveaxis",
                                 "unsqueeze",
                                 "squeeze",
                                 "select",
                                 "slice",
                                 "narrow",
                                 "index",
                                 "index_select",
                                 "gather",
                                 "take_along_dim",
                                 "expand",
                                 "expand_as",
                                 "broadcast_to",
                                 "repeat",
                                 "tile",
                                 "chunk",
                                 "split",
                                 "split_with_sizes",
                                 "unbind",
                                 "roll",
                                 "flip",
                                 "clone",
                                 "contiguous",
                                 "detach",
                                 "alias",
                                 "lift_fresh",
                                 "lift_fresh_copy",
                                 "sum",
                                 "mean",
                                 "cumsum",
                                 "neg",
                                 "negative",
                                 "zeros_like",
                                 "tril",
                                 "triu",
                                 "fft_fftshift",
                                 "fft_ifftshift"});
    put(&ComplexCall::joinParts,
        {"cat", "concat", "concatenate", "stack", "hstack", "vstack"});
    put(&ComplexCall::select, {"where"});
    put(&ComplexCall::fourier, {"fft_fft", "fft_ifft", "fft_fft2", "fft_ifft2",
                                "fft_fftn", "fft_ifftn"});
    put(&ComplexCall::inverseToReal, {"fft_irfft", "fft_irfft2", "fft_irfftn"});
    put(&ComplexCall::ofShape, {"size", "sym_size", "dim", "numel", "sym_numel",
                                "stride", "sym_stride", "is_contiguous"});
    put(&ComplexCall::same, {"resolve_conj", "resolve_neg", "positive"});
    put(&ComplexCall::nothing, {"_assert_tensor_metadata"});
    put(&ComplexCall::yes, {"is_complex"});
    put(&ComplexCall::no, {"is_floating_point"});
    put(&ComplexCall::realPart, {"real"});
    put(&ComplexCall::imaginaryPart, {"imag"});
    put(&ComplexCall::conjugate, {"conj", "_conj", "conj_physical"});
    put(&ComplexCall::conjugateTransposed, {"mH", "adjoint", "matrix_H"});
    put(&ComplexCall::sum, {"add", "sub", "subtract", "rsub"});
    put(&ComplexCall::product, {"mul", "multiply"});
    put(&ComplexCall::quotient, {"div", "divide", "true_divide"});
    put(&ComplexCall::square, {"square"});
    put(&ComplexCall::power, {"pow"});
    put(&ComplexCall::matrixProduct, {"matmul", "mm", "bmm", "mv", "einsum"});
    put(&ComplexCall::magnitude, {"abs", "absolute"});
    put(&ComplexCall::angle, {"angle"});
    put(&ComplexCall::exponential, {"exp"});
    put(&ComplexCall::viewAsReal, {"view_as_real", "view_as_real_copy"});
    put(&ComplexCall::toType, {"to", "_to_copy", "type_as"});
    return result;
  }();
  return *table;
}

Value ComplexCall::run() {
  auto found = formulas().find(name);
  if (found == formulas().end() && name.ends_with("_"))
    return fail("it writes into complex numbers, which is not supported; "
                "compute new ones");
  if (found == formulas().end())
    return fail("of complex numbers it is not supported; compute with their "
                "real and imaginary parts (torch.view_as_real)");
  return (this->*found->second)();
}

} // namespace

Value callComplex(Context &context, StringRef name,
                  std::optional<StringRef> overload, ArrayRef<Value> positional,
                  const Keywords &keywords) {
  return ComplexCall(context, name, overload, positional, keywords).run();
}

} // namespace polyrank::frontends::aten
