// The values of a PyTorch program during import.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/aten/Tensor.h"

namespace polyrank::frontends::aten {

class Value;

/// Python's list: everyone that holds it sees what another appends.
using List = std::vector<Value>;
/// In the order of insertion; keys are strings, integers, floats or booleans.
using Dict = std::vector<std::pair<Value, Value>>;

/// A value that only the reader of one format understands: a module, a class
/// instance. Operators pass it on without looking inside.
struct Object {
  virtual ~Object() = default;
};

/// A dtype, layout or memory format is an integer, as in TorchScript: the
/// number of c10::ScalarType, c10::Layout or c10::MemoryFormat. A device is a
/// string, its name ("cpu", "cuda:0").
class Value {
public:
  /// Makes None.
  Value() = default;
  Value(bool value) : data(value) {}
  Value(int64_t value) : data(value) {}
  Value(int value) : data(static_cast<int64_t>(value)) {}
  Value(double value) : data(value) {}
  Value(std::string value) : data(std::move(value)) {}
  Value(const char *) = delete; // would be a bool
  Value(std::shared_ptr<Tensor> tensor) : data(std::move(tensor)) {}
  Value(std::shared_ptr<Object> object) : data(std::move(object)) {}

  static Value list(List elements) {
    Value value;
    value.data = ListRef{std::make_shared<List>(std::move(elements))};
    return value;
  }
  static Value ints(llvm::ArrayRef<int64_t> elements) {
    return list(List(elements.begin(), elements.end()));
  }
  static Value tuple(List elements) {
    Value value;
    value.data = TupleRef{std::make_shared<List>(std::move(elements))};
    return value;
  }
  static Value dict(Dict entries = {}) {
    Value value;
    value.data = std::make_shared<Dict>(std::move(entries));
    return value;
  }
  /// The result of an operator that could not be imported. Everything computed
  /// from it is unknown too, and no further reason is recorded.
  static Value unknown() {
    Value value;
    value.data = Unknown();
    return value;
  }

  bool isUnknown() const { return std::holds_alternative<Unknown>(data); }
  /// Returns true if it is unknown, or a list, tuple or dict that holds an
  /// unknown value.
  bool hasUnknown() const;
  bool isNone() const { return std::holds_alternative<std::monostate>(data); }
  bool isBool() const { return std::holds_alternative<bool>(data); }
  bool isInt() const { return std::holds_alternative<int64_t>(data); }
  bool isFloat() const { return std::holds_alternative<double>(data); }
  /// A bool, an int or a float: PyTorch's Scalar.
  bool isNumber() const { return isBool() || isInt() || isFloat(); }
  bool isString() const { return std::holds_alternative<std::string>(data); }
  bool isTensor() const {
    return std::holds_alternative<std::shared_ptr<Tensor>>(data);
  }
  bool isList() const { return std::holds_alternative<ListRef>(data); }
  bool isTuple() const { return std::holds_alternative<TupleRef>(data); }
  bool isDict() const {
    return std::holds_alternative<std::shared_ptr<Dict>>(data);
  }
  bool isObject() const {
    return std::holds_alternative<std::shared_ptr<Object>>(data);
  }

  /// Each is valid only for a value of that kind.
  /// @{
  bool getBool() const { return std::get<bool>(data); }
  int64_t getInt() const { return std::get<int64_t>(data); }
  double getFloat() const { return std::get<double>(data); }
  const std::string &getString() const { return std::get<std::string>(data); }
  const std::shared_ptr<Tensor> &getTensor() const {
    return std::get<std::shared_ptr<Tensor>>(data);
  }
  List &getList() const { return *std::get<ListRef>(data).elements; }
  const List &getTuple() const { return *std::get<TupleRef>(data).elements; }
  Dict &getDict() const { return *std::get<std::shared_ptr<Dict>>(data); }
  const std::shared_ptr<Object> &getObject() const {
    return std::get<std::shared_ptr<Object>>(data);
  }
  /// The elements of a list or a tuple.
  const List &getElements() const { return isList() ? getList() : getTuple(); }
  /// A number as a float; true is 1.
  double getNumber() const;
  /// @}

  /// Returns true if both are the same list, dict, tensor or object (Python's
  /// `is`), or equal as None, bools, ints, floats or strings.
  bool isSame(const Value &other) const;

  /// Describes the value for messages: "int 3", "float32[8, 128]", "list of 2".
  std::string describe() const;

private:
  struct Unknown {};
  struct ListRef {
    std::shared_ptr<List> elements;
  };
  struct TupleRef {
    std::shared_ptr<List> elements;
  };

  std::variant<std::monostate, Unknown, bool, int64_t, double, std::string,
               std::shared_ptr<Tensor>, ListRef, TupleRef,
               std::shared_ptr<Dict>, std::shared_ptr<Object>>
      data;
};

/// Returns a number as a tensor without dims: int64, float32 or bool, with the
/// full precision of the number as long as it is known.
Value tensorOf(Emitter &emit, const Value &number, bool isWrappedNumber);

} // namespace polyrank::frontends::aten
