// Globs over the names of the user's model: parameters, modules, values.

#include "dialects/graph/NamePattern.h"

#include "llvm/Support/GlobPattern.h"

using namespace llvm;

namespace polyrank {

bool graph::matchesName(StringRef text, StringRef name) {
  auto glob = GlobPattern::create(text);
  if (!glob) {
    consumeError(glob.takeError());
    return false;
  }
  while (true) {
    if (glob->match(name))
      return true;
    size_t dot = name.find('.');
    if (dot == StringRef::npos)
      return false;
    name = name.drop_front(dot + 1);
  }
}

std::string graph::explainPattern(StringRef text) {
  if (text.trim().empty())
    return "it is empty";
  auto glob = GlobPattern::create(text);
  return glob ? "" : toString(glob.takeError());
}

Result<SmallVector<std::string>> graph::splitPatterns(StringRef text) {
  SmallVector<StringRef> patterns;
  text.split(patterns, ',');
  SmallVector<std::string> result;
  for (StringRef pattern : patterns) {
    if (std::string why = explainPattern(pattern); !why.empty())
      return Error{"'" + pattern.str() + "' is no pattern: " + why};
    result.push_back(pattern.str());
  }
  return result;
}

StringRef graph::findModule(StringRef glob, StringRef scope) {
  for (size_t end = 0; end < scope.size();) {
    end = std::min(scope.find('.', end + 1), scope.size());
    if (matchesName(glob, scope.take_front(end)))
      return scope.take_front(end);
  }
  return {};
}

} // namespace polyrank
