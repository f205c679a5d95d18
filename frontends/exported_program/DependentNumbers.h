// Numbers that depend on the values of inputs although shapes are made of them:
// the number of elements that a mask selects, or the result of `.item()`.

#pragma once

#include <optional>
#include <set>
#include <string>

#include "frontends/aten/Operators.h"
#include "frontends/exported_program/Program.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::exported_program {

/// torch.export gives each such number a symbol, `u0`. If the model asserts its
/// value (`torch._check(n == 20)`), the file has that value; otherwise the user
/// may give it (`--dim u0=20`).
///
/// A number that is only used in assertions needs no value: the assertions are
/// left out.
class DependentNumbers {
public:
  explicit DependentNumbers(const Program &program);

  void setSymbol(llvm::StringRef symbol, int64_t value) {
    symbols[symbol] = value;
  }
  std::optional<int64_t> evaluate(const SymbolicInt &size) const;

  /// Tells `context` what the file knows about the first result of `node`.
  void describe(const Graph &graph, const Node &node,
                aten::Context &context) const;
  /// Takes the values of symbols from the shape of `result`, which the graph
  /// calls `name`.
  void learn(const Graph &graph, const std::string &name,
             const aten::Value &result);

  /// The value of the number `name` of the graph, as the file or the user gives
  /// it.
  std::optional<aten::Value> find(const Graph &graph,
                                  const std::string &name) const;
  /// Why a number has no value, and the place of the node that needs it.
  struct Reason {
    std::string text, place;
  };
  void putOff(const Graph &graph, const std::string &name, Reason reason) {
    open[{&graph, name}] = std::move(reason);
  }
  /// The reason for the first argument of `node` that has no value, or null.
  const Reason *findOpen(const Graph &graph, const Node &node) const;
  /// Returns "; where it is always the same, give it with --dim u0=N" if there
  /// is such a symbol, else "".
  std::string wayOut(const SymbolicInt &number) const;

private:
  llvm::StringMap<int64_t> symbols;
  std::map<std::pair<const Graph *, std::string>, Reason> open;
};

/// The symbols of a program that `--dim` may give in addition to those of
/// inputs.
std::set<std::string> findDependentSymbols(const Program &program);

} // namespace polyrank::frontends::exported_program
