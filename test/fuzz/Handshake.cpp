// Any bytes in a handshake, at either end and at any moment: nobody is let in
// who has not the key, and no more is kept than the bound.

#include "runtime/job/net/Handshake.h"

#include <cstdlib>

using namespace polyrank::runtime::net;

namespace {

void check(bool holds) {
  if (!holds)
    std::abort();
}

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first};
  return JobKey(bytes);
}

constexpr Claim claim{netProtocol, 1, 2, 99};

/// A stranger, who may have heard a genuine hello.
void checkCoordinator(std::span<const uint8_t> bytes, bool afterHello) {
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> reply;
  if (afterHello)
    check(bool(coordinator.receive(NodeHandshake(keyOf(1), claim, {1}).hello(),
                                   reply)));
  size_t before = reply.size();
  auto taken = coordinator.receive(bytes, reply);
  check(!coordinator.isDone());
  check(coordinator.rest().size() <= mostBytesBeforeProof);
  check(reply.size() - before <= 128); // at most one challenge
  if (!taken)
    check(!taken.error().message.empty());
}

void checkNode(std::span<const uint8_t> bytes) {
  NodeHandshake node(keyOf(1), claim, {1});
  std::vector<uint8_t> reply;
  auto taken = node.receive(bytes, reply);
  check(!node.isDone() && reply.empty());
  check(node.rest().size() <= mostBytesBeforeProof);
  if (!taken)
    check(!taken.error().message.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  checkCoordinator({data, size}, false);
  checkCoordinator({data, size}, true);
  checkNode({data, size});
  return 0;
}
