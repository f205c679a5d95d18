// The text of kernel schedules: numbers and lists of numbers under names.

#pragma once

#include <variant>

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::target {

/// A number of a schedule, which is left out of the text if it is `absent`.
struct NamedNumber {
  llvm::StringRef name;
  int64_t *value;
  int64_t absent;
};
/// A list of numbers, which is left out if it is empty.
struct NamedNumbers {
  llvm::StringRef name;
  llvm::SmallVector<int64_t> *values;
};
using ScheduleField = std::variant<NamedNumber, NamedNumbers>;

/// Parses `, NAME = 3, NAME = [1, 2]` up to what is no comma, in any order.
/// Emits an error at a name that no field has.
mlir::ParseResult parseFields(mlir::AsmParser &parser,
                              llvm::ArrayRef<ScheduleField> fields);
/// Prints the fields in their order.
void printFields(mlir::AsmPrinter &printer,
                 llvm::ArrayRef<ScheduleField> fields);

} // namespace polyrank::target
