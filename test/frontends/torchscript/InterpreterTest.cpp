// Programs that would not end, or would fill the memory: each ends with a
// message, after no more steps and bytes than any model needs.

#include "frontends/torchscript/Import.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using runtime::test::buildZip;
using runtime::test::TemporaryFolder;

namespace {

class Programs : public testing::Test {
protected:
  /// Returns the error of importing a module with this body of `forward`; empty
  /// if it is imported. `more` is further code in the file.
  std::string import(const std::vector<std::string> &body,
                     const std::string &more = "") {
    std::string code = "class M(Module):\n  def forward(self, x: Tensor) -> "
                       "Tensor:\n";
    for (const std::string &line : body)
      code += "    " + line + "\n";
    std::string path = folder.write(
        "m.pt",
        buildZip({{"m/data.pkl", "\x80\2"
                                 "c__torch__\nM\n)\x81}b."},
                  {"m/code/__torch__.py", code + "    return x\n" + more},
                  {"m/constants.pkl", "\x80\2)."},
                  {"m/version", "10"}}));
    frontends::ImportOptions options;
    options.inputs["x"] = {"float32", {2, 3}};
    MLIRContext context;
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        message += diagnostic.str();
    });
    auto module = frontends::importTorchScript(context, path, options);
    EXPECT_EQ(bool(module), message.empty()) << message;
    return message;
  }
  void expectProblem(const std::vector<std::string> &body,
                     const std::string &problem, const std::string &more = "") {
    std::string message = import(body, more);
    EXPECT_NE(message.find(problem), std::string::npos)
        << problem << ": " << message;
  }

  TemporaryFolder folder;
};

TEST_F(Programs, EndlessLoopsAndCallsEnd) {
  expectProblem({"while True:", "  pass"}, "takes more than 2097152 steps");
  expectProblem({"for i in range(4611686018427387904):", "  pass"},
                "takes more than 2097152 steps");
  expectProblem({"y = __torch__.f(x)"}, "calls are nested more than 200 deep",
                "def f(x: Tensor) -> Tensor:\n  return __torch__.f(x)\n");
  expectProblem({"y = __torch__.E.A"}, "nested more than",
                "class E(Enum):\n  A : int = __torch__.E.A\n");
}

/// A list, text or dict, doubled again and again.
TEST_F(Programs, NothingGrowsWithoutAnEnd) {
  const std::string list = "a list", text = "a text";
  auto doubled = [](const std::string &first, const std::string &next) {
    return std::vector<std::string>{"l = " + first,
                                    "for i in range(60):", "  " + next};
  };
  for (const char *next : {"l = torch.add(l, l)", "l = torch.add_(l, l)",
                           "_ = torch.extend(l, l)", "l = torch.mul(l, 2)"})
    expectProblem(doubled("[1, 2]", next), "makes a list of more than 1048576");
  for (const char *next :
       {"l = torch.add(l, l)", "l = torch.format(\"{}{}\", l, l)",
        "l = torch.replace(l, \"a\", \"aa\")", "l = torch.join(l, [l, l])"})
    expectProblem(doubled("\"aa\"", next), "makes a text of more than 1048576");
  // By their names, arguments go to the operators of the table.
  expectProblem(doubled("[1, 2]", "l = torch.add(a=l, b=l)"),
                "a list or text of 2097152 elements");
  expectProblem(doubled("\"aa\"", "l = torch.add(a=l, b=l)"),
                "a list or text of 2097152 elements");
  expectProblem({"l = torch.mul([1, 2], 4611686018427387904)"},
                "makes a list of more than 1048576");
  expectProblem({"l = torch.mul(l=[1, 2], n=4611686018427387905)"},
                "a list of more than 1048576 elements");
}

/// Copying many elements counts as many steps.
TEST_F(Programs, LongListsTakeSteps) {
  expectProblem(
      {"l = torch.mul([1], 1000000)", "while True:", "  m = torch.add(l, [2])"},
      "takes more than 2097152 steps");
}

TEST_F(Programs, ListsInListsMayBeDeepAndHoldThemselves) {
  // Each of a hundred lists twice in the next: 2^100 paths.
  const std::vector<std::string> dense = {
      "l = annotate(List[int], [])", "for i in range(100):", "  l = [l, l]"};
  auto with = [](std::vector<std::string> body, const std::string &line) {
    body.push_back(line);
    return body;
  };
  const std::vector<std::string> itself = {"l = annotate(List[int], [])",
                                           "_0 = torch.append(l, l)"};
  for (const auto &body : {dense, itself}) {
    expectProblem(with(body, "s = str(l)"), "has more than 1048576 characters");
    expectProblem(with(body, "s = torch.format(\"{}\", l)"),
                  "makes a text of more than 1048576");
    expectProblem(with(body, "s = torch.tensor(l)"),
                  "no numbers in lists of one length");
    expectProblem(with(body, "s = torch.cat(l)"), "aten::cat");
    expectProblem(with(body, "ops.prim.RaiseException(l, \"E\")"),
                  "raises an exception: a list of");
    EXPECT_EQ(import(with(body, "s = torch.eq(l, [l, l])")), "");
    EXPECT_EQ(import(with(body, "s = torch.len(l)")), "");
  }
  std::string type = "int";
  for (int i = 0; i < 60; ++i)
    type = "List[" + type + "]";
  expectProblem({"l = [1, 1]", "for i in range(59):", "  l = [l, l]",
                 "s = isinstance(l, " + type + ")"},
                "`isinstance` asks for the type");
  std::vector<std::string> deep = {"l = [1]",
                                   "for i in range(200000):", "  l = [l]"};
  EXPECT_EQ(import(deep), "");
  EXPECT_EQ(import({"l = annotate(List[int], [])", "r = l",
                    "for i in range(250000):", "  m = annotate(List[int], [])",
                    "  _0 = torch.append(l, m)", "  l = m"}),
            "");
  expectProblem(with(deep, "s = str(l)"), "has more than 1048576 characters");
}

