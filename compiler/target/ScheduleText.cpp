// The text of kernel schedules: numbers and lists of numbers under names.

#include "compiler/target/ScheduleText.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;

static StringRef nameOf(const ScheduleField &field) {
  return std::visit([](const auto &each) { return each.name; }, field);
}

static ParseResult parseValue(AsmParser &parser, const ScheduleField &field) {
  if (const auto *number = std::get_if<NamedNumber>(&field))
    return parser.parseInteger(*number->value);
  SmallVector<int64_t> &values = *std::get<NamedNumbers>(field).values;
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

ParseResult target::parseFields(AsmParser &parser,
                                ArrayRef<ScheduleField> fields) {
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    const auto *field = llvm::find_if(fields, [&](const ScheduleField &each) {
      return nameOf(each) == name;
    });
    if (field == fields.end())
      return parser.emitError(location) << "a schedule has no '" << name << "'";
    if (parseValue(parser, *field))
      return failure();
  }
  return success();
}

void target::printFields(AsmPrinter &printer, ArrayRef<ScheduleField> fields) {
  for (const ScheduleField &field : fields) {
    if (const auto *number = std::get_if<NamedNumber>(&field)) {
      if (*number->value != number->absent)
        printer << ", " << number->name << " = " << *number->value;
      continue;
    }
    const auto &list = std::get<NamedNumbers>(field);
    if (list.values->empty())
      continue;
    printer << ", " << list.name << " = [";
    llvm::interleaveComma(*list.values, printer);
    printer << "]";
  }
}
