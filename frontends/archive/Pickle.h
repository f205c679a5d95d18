// Pickles as data: the part of the format that PyTorch's files use. Nothing in
// a pickle is imported, constructed or called.

#pragma once

#include "support/Budget.h"
#include "support/ElementType.h"
#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::frontends::archive {

/// The bytes that tensors are views of: a member of the archive.
struct PickledStorage {
  /// Nullopt for untyped bytes, where each tensor has its own element type.
  std::optional<ElementType> type;
  std::string key; // "17": member data/17
  int64_t elements = 0;
};

/// A view of a storage, as the pickle states it; not yet checked against the
/// file (see StoredTensor.h).
struct PickledTensor {
  PickledStorage storage;
  ElementType type = ElementType::F32;
  int64_t offset = 0; // elements
  std::vector<int64_t> sizes, strides;
  bool requiresGrad = false;
};

/// A value of a pickle. Values that the pickle shares are shared here; none
/// contains itself.
struct PickleValue {
  enum class Kind {
    None,
    Bool,   // `integer` is 0 or 1
    Int,    // `integer`
    Float,  // `number`
    String, // `text`
    List,   // `elements`
    Tuple,  // `elements`
    Dict,   // `elements`: a key, its value, the next key, ..
    Object, // of TorchScript's class `text`; `elements`: its state, or the
            // arguments of an enumeration's member
    Name,   // a global that is a value itself: "torch.float32" in `text`
    Storage,
    Tensor,
  };

  Kind kind = Kind::None;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const PickleValue *> elements;
  /// Set for values of these kinds, else null: few values are.
  std::unique_ptr<PickledStorage> storage;
  std::unique_ptr<PickledTensor> tensor;

  bool is(Kind other) const { return kind == other; }
  /// Looks up an entry of a dict with string keys, or of an object whose state
  /// is such a dict; null if there is none.
  const PickleValue *find(std::string_view key) const;
};

/// Describes a value for messages: "an int", "an object of class
/// __torch__.Net", ..
std::string describe(const PickleValue &value);

class Pickle {
public:
  Pickle() = default;
  Pickle(Pickle &&) = default;
  Pickle &operator=(Pickle &&) = default;

  /// The limits on the number of values and on the nesting depth.
  static constexpr size_t maxValues = 1 << 24;
  static constexpr size_t maxDepth = 256;

  /// Reads one pickle of protocol 2 that fills all of `bytes`. `name` is used
  /// in messages. An opcode or a global that PyTorch's own writers do not use
  /// is an error that names it. The memory of the values is taken from
  /// `budget`; without one, from the budget of a file of `bytes.size()` bytes.
  static Result<Pickle> read(std::span<const std::byte> bytes,
                             const std::string &name, Budget &budget);
  static Result<Pickle> read(std::span<const std::byte> bytes,
                             const std::string &name) {
    Budget budget(bytes.size());
    return read(bytes, name, budget);
  }

  const PickleValue &root() const { return *top; }

private:
  friend class PickleReader;
  std::deque<PickleValue> values; // addresses are stable
  const PickleValue *top = nullptr;
};

} // namespace polyrank::frontends::archive
