// Prints the page docs/pytorch-operators.md: the operators of PyTorch that
// models may use, with their schemas.

#include "frontends/aten/Operators.h"
#include "llvm/Support/raw_ostream.h"

using namespace polyrank::frontends;

int main() {
  llvm::outs()
      << "# PyTorch's operators\n\n"
         "Generated from the table in `frontends/aten` (`ninja update-docs`). "
         "A "
         "file of torch.export.save or torch.jit.save\nwhose operators are all "
         "here can be imported; what is missing is listed with the nodes that "
         "need it. Arguments that\nare not given have the defaults of the "
         "schema. Operators whose name ends in `_` write their first "
         "argument.\n\nResults and gradients are compared with PyTorch's in "
         "`test/parity/test_aten.py`, which fails where an operator of\nthis "
         "list occurs in none of its cases.\n";
  size_t operators = 0, overloads = 0;
  std::string list;
  for (const aten::OperatorEntry &entry : aten::listOperators()) {
    ++operators;
    overloads += entry.schemas.size();
    list += "| `" + entry.name + "` | ";
    bool isFirst = true;
    for (const std::string &schema : entry.schemas) {
      list += (isFirst ? "`" : "<br>`") + schema + "`";
      isFirst = false;
    }
    list += " |\n";
  }
  llvm::outs() << "\n"
               << operators << " operators with " << overloads
               << " overloads.\n\n| operator | overloads |\n|---|---|\n"
               << list;
  return 0;
}
