// Result<T>: a value or an Error, and the one macro that propagates it.

#pragma once

#include <string>
#include <utility>
#include <variant>

namespace polyrank {

/// An error. `fault` is the exit status of polyrank-run (0: success); if a file
/// could not be read, `cause` says whether its contents are wrong.
struct Error {
  enum class Fault {
    Input = 1,     // the user's input is wrong
    Rank = 2,      // a rank, or the run, failed or was interrupted
    Hang = 3,      // all ranks are alive, but none made progress
    Preempted = 4, // a signal ended the run, and its progress is saved
    Disk = 5,      // the disk was full, or a write failed
    NotFinite = 6  // the training failed: NaN or infinity in loss or weights
  };
  enum class Cause {
    Content, // missing or wrong contents: a retry will not help
    Moment,  // the system could not read it now (EMFILE, EACCES, EIO ..), which
             // says nothing about the contents
    Version  // written by a newer program, and possibly intact
  };
  std::string message;
  Fault fault = Fault::Input;
  Cause cause = Cause::Content;

  /// The same error with another message.
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
