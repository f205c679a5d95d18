// The generated op classes of the sharding dialect, in a translation unit of
// their own.

#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank::sharding;

#define GET_OP_CLASSES
#include "dialects/sharding/ShardingOps.cpp.inc"

void ShardingDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/sharding/ShardingOps.cpp.inc"
      >();
}
