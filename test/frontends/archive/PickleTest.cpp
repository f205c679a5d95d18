// Pickles as data: the contents of valid ones, and one invalid pickle for each
// check.

#include "frontends/archive/Pickle.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::frontends::archive;
using Kind = PickleValue::Kind;

namespace {

Result<Pickle> readPickle(const std::string &bytes) {
  return Pickle::read(std::as_bytes(std::span(bytes)), "m.pt, 'data.pkl'");
}

/// A literal that may hold zeros.
template <size_t N>
std::string bytesOf(const char (&text)[N]) {
  return std::string(text, N - 1);
}
/// A pickle of protocol 2 with these opcodes.
template <size_t N>
std::string pickle(const char (&opcodes)[N]) {
  return "\x80\2" + bytesOf(opcodes) + ".";
}

void expectProblem(const std::string &bytes, const std::string &problem) {
  auto pickle = readPickle(bytes);
  ASSERT_FALSE(pickle) << problem;
  EXPECT_NE(pickle.error().message.find("m.pt, 'data.pkl': "),
            std::string::npos);
  EXPECT_NE(pickle.error().message.find(problem), std::string::npos)
      << pickle.error().message;
}

/// The persistent id of a storage of six floats, data/7.
const std::string storage =
    bytesOf("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0007X\3\0\0\0"
            "cpuK\6tQ");
const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n";
const std::string noHooks = "ccollections\nOrderedDict\n)R";

TEST(Pickle, EachKindOfValueIsRead) {
  auto read =
      readPickle(pickle("(N\x88\x89K\xff"
                        "M\x01\x02J\xff\xff\xff\xff\x8a\0\x8a\1\xfe"
                        "\x8a\x8\0\0\0\0\0\0\0\x80G\x3f\xf8\0\0\0\0\0\0"
                        "X\2\0\0\0ab](K\1K\2e(K\3K\4l}X\1\0\0\0kK\5s)t"));
  ASSERT_TRUE(read) << read.error().message;
  const PickleValue &root = read->root();
  ASSERT_TRUE(root.is(Kind::Tuple));
  ASSERT_EQ(root.elements.size(), 15u);
  EXPECT_TRUE(root.elements[0]->is(Kind::None));
  EXPECT_EQ(root.elements[1]->integer, 1);
  EXPECT_EQ(root.elements[2]->integer, 0);
  const int64_t integers[] = {255, 0x201, -1, 0, -2, INT64_MIN};
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(root.elements[3 + i]->integer, integers[i]);
  EXPECT_EQ(root.elements[9]->number, 1.5);
  EXPECT_EQ(root.elements[10]->text, "ab");
  EXPECT_EQ(root.elements[11]->elements.size(), 2u);
  EXPECT_EQ(root.elements[12]->elements[1]->integer, 4);
  EXPECT_EQ(root.elements[13]->find("k")->integer, 5);
  EXPECT_EQ(root.elements[13]->find("j"), nullptr);
  EXPECT_TRUE(root.elements[14]->elements.empty());
}

TEST(Pickle, SharedValuesAreOneValue) {
  auto read = readPickle(pickle("(]q\5h\5r\0\1\0\0j\0\1\0\0t"));
  ASSERT_TRUE(read) << read.error().message;
  const PickleValue &root = read->root();
  ASSERT_EQ(root.elements.size(), 3u);
  EXPECT_EQ(root.elements[0], root.elements[1]);
  EXPECT_EQ(root.elements[0], root.elements[2]);
}

TEST(Pickle, AModuleIsItsClassAndItsState) {
  auto read = readPickle(pickle("c__torch__.nn\nLinear\n)\x81}(X\6\0\0\0weight"
                                "K\1X\4\0\0\0mode\x88ub"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->root().is(Kind::Object));
  EXPECT_EQ(read->root().text, "__torch__.nn.Linear");
  EXPECT_EQ(read->root().find("weight")->integer, 1);
  EXPECT_TRUE(read->root().find("mode")->is(Kind::Bool));
}

TEST(Pickle, ATensorIsAViewOfAStorage) {
  std::string bytes = "\x80\2" + rebuild + "(" + storage + "K\1K\2K\1\x86" +
                      "K\3K\1\x86\x88" + noHooks + "tR.";
  auto read = readPickle(bytes);
  ASSERT_TRUE(read) << read.error().message;
  const PickledTensor &tensor = *read->root().tensor;
  EXPECT_EQ(tensor.storage.key, "7");
  EXPECT_EQ(tensor.storage.elements, 6);
  EXPECT_EQ(tensor.type, ElementType::F32);
  EXPECT_EQ(tensor.offset, 1);
  EXPECT_EQ(tensor.sizes, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{3, 1}));
  EXPECT_TRUE(tensor.requiresGrad);
}

TEST(Pickle, WhatPyTorchBuildsIsTheValueItself) {
  auto first = [](const std::string &bytes) {
    auto read = readPickle(bytes);
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->root().kind : Kind::None;
  };
  EXPECT_EQ(first(pickle("ctorch.jit._pickle\nbuild_intlist\n](K\1e\x85R")),
            Kind::List);
  EXPECT_EQ(first(pickle("ctorch.jit._pickle\nrestore_type_tag\n]X\1\0\0\0t"
                         "\x86R")),
            Kind::List);
  EXPECT_EQ(first(pickle("ccollections\nOrderedDict\n)R}b")), Kind::Dict);
  EXPECT_EQ(first(pickle("ctorch\nSize\n)\x85R")), Kind::Tuple);
  EXPECT_EQ(first(pickle("ctorch\ndevice\nX\3\0\0\0cpu\x85R")), Kind::Name);
  EXPECT_EQ(first(pickle("ctorch\nfloat32\n")), Kind::Name);
  EXPECT_EQ(first(pickle("c__torch__.e\nColor\nK\1\x85R")), Kind::Object);
}

TEST(Pickle, OpcodesAndGlobalsThatPyTorchDoesNotWriteAreNamed) {
  expectProblem(pickle("cos\nsystem\nX\2\0\0\0ls\x85R"), "names `os.system`");
  expectProblem(pickle("cbuiltins\neval\n"), "names `builtins.eval`");
  expectProblem(pickle("ctorch\nload\n"), "names `torch.load`");
  expectProblem(pickle("c__torch__x\nA\n"), "names `__torch__x.A`");
  expectProblem(pickle("\x93"), "opcode STACK_GLOBAL");
  expectProblem(pickle("(ios\nsystem\n"), "opcode INST");
  expectProblem(pickle("o"), "opcode OBJ");
  expectProblem(pickle("\x82\1"), "opcode EXT1");
  expectProblem(pickle("\xff"), "opcode 0xff");
  expectProblem("\x80\4N.", "protocol 4");
  expectProblem("N.", "does not begin as a pickle");
}

TEST(Pickle, NamesAreNotCalledUnlessTheyAreFunctions) {
  expectProblem(pickle("ctorch\nfloat32\n)R"), "calls `torch.float32`");
  expectProblem(pickle("K\1)R"), "calls an int");
  expectProblem(pickle("ctorch\nfloat32\n)\x81"),
                "makes an object of `torch.float32`");
  expectProblem(pickle("c__torch__\nA\nK\1\x85\x81"), "with arguments");
  expectProblem(pickle("ctorch\nSize\nK\1\x85R"), "does not take");
  expectProblem(pickle("ctorch._utils\n_rebuild_tensor_v2\n)R"),
                "does not take");
}

TEST(Pickle, AnUnbalancedStackIsAnError) {
  expectProblem(pickle("a"), "empty stack");
  expectProblem(pickle("](a"), "empty stack"); // below the mark is no operand
  expectProblem(pickle("e"), "a mark that is not there");
  expectProblem(pickle("NN"), "ends with 2 values");
  expectProblem(pickle("N("), "ends with 1 values");
  expectProblem(pickle(""), "ends with 0 values");
  expectProblem(pickle("N") + ".", "goes on after its end");
  expectProblem(pickle("h\1"), "refers to value 1");
  expectProblem(pickle("NK\1a"), "appends to None");
  expectProblem(pickle("]K\1K\2s"), "sets items of a list");
  expectProblem(pickle("}(K\1u"), "a key without a value");
  expectProblem(pickle("]}b"), "sets the state of a list");
  expectProblem(pickle("c__torch__\nA\n)\x81}b}b"), "sets the state of");
  expectProblem(pickle("\x8a\x9\0\0\0\0\0\0\0\0\0"), "more than 64 bits");
}

TEST(Pickle, WhatIsCutOffIsAnErrorAtEveryLength) {
  std::string whole = pickle("(K\1M\1\2J\1\2\3\4G\0\0\0\0\0\0\0\0X\2\0\0\0ab"
                             "ctorch\nfloat32\nr\0\1\0\0t");
  ASSERT_TRUE(readPickle(whole));
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(readPickle(whole.substr(0, length))) << length;
  // A length beyond the file's end allocates no memory.
  expectProblem(pickle("X\xff\xff\xff\xff"), "is cut off");
}

TEST(Pickle, DepthIsLimitedAndNothingContainsItself) {
  std::string nested = "\x80\2N";
  for (size_t depth = 0; depth + 1 < Pickle::maxDepth; ++depth)
    nested += '\x85';
  EXPECT_TRUE(readPickle(nested + "\x85."));
  expectProblem(nested + "\x85\x85.", "nests values more than 256 deep");
  expectProblem(pickle("]q\1h\1a"), "contains itself");
  expectProblem(pickle("]q\1h\1\x85"
                       "a"),
                "contains itself");
  // Values are shared, not repeated: 2^60 paths lead to the innermost value.
  std::string doubled = "\x80\2N\x85";
  for (int i = 0; i < 60; ++i)
    doubled += "q\1h\1\x86";
  EXPECT_TRUE(readPickle(doubled + "."));
  // The same depth on the second path.
  std::string late = "\x80\2(N";
  for (size_t depth = 0; depth < 200; ++depth)
    late += '\x85';
  late += "q\1h\1";
  for (size_t depth = 0; depth < 100; ++depth)
    late += '\x85';
  expectProblem(late + "t.", "nests values more than 256 deep");
}

TEST(Pickle, AStorageOrATensorThatIsNoneIsAnError) {
  expectProblem(pickle("K\1Q"), "a persistent id that is no storage");
  expectProblem(pickle("(X\5\0\0\0otherctorch\nFloatStorage\nX\1\0\0\0007"
                       "X\3\0\0\0cpuK\6tQ"),
                "a persistent id that is no storage");
  expectProblem(pickle("(X\7\0\0\0storagectorch\nfloat32\nX\1\0\0\0007"
                       "X\3\0\0\0cpuK\6tQ"),
                "a storage of class `torch.float32`");
  expectProblem(pickle("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0007"
                       "X\3\0\0\0cpuJ\xff\xff\xff\xfftQ"),
                "a storage of -1 elements");
  auto tensor = [](const std::string &arguments) {
    return "\x80\2" + rebuild + "(" + storage + arguments + "tR.";
  };
  ASSERT_TRUE(readPickle(tensor(bytesOf("K\0))\x89") + noHooks)));
  expectProblem(tensor("N))\x89" + noHooks), "not understood");
  expectProblem(tensor("K\1K\1)\x89" + noHooks), "not understood");
  expectProblem(tensor("K\1N\x85)\x89" + noHooks), "not understood");
  expectProblem(tensor("K\1))N" + noHooks), "not understood");
  expectProblem(tensor("K\1))\x89N"), "not understood");
  expectProblem(tensor("K\1))\x89"), "not understood");
  expectProblem(tensor("K\1))\x89" + noHooks + "K\1K\2s"), "with hooks");
  expectProblem(tensor("K\1))\x89" + noHooks + "}K\1K\2s"), "conjugated");
}

/// A byte of a pickle may be a value, and two may name a text of any length.
TEST(Pickle, ValuesAndTextsAreTakenFromTheBudget) {
  const std::string budget = "takes more than 134217728 bytes of memory";
  std::string values = "\x80\2(" + std::string(2 << 20, 'N') + "l.";
  expectProblem(values, budget);
  std::string name(1 << 20, 'n');
  auto twoHundred = [](const std::string &opcodes) {
    std::string all;
    for (int i = 0; i < 200; ++i)
      all += opcodes;
    return all;
  };
  std::string type = "\x80\2(c__torch__\n" + name + "\nq\1";
  expectProblem(type + twoHundred("h\1)\x81") + "l.", budget);
  expectProblem(type + twoHundred("h\1)R") + "l.", budget);
  std::string key = bytesOf("(X\7\0\0\0storagectorch\nFloatStorage\n") +
                    bytesOf("X\0\0\x10\0") + name +
                    bytesOf("X\3\0\0\0cpuK\6tq\1");
  expectProblem("\x80\2(" + key + twoHundred("h\1Q") + "l.", budget);
  // A list that is referenced again takes no memory.
  std::string same = "\x80\2(]q\1";
  for (int i = 0; i < 100'000; ++i)
    same += "h\1";
  EXPECT_TRUE(readPickle(same + "l."));
}

} // namespace
