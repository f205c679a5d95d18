// Any text as the code of a TorchScript model, which is executed into the graph
// dialect. The rest of the file is always the same: a model of class M with the
// tensors, numbers and lists that `state` says, and a submodule of class S.

#include "frontends/aten/Operators.h"
#include "frontends/torchscript/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/fuzz/Input.h"
#include "test/fuzz/Mlir.h"
#include "test/fuzz/Words.h"
#include "test/support/ZipBuilder.h"

using namespace mlir;
using namespace polyrank;
using runtime::test::buildZip;
using runtime::test::BuiltMember;
using runtime::test::put;

namespace {

/// Writes a pickle as PyTorch does.
struct PickleText {
  std::string bytes = "\x80\2";

  PickleText &raw(std::string_view text) { return bytes += text, *this; }
  PickleText &text(std::string_view value) {
    bytes += 'X';
    put(bytes, value.size(), 4);
    bytes += value;
    return *this;
  }
  PickleText &number(int64_t value) {
    bytes += 'J';
    put(bytes, static_cast<uint32_t>(value), 4);
    return *this;
  }
  PickleText &numbers(const std::vector<int64_t> &values) {
    raw("(");
    for (int64_t value : values)
      number(value);
    return raw("t");
  }
  /// A whole storage.
  PickleText &tensor(std::string_view storage, std::string_view type,
                     const std::vector<int64_t> &sizes, bool trains = false) {
    std::vector<int64_t> strides(sizes.size());
    int64_t elements = 1;
    for (size_t i = sizes.size(); i-- > 0; elements *= sizes[i])
      strides[i] = elements;
    raw("ctorch._utils\n_rebuild_tensor_v2\n((").text("storage");
    raw("ctorch\n").raw(type).raw("Storage\n").text(storage).text("cpu");
    number(elements).raw("tQ").number(0).numbers(sizes).numbers(strides);
    return raw(trains ? "\x88" : "\x89").raw("ccollections\nOrderedDict\n)RtR");
  }
  PickleText &object(std::string_view type) {
    return raw("c__torch__\n").raw(type).raw("\n)\x81}(");
  }
};

std::string state() {
  PickleText p;
  p.object("M");
  p.text("w").tensor("w", "Float", {1024}, true);
  p.text("m").tensor("m", "Float", {4, 6}, true);
  p.text("v").tensor("v", "Float", {6});
  p.text("i").tensor("i", "Long", {1024});
  p.text("j").tensor("j", "Int", {4});
  p.text("q").tensor("q", "Bool", {2, 3});
  p.text("u").tensor("u", "Byte", {4});
  p.text("h").tensor("h", "Half", {2, 3});
  p.text("d").tensor("d", "Double", {3});
  p.text("e").tensor("e", "Float", {0, 3});
  p.text("n").number(3);
  p.text("f").raw("G\x3f\xe0").raw(std::string(6, '\0'));
  p.text("training").raw("\x88");
  p.text("none").raw("N");
  p.text("word").text("mean");
  p.text("sizes").raw("](").number(2).number(3).raw("e");
  p.text("table").raw("}(").text("a").number(1).raw("u");
  p.text("s").object("S").text("m").tensor("n", "Float", {6, 6}, true);
  p.text("training").raw("\x88ub");
  return p.raw("ub.").bytes;
}

/// The members of the file besides the code.
std::vector<BuiltMember> members() {
  auto cycle = [](size_t count, size_t width) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i)
      put(bytes, i % 7, static_cast<int>(width));
    return bytes;
  };
  std::string floats;
  for (int i = 0; i < 1024; ++i) {
    float value = static_cast<float>(i % 11) / 4 - 1;
    floats.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  PickleText constants;
  constants.raw("(").tensor("0", "Float", {2, 3}).tensor("1", "Long", {4});
  constants.raw("t.");
  return {{"m/data.pkl", state()},
          {"m/constants.pkl", constants.bytes},
          {"m/constants/0", floats.substr(0, 24)},
          {"m/constants/1", cycle(4, 8)},
          {"m/data/w", floats},
          {"m/data/m", floats.substr(0, 96)},
          {"m/data/v", floats.substr(8, 24)},
          {"m/data/n", floats.substr(4, 144)},
          {"m/data/i", cycle(1024, 8)},
          {"m/data/j", cycle(4, 4)},
          {"m/data/q", std::string("\0\1\1\0\1\0", 6)},
          {"m/data/u", cycle(4, 1)},
          {"m/data/h", cycle(6, 2)},
          {"m/data/d", cycle(3, 8)},
          {"m/data/e", ""},
          {"m/version", "10"}};
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  // "torch.add", of all that there are.
  static const std::vector<std::string> calls = [] {
    std::vector<std::string> names;
    for (const auto &entry : frontends::aten::listOperators()) {
      auto [space, name] = StringRef(entry.name).split("::");
      names.push_back(
          ((space == "aten" ? "torch." : "ops." + space + ".") + name).str());
    }
    return names;
  }();
  return fuzz::mutateCode(data, size, maxSize, seed, calls);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *other,
                                            size_t otherSize, uint8_t *out,
                                            size_t maxSize, unsigned seed) {
  return fuzz::mixLines(fuzz::text(data, size), fuzz::text(other, otherSize),
                        out, maxSize, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static std::vector<BuiltMember> file = [] {
    std::vector<BuiltMember> made = members();
    made.push_back({"m/code/__torch__.py", ""});
    return made;
  }();
  std::string code(fuzz::text(data, size));
  file.back().contents = code;
  std::string path = fuzz::writeFile("model.pt", buildZip(file));
  static fuzz::Context contexts;
  MLIRContext &context = contexts.next();
  fuzz::Diagnostics diagnostics(context);
  frontends::ImportOptions options = fuzz::programOptions(size);
  if (code.find(" x: Tensor") != std::string::npos)
    options.inputs["x"] = {"float32", {2, 3}};
  if (code.find(" k: Tensor") != std::string::npos)
    options.inputs["k"] = {"int64", {2, 3}};
  fuzz::checkImported(frontends::importTorchScript(context, path, options),
                      diagnostics);
  return 0;
}
