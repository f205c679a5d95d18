// Result<T>: a value or an Error, and the one macro that propagates it.

#pragma once

#include <string>
#include <utility>
#include <variant>

namespace polyrank {

/// What went wrong. `fault` is the exit status of polyrank-run (0: done), and
/// `cause` says of a file that was to be read whether the file is wrong.
struct Error {
  enum class Fault {
    Input = 1,     // what the user gave is wrong
    Rank = 2,      // a rank, or the run, failed or was interrupted
    Hang = 3,      // the ranks lived, and none got on
    Preempted = 4, // a signal ended the run, and what it did is saved
    Disk = 5,      // it was full or failed while it was written
    NotFinite = 6 // the training failed: loss or weights became NaN or infinite
  };
  enum class Cause {
    Content, // it is not there, or holds something else: it will the next time
    Moment,  // the system could not give it now (EMFILE, EACCES, EIO ..), and
             // that says nothing about what it holds
    Version  // a newer program wrote it, and it may be whole
  };
  std::string message;
  Fault fault = Fault::Input;
  Cause cause = Cause::Content;

  /// The same error, said in other words.
  Error saying(std::string text) const {
    return {std::move(text), fault, cause};
  }
};

template <typename T>
class [[nodiscard]] Result {
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

template <>
class [[nodiscard]] Result<void> {
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
