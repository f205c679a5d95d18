// Result<T>: a value or an Error, and the one macro that propagates it.

#pragma once

#include <string>
#include <utility>
#include <variant>

namespace polyrank {

/// What went wrong. `fault` is the exit status of polyrank-run (0: done).
struct Error {
  enum class Fault {
    Input = 1,     // what the user gave is wrong
    Rank = 2,      // a rank, or the run, failed or was interrupted
    Hang = 3,      // the ranks lived, and none got on
    Preempted = 4, // a signal ended the run, and what it did is saved
    Disk = 5,      // it was full or failed while it was written
    NotFinite = 6  // the training failed: loss or weights became NaN or infinite
  };
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
