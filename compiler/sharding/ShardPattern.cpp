// The syntax of --shard.

#include "compiler/sharding/ShardPattern.h"

#include "compiler/cost/CostModel.h"
#include "dialects/graph/NamePattern.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

Result<ShardPattern> ShardPattern::parse(StringRef text) {
  ShardPattern result;
  result.text = text.trim().str();
  auto fail = [&](const Twine &reason) {
    return Error{("--shard '" + result.text + "': " + reason).str()};
  };
  StringRef rest = StringRef(result.text);
  size_t bracket = rest.rfind('[');
  StringRef pattern =
      rest.take_front(bracket == StringRef::npos ? 0 : bracket).rtrim();
  if (!pattern.consume_back("=") || pattern.trim().empty())
    return fail("expected PATTERN=[DIM,..], for instance "
                "'*.c_fc.weight=[-,tensor]'");
  pattern = pattern.trim();
  rest = rest.drop_front(bracket + 1);
  size_t close = rest.find(']');
  if (close == StringRef::npos)
    return fail("the list of dims has no ']'");
  StringRef tail = rest.drop_front(close + 1).trim();
  if (!tail.empty() &&
      (!tail.consume_front("@") || tail.getAsInteger(10, result.priority) ||
       result.priority < 0 || result.priority > 6))
    return fail("after ']' there may be @PRIORITY, a number from 0 to 6");
  if (pattern.consume_front("out(")) {
    if (!pattern.consume_back(")"))
      return fail("out( has no )");
    result.isOutput = true;
  }
  result.pattern = pattern.str();
  if (std::string reason = graph::explainPattern(result.pattern);
      !reason.empty())
    return fail("not a glob: " + reason);

  SmallVector<StringRef> dims;
  if (!rest.take_front(close).trim().empty())
    rest.take_front(close).split(dims, ',');
  for (StringRef dim : dims) {
    dim = dim.trim();
    Dim &entry = result.dims.emplace_back();
    if (dim == "-")
      continue;
    if (dim == "?") {
      entry.open = true;
      continue;
    }
    SmallVector<StringRef> axes;
    dim.split(axes, '+');
    for (StringRef axis : axes) {
      axis = axis.trim();
      if (axis.empty() || axis.contains_insensitive('['))
        return fail("dim '" + dim + "' is not -, ? or axes joined by +");
      entry.axes.push_back(axis.str());
    }
  }
  return result;
}

bool ShardPattern::matches(StringRef name) const {
  return graph::matchesName(pattern, name);
}

Result<SmallVector<sharding::AxisRef>>
ShardPattern::getAxes(size_t dim, sharding::MeshAttr mesh) const {
  SmallVector<sharding::AxisRef> axes;
  for (const std::string &name : dims[dim].axes) {
    int32_t axis = mesh.lookup(name);
    if (axis < 0)
      return Error{"--shard '" + text +
                   "': " + cost::explainMissingAxis(mesh, name)};
    // An axis may be used once, in this dim or an earlier one.
    for (size_t d = 0; d <= dim; ++d)
      if (llvm::count(dims[d].axes, name) > (d == dim ? 1 : 0))
        return Error{"--shard '" + text + "': axis '" + name +
                     "' is used twice; it can split one dim"};
    axes.push_back(mesh.getAxis(axis));
  }
  return axes;
}

static Result<std::vector<std::string>> readShardFile(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return Error{"--shard-file " + path + ": " + file.getError().message()};
  std::vector<std::string> patterns;
  SmallVector<StringRef> lines;
  (*file)->getBuffer().split(lines, '\n');
  for (StringRef line : lines) {
    line = line.split('#').first.trim();
    if (!line.empty())
      patterns.push_back(line.str());
  }
  return patterns;
}

Result<std::vector<ShardPattern>>
polyrank::sharding::readShardPatterns(const std::string &file,
                                      ArrayRef<std::string> texts) {
  std::vector<std::string> all;
  if (!file.empty()) {
    POLYRANK_ASSIGN(lines, readShardFile(file));
    all = std::move(lines);
  }
  llvm::append_range(all, texts);
  std::vector<ShardPattern> patterns;
  for (const std::string &text : all) {
    POLYRANK_ASSIGN(pattern, ShardPattern::parse(text));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}
