// The sharding dialect: registration, names of attributes in text.

#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank::sharding;

#include "dialects/sharding/ShardingDialect.cpp.inc"

namespace {
/// Prints a mesh once, as `#mesh`, and refers to it by that name.
struct MeshAlias : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &out) const override {
    if (!isa<MeshAttr>(attribute))
      return AliasResult::NoAlias;
    out << "mesh";
    return AliasResult::FinalAlias;
  }
};
} // namespace

void ShardingDialect::initialize() {
  registerAttributes();
  registerOps();
  addInterfaces<MeshAlias>();
}
