// The generated op classes of the graph dialect, in a translation unit of
// their own.

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank::graph;

#include "dialects/graph/GraphEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.cpp.inc"

void GraphDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/graph/GraphOps.cpp.inc"
      >();
}
