// The code of TorchScript files: the tree of each kind of statement and
// expression, and one text for each condition that refuses it.

#include "frontends/torchscript/Syntax.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::frontends::torchscript;
using Kind = Expression::Kind;
using Is = Statement::Kind;

namespace {

/// The body of a function with one argument `x`.
Result<SourceFile> parseBody(const std::string &body) {
  std::string indented = "  ";
  for (char c : body)
    indented += c == '\n' ? "\n  " : std::string(1, c);
  return SourceFile::parse("def f(x: Tensor) -> Tensor:\n" + indented + "\n",
                           "m.pt, 'm/code/__torch__.py'");
}

/// The expression, as a text that shows its tree.
std::string show(const Expression &e) {
  auto list = [&](size_t from = 0) {
    std::string text;
    for (size_t i = from; i < e.operands.size(); ++i)
      text += (i == from ? "" : " ") + show(*e.operands[i]);
    return text;
  };
  switch (e.kind) {
  case Kind::None:
    return "None";
  case Kind::Bool:
    return e.integer ? "True" : "False";
  case Kind::Int:
    return std::to_string(e.integer);
  case Kind::Float:
    return "f" + std::to_string(e.number);
  case Kind::String:
    return "'" + e.text + "'";
  case Kind::Name:
    return e.text;
  case Kind::Attribute:
    return "(" + list() + ")." + e.text;
  case Kind::Call: {
    std::string text = "call(" + list();
    for (const std::string &keyword : e.keywords)
      text += " " + keyword + "=";
    return text + ")";
  }
  case Kind::Subscript:
    return "at(" + list() + ")";
  case Kind::Slice:
    return "slice(" + list() + ")";
  case Kind::List:
    return "[" + list() + "]";
  case Kind::Tuple:
    return "(" + list() + ")";
  case Kind::Dict:
    return "{" + list() + "}";
  case Kind::Negate:
    return "-" + show(*e.operands[0]);
  }
  return "";
}

std::string showValue(const std::string &expression) {
  auto file = parseBody("return " + expression);
  EXPECT_TRUE(file) << file.error().message;
  if (!file)
    return "";
  return show(*file->functions.at("f").body[0].values[0]);
}

void expectProblem(const std::string &text, const std::string &problem) {
  auto file = SourceFile::parse(text, "m.pt, 'm/code/__torch__.py'");
  ASSERT_FALSE(file) << text;
  EXPECT_NE(file.error().message.find(problem), std::string::npos)
      << file.error().message;
  EXPECT_EQ(file.error().message.find("m.pt, 'm/code/__torch__.py', line "), 0u)
      << file.error().message;
}

void expectBodyProblem(const std::string &body, const std::string &problem) {
  auto file = parseBody(body);
  ASSERT_FALSE(file) << body;
  EXPECT_NE(file.error().message.find(problem), std::string::npos)
      << file.error().message;
}

TEST(TorchScriptParser, EachKindOfExpressionHasItsTree) {
  EXPECT_EQ(showValue("None"), "None");
  EXPECT_EQ(showValue("[True, False, ]"), "[True False]");
  EXPECT_EQ(showValue("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(showValue("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(showValue("-1.5e-05"), "f-0.000015");
  EXPECT_EQ(showValue(".5"), "f0.500000");
  EXPECT_EQ(showValue("1."), "f1.000000");
  EXPECT_EQ(showValue("-inf"), "-inf");
  EXPECT_EQ(showValue("\"a\\n\\\"b\\012\\'\""), "'a\n\"b\n''");
  EXPECT_EQ(showValue("'b\"'"), "'b\"'");
  EXPECT_EQ(showValue("(x)"), "x");
  EXPECT_EQ(showValue("(x,)"), "(x)");
  EXPECT_EQ(showValue("()"), "()");
  EXPECT_EQ(showValue("(x, x)"), "(x x)");
  EXPECT_EQ(showValue("{x: 1, x: 2}"), "{x 1 x 2}");
  EXPECT_EQ(showValue("(self.fc1).forward(x, )"),
            "call(((self).fc1).forward x)");
  EXPECT_EQ(showValue("torch.add(x, 1, alpha=2, beta=x)"),
            "call((torch).add x 1 2 x alpha= beta=)");
  EXPECT_EQ(showValue("(torch.size(x))[0]"), "at(call((torch).size x) 0)");
  EXPECT_EQ(showValue("(x)[1:-1]"), "at(x slice(1 -1))");
  EXPECT_EQ(showValue("annotate(Dict[str, Tensor], {})"),
            "call(annotate at(Dict (str Tensor)) {})");
  EXPECT_EQ(showValue("annotate(Tuple[()], ())"),
            "call(annotate at(Tuple ()) ())");
  EXPECT_EQ(showValue("[1,\n  2]"), "[1 2]");
}

TEST(TorchScriptParser, EachKindOfStatementIsRead) {
  auto file = parseBody("y = x\n"
                        "a, b, = y\n"
                        "c, d = x, y\n"
                        "e, g = torch.max(x, 1)\n"
                        "h : int = 3\n"
                        "self.k = x\n"
                        "print(x)\n"
                        "if c:\n"
                        "  pass\n"
                        "else:\n"
                        "  for i in range(3):\n"
                        "    y = x\n"
                        "while c:\n"
                        "  c = False\n"
                        "with m as n:\n"
                        "  pass\n"
                        "\n"
                        "# a remark\n"
                        "return");
  ASSERT_TRUE(file) << file.error().message;
  const auto &body = file->functions.at("f").body;
  ASSERT_EQ(body.size(), 11u);
  const Is kinds[] = {Is::Assign, Is::Assign, Is::Assign,   Is::Assign,
                      Is::Assign, Is::Assign, Is::Evaluate, Is::If,
                      Is::While,  Is::With,   Is::Return};
  for (size_t i = 0; i < body.size(); ++i)
    EXPECT_EQ(body[i].kind, kinds[i]) << i;
  EXPECT_FALSE(body[0].isUnpacked);
  EXPECT_TRUE(body[1].isUnpacked);
  EXPECT_EQ(body[2].values.size(), 2u);
  EXPECT_EQ(body[3].targets.size(), 2u);
  EXPECT_EQ(show(*body[4].annotation), "int");
  EXPECT_EQ(show(*body[5].targets[0]), "(self).k");
  EXPECT_EQ(body[7].body[0].kind, Is::Pass);
  EXPECT_EQ(body[7].otherwise[0].kind, Is::For);
  EXPECT_EQ(body[9].targets[0]->text, "n");
  EXPECT_TRUE(body[10].values[0]->is(Kind::None));
  EXPECT_EQ(file->lineOf(body[7].offset), 9);
}

TEST(TorchScriptParser, AClassHasFieldsAndMethods) {
  auto file = SourceFile::parse("class Net(Module):\n"
                                "  __parameters__ = [\"weight\", ]\n"
                                "  __buffers__ = [\"mean\"]\n"
                                "  __forward_pre_hooks__ = [\"before\", ]\n"
                                "  __annotations__ = []\n"
                                "  __annotations__[\"0\"] = __torch__.Linear\n"
                                "  weight : Tensor\n"
                                "  k : Final[int] = 3\n"
                                "  def forward(self: __torch__.Net,\n"
                                "    x: Tensor,\n"
                                "    mask: Optional[Tensor]=None) -> Tensor:\n"
                                "    return x\n"
                                "class Color(Enum):\n"
                                "  RED = 1\n"
                                "class Layer(ModuleInterface):\n"
                                "  def forward(self, x: Tensor) -> Tensor:\n"
                                "    pass\n"
                                "class Plain:\n"
                                "  pass\n",
                                "m");
  ASSERT_TRUE(file) << file.error().message;
  const Class &net = file->classes.at("Net");
  EXPECT_EQ(net.base, "Module");
  EXPECT_EQ(net.parameters, std::vector<std::string>{"weight"});
  EXPECT_EQ(net.buffers, std::vector<std::string>{"mean"});
  EXPECT_EQ(net.preHooks, std::vector<std::string>{"before"});
  EXPECT_EQ(show(*net.findField("0")->type), "(__torch__).Linear");
  EXPECT_EQ(net.findField("k")->value->integer, 3);
  EXPECT_EQ(net.findField("mean"), nullptr);
  const Function *forward = net.findMethod("forward");
  ASSERT_TRUE(forward);
  ASSERT_EQ(forward->arguments.size(), 3u);
  EXPECT_EQ(forward->arguments[1].defaultValue, nullptr);
  EXPECT_TRUE(forward->arguments[2].defaultValue->is(Kind::None));
  EXPECT_EQ(file->classes.at("Color").findField("RED")->value->integer, 1);
  EXPECT_EQ(file->classes.at("Layer").findMethod("forward")->arguments[0].type,
            nullptr);
  EXPECT_EQ(file->classes.at("Plain").base, "");
}

TEST(TorchScriptParser, WhatPyTorchDoesNotPrintIsAnError) {
  expectBodyProblem("return x + 1", "`+` is not understood here");
  expectBodyProblem("return x == 1", "the end of the line is expected");
  expectBodyProblem("return 1j", "complex numbers are not supported");
  expectBodyProblem("return 1x", "a number and a name are not apart");
  expectBodyProblem("return 1e", "a number ends in the middle");
  expectBodyProblem("return 9223372036854775809", "more than 64 bits");
  expectBodyProblem("return 'a", "a text is not closed");
  expectBodyProblem("return '\\q'", "an escape in a text");
  expectBodyProblem("return '\\777'", "an escape in a text");
  expectBodyProblem("return [x for x in y]", "`]` is expected");
  expectBodyProblem("return f(a=1, x)", "without a name follows");
  expectBodyProblem("return (x", "is expected");
  expectBodyProblem("return x)", "a bracket is closed that is not open");
  expectBodyProblem("return \x01", "a character that no code has (1)");
  expectBodyProblem("def g():\n  pass", "torch.jit.fork");
  expectBodyProblem("f(x) = 3", "only names and attributes take values");
  expectBodyProblem("a, b = x, y, z", "2 names take 3 values");
  expectBodyProblem("a, b, = x, y", "2 names take 2 values");
  expectBodyProblem("a = x,", "a value is expected");
  expectBodyProblem("a, b", "`=` is expected");
  expectBodyProblem("for i in x:\n  pass", "`in range(..)` is expected");
  expectBodyProblem("if x:\npass", "an indented block is expected");
  expectBodyProblem("y = x z", "the end of the line is expected");
  expectProblem("import os\n", "a class or a function is expected");
  expectProblem("x = 3\n", "a class or a function is expected");
  expectProblem("class A:\n  x\n", "a type or a value is expected");
  expectProblem("class A:\n  __parameters__ = 3\n", "a list of texts");
  expectProblem("class A:\n  __buffers__ = [3]\n", "a list of texts");
  expectProblem("class A:\n  __annotations__[3] = int\n", "a text is expected");
  expectProblem("class A:\n  x : int\n   y : int\n", "a name is expected");
  expectProblem("def f():\n    pass\n  pass\n", "a column where no block does");
  expectProblem("class A:\n  pass\nclass A:\n  pass\n", "already defined");
  expectProblem("def f():\n  pass\ndef f():\n  pass\n", "already defined");
}

TEST(TorchScriptParser, AMessageNamesTheLine) {
  expectProblem("def f():\n  y = 1\n  y = +\n", "line 3: `+`");
}

TEST(TorchScriptParser, DepthIsLimited) {
  auto nested = [](int depth) {
    return "return " + std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parseBody(nested(150)));
  expectBodyProblem(nested(1000000), "is nested more than 200 deep");
  expectBodyProblem("return " + std::string(1000000, '-') + "x",
                    "is nested more than 200 deep");
  std::string calls = "return f";
  for (int i = 0; i < 60; ++i)
    calls += "()";
  expectBodyProblem(calls, "more than 48 attributes, calls and subscripts");
  std::string blocks;
  for (int depth = 0; depth < 300; ++depth)
    blocks += std::string(depth, ' ') + "if x:\n";
  expectBodyProblem(blocks, "deep");
}

TEST(TorchScriptParser, WhatIsCutOffIsAnErrorOrShorter) {
  std::string whole =
      "class A(Module):\n  x : int\n  def f(self, y: List[int])"
      " -> int:\n    a, b, = g(y, k='t')\n    return {1: [a]}\n";
  for (size_t length = 0; length < whole.size(); ++length)
    (void)SourceFile::parse(whole.substr(0, length), "m");
  expectProblem("class A:\n  x : int", "the end of the line is expected");
}

} // namespace