TEST_F(Programs, ObjectsMayHoldOneAnother) {
  EXPECT_EQ(
      import({"l = __torch__.C.__new__(__torch__.C)", "for i in range(100000):",
              "  m = __torch__.C.__new__(__torch__.C)", "  m.next = l",
              "  l = m"},
             "class C:\n  def f(self) -> int:\n    return 1\n"),
      "");
}

/// An expanded tensor takes no memory, so its dims may have any size; values
/// computed from them at import may not.
TEST_F(Programs, OperatorsAskForNoMoreThanThereIs) {
  const std::string large = "torch.expand(x, [500000000000, 2, 3])";
  struct Row {
    std::string expression, problem;
  };
  const Row rows[] = {
      {"torch.flip(" + large + ", [0])", "is too large to be turned round"},
      {"torch.repeat_interleave(x, torch.tensor([4611686018427387904, 1]), 0)",
       "its repeats give more than 67108864 elements"},
      {"torch.repeat_interleave(x, torch.tensor([-1, 1]), 0)",
       "it repeats by -1"},
      {"torch.diff(" + large + ", 1025, 0)", "differences of order 1025"},
      {"torch.adaptive_avg_pool1d(torch.transpose(" + large +
           ", 0, 2), [67108863])",
       "output_size [67108863] of"},
      {"torch.split_with_sizes(" + large + ", torch.mul([1], 65537))",
       "more than 65536 pieces"},
      {"torch.repeat(x, torch.mul([1], 65))", "has at most 64 dims"},
      {"torch.reshape(x, torch.add(torch.mul([1], 64), [6]))",
       "has at most 64 dims"},
      // Whose square is 0, and 1, in 64 bits.
      {"torch.pixel_shuffle(torch.expand(x, [1, 4, 2, 3]), 4294967296)",
       "factor 4294967296 of"},
      {"torch.pixel_shuffle(torch.expand(x, [1, 4, 2, 3]), "
       "9223372036854775807)",
       "factor 9223372036854775807 of"}};
  for (const Row &row : rows)
    expectProblem({"r = " + row.expression}, row.problem);
  EXPECT_EQ(import({"r = torch.repeat(x, torch.mul([1], 64))",
                    "s = torch.flip(x, [0])", "t = torch.diff(x, 2)"}),
            "");
  // Each piece is an operator.
  expectProblem(
      {"while True:", "  r = torch.unbind(torch.expand(x, [65536, 2, 3]), 0)"},
      "takes more than 2097152 steps");
}

TEST_F(Programs, ANaNHasNoPlaceInAnOrder) {
  expectProblem({"l = sorted([2., nan, 1.])"}, "a list with a NaN is sorted");
  EXPECT_EQ(import({"l = sorted([2., 1.])"}), "");
}

/// Blocks, expressions and calls lie on one stack.
TEST_F(Programs, BlocksAndCallsAreCountedTogether) {
  std::string function = "def f(x: Tensor) -> Tensor:\n";
  for (int i = 1; i <= 195; ++i)
    function += std::string(2 * i, ' ') + "if True:\n";
  function += std::string(2 * 196, ' ') + "y = __torch__.f(x)\n  return x\n";
  expectProblem({"y = __torch__.f(x)"},
                "the code is nested more than 4000 deep, with the blocks and "
                "expressions of all calls",
                function);
}

/// Comparing, copying or creating many elements counts as many steps, however
/// short the line.
TEST_F(Programs, WhatALineComparesAndMakesTakesSteps) {
  auto repeated = [](const std::string &text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i)
      all += text;
    return all;
  };
  std::string entries;
  for (int i = 0; i < 3000; ++i)
    entries += std::to_string(i) + ": 1, ";
  const std::vector<std::string> dicts = {"d = {" + entries + "}",
                                          "e = {" + entries + "}"};
  const std::vector<std::string> halves = {
      "l = [1]", "m = [1]", "for i in range(15):", "  l = [l, l]",
      "  m = [m, m]"};
  struct Case {
    std::vector<std::string> before;
    std::string line;
  };
  const Case cases[] = {
      {dicts, "torch.update(d, e)"},
      {dicts, "d[2999]"},
      {halves, "torch.eq(l, m)"},
      {halves, "str(l)"},
      {{"l = [1]"}, "torch.append(l, torch.mul([1], 1000000))"},
      {{"l = torch.mul([1], 1000000)"}, "torch.pop(l, 0)"},
      {{"l = [1]"}, "torch.append(l, [" + repeated("[], ", 3000) + "])"},
      {{"l = [\"\"]"}, "torch.append(l, \"" + repeated("text", 50'000) + "\")"},
  };
  for (const Case &each : cases) {
    std::vector<std::string> body = each.before;
    body.push_back("for i in range(200000):");
    body.push_back("  y = " + each.line);
    std::string message = import(body);
    EXPECT_NE(message.find("takes more than 2097152 steps"), std::string::npos)
        << each.line << ": " << message;
  }
}

} // namespace
