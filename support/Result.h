// Result<T>: a value or an Error, and the one macro that propagates it.

#pragma once

#include <string>
#include <utility>
#include <variant>

namespace polyrank {

/// What went wrong. `fault` decides the exit code: 1 where the user's input is
/// wrong, 2 where a rank failed, 3 where the training did: its loss or its
/// weights became NaN or infinite, 5 where a disk is full or fails.
struct Error {
  enum class Fault { Input = 1, Rank = 2, NotFinite = 3, Disk = 5 };
  std::string message;
  Fault fault = Fault::Input;
};

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::move(value)) {}
  Result(Error error) : state(std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() & { return std::get<0>(state); }
  const T &operator*() const & { return std::get<0>(state); }
  T &&operator*() && { return std::get<0>(std::move(state)); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failure(std::move(error)), ok(false) {}

  explicit operator bool() const { return ok; }
  const Error &error() const { return failure; }

private:
  Error failure;
  bool ok = true;
};

} // namespace polyrank

/// Returns the error of `expression`, or binds its value to `name`.
#define POLYRANK_ASSIGN(name, expression)                                      \
  auto name##OrError = (expression);                                           \
  if (!name##OrError)                                                          \
    return name##OrError.error();                                              \
  auto &name = *name##OrError
