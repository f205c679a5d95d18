// Any bytes as a file of TorchScript's code: trees, or a message with a line.

#include "frontends/torchscript/Syntax.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::frontends::torchscript;

namespace {

size_t visit(const Expression &expression, const SourceFile &file) {
  if (expression.offset > file.getText().size() ||
      expression.keywords.size() > expression.operands.size())
    std::abort();
  expression.dotted();
  size_t count = 1;
  for (const Expression *operand : expression.operands)
    count += visit(*operand, file);
  return count;
}

void visit(const std::vector<Statement> &body, const SourceFile &file) {
  for (const Statement &statement : body) {
    for (const Expression *expression : statement.targets)
      visit(*expression, file);
    for (const Expression *expression : statement.values)
      visit(*expression, file);
    visit(statement.body, file);
    visit(statement.otherwise, file);
  }
}

void visit(const Function &function, const SourceFile &file) {
  if (file.lineOf(function.offset) < 1)
    std::abort();
  for (const Argument &argument : function.arguments)
    if (argument.defaultValue)
      visit(*argument.defaultValue, file);
  visit(function.body, file);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = SourceFile::parse(std::string(fuzz::text(data, size)), "m.pt");
  if (!file) {
    if (file.error().message.find("m.pt, line ") != 0)
      std::abort();
    return 0;
  }
  for (const auto &[name, function] : file->functions)
    visit(function, *file);
  for (const auto &[name, type] : file->classes) {
    for (const Class::Field &field : type.fields)
      if (field.value)
        visit(*field.value, *file);
    for (const Function &method : type.methods)
      visit(method, *file);
  }
  return 0;
}
