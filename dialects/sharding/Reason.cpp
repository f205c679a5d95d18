// The reason why a value moves: its text and its rules.

#include "dialects/sharding/Reason.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

/// The texts by their names, in order.
static constexpr std::pair<StringLiteral, std::string Reason::*> texts[] = {
    {"value", &Reason::value}, {"producer", &Reason::producer},
    {"user", &Reason::user},   {"from", &Reason::from},
    {"to", &Reason::to},       {"constraint", &Reason::constraint},
};

Reason::Reason(ReasonAttr why) {
  if (!why)
    return;
  value = why.getValue(), producer = why.getProducer(), user = why.getUser();
  from = why.getFrom(), to = why.getTo(), constraint = why.getConstraint();
  members.assign(why.getMembers().begin(), why.getMembers().end());
}

ReasonAttr Reason::get(MLIRContext *context) const {
  return ReasonAttr::get(context, value, producer, user, from, to, constraint,
                         members);
}

// "<" (NAME "=" TEXT),* ("members" "=" "[" ("<" .. ">"),* "]")? ">"
void ReasonAttr::print(AsmPrinter &printer) const {
  Reason reason(*this);
  StringRef separator = "";
  printer << "<";
  for (auto [name, text] : texts) {
    if ((reason.*text).empty())
      continue;
    printer << separator << name << " = ";
    printer.printString(reason.*text);
    separator = ", ";
  }
  if (!getMembers().empty()) {
    printer << separator << "members = [";
    llvm::interleaveComma(getMembers(), printer,
                          [&](ReasonAttr member) { member.print(printer); });
    printer << "]";
  }
  printer << ">";
}

Attribute ReasonAttr::parse(AsmParser &parser, Type) {
  SMLoc start = parser.getCurrentLocation();
  Reason reason;
  auto parseMember = [&]() -> ParseResult {
    Attribute member = ReasonAttr::parse(parser, {});
    if (!member)
      return failure();
    reason.members.push_back(cast<ReasonAttr>(member));
    return success();
  };
  auto parseEntry = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name == "members")
      return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                            parseMember);
    const auto *entry =
        llvm::find_if(texts, [&](auto &text) { return text.first == name; });
    if (entry == std::end(texts))
      return parser.emitError(location) << "a reason has no '" << name << "'";
    return parser.parseString(&(reason.*entry->second));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseEntry))
    return {};
  return ReasonAttr::getChecked(
      [&] { return parser.emitError(start); }, parser.getContext(),
      StringRef(reason.value), StringRef(reason.producer),
      StringRef(reason.user), StringRef(reason.from), StringRef(reason.to),
      StringRef(reason.constraint), ArrayRef<ReasonAttr>(reason.members));
}

// 1. A member has no members.
LogicalResult ReasonAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef, StringRef, StringRef, StringRef,
                                 StringRef, StringRef,
                                 ArrayRef<ReasonAttr> members) {
  for (ReasonAttr member : members)
    if (!member.getMembers().empty())
      return emitError() << "[reason 1] a member of a reason has "
                         << member.getMembers().size()
                         << " members of its own; it is of one value";
  return success();
}

LogicalResult sharding::verifyReason(Operation *op, ReasonAttr why) {
  if (why && !why.getMembers().empty() &&
      why.getMembers().size() != op->getNumOperands())
    return op->emitOpError("[reason 2] why has ")
           << why.getMembers().size() << " members, and the op "
           << op->getNumOperands() << " operands; each has its reason";
  return success();
}
