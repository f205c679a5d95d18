// What a build without the headers of UCX has in place of the wire over it.

#include "runtime/comm/net/Ucx.h"

namespace polyrank::runtime::net {

Result<void> loadUcx() {
  return Error{"--wire ucx: this polyrank-run was built without UCX. Build it "
               "where UCX's headers are (Debian: libucx-dev), or use --wire "
               "tcp"};
}

Result<std::unique_ptr<Wire>> createUcxWire(const TcpOptions &, const JobKey &,
                                            Descriptor, int, WireUser &) {
  return loadUcx().error();
}

} // namespace polyrank::runtime::net
