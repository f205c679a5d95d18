// The generated op classes of the shard dialect, in a translation unit of
// their own.

#include "dialects/shard/Shard.h"

using namespace mlir;
using namespace polyrank::shard;

#define GET_OP_CLASSES
#include "dialects/shard/ShardOps.cpp.inc"

void ShardDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/shard/ShardOps.cpp.inc"
      >();
}
