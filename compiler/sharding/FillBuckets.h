// Which collectives share a bucket, by sizes or by a clock.

#pragma once

#include "compiler/sharding/BucketClock.h"
#include "compiler/sharding/BucketSizes.h"
#include "dialects/sharding/Sharding.h"

#include <limits>

namespace polyrank::sharding {

/// The properties that all collectives of one bucket share.
struct BucketKey {
  MovementKind movement;
  llvm::SmallVector<AxisRef> axes;
  ReductionKind kind;
  mlir::Type element;
  /// The number of candidates before it on the longest chain of operands.
  /// Members of a bucket have the same depth, so none waits for another. For
  /// gathers of stored parameters it is 0 in the forward and 1 in the backward,
  /// after `graph.after`.
  int depth;
  bool isStored;
  /// The pipeline stage, since ranks of different stages run different
  /// programs.
  std::optional<int64_t> stage;

  friend bool operator==(const BucketKey &, const BucketKey &) = default;
};

struct BucketMember {
  mlir::Operation *op;
  BucketKey key;
  /// The place of its operand's producer, inside the region for a sum, in a
  /// walk of the function in post-order; of a parameter that is gathered for
  /// its use, its own place.
  int64_t ready;
  int64_t bytes;
};

/// The members of each bucket, in order.
using Buckets = std::vector<llvm::SmallVector<BucketMember>>;

/// Fills buckets up to the sizes, in the order of the members. The parameters
/// of one bucket are in memory at the same time: they may take as many bytes as
/// the largest parameter, for which there must be room anyway.
Buckets fillBySizes(llvm::ArrayRef<BucketMember> members,
                    const BucketSizes &sizes);

/// Fills buckets as the clock says, so that the links are through soonest
/// (BucketChoice.h). Reductions come first, then the gathers of new parameters,
/// which wait for their updates. Kinds that take turns on one link are chosen
/// in turns, each with the buckets of the others, until no choice helps. One
/// above 25 MiB, which takes memory for longer, must end the communication
/// earlier by a 2,000th; none is above 100 MiB, and none of stored parameters
/// above the largest parameter.
class BucketFiller {
public:
  /// `places` are those of a walk of the function in post-order, and
  /// `isBucketed` says which ops may be members. The function has not been
  /// changed since the walk.
  BucketFiller(mlir::func::FuncOp function, const cost::Machine &machine,
               const llvm::DenseMap<mlir::Operation *, int64_t> &places,
               llvm::function_ref<bool(mlir::Operation &)> isBucketed);

  /// The buckets of the members in a block, whose ops are those of the walk.
  Buckets fill(mlir::Block &block, llvm::ArrayRef<BucketMember> members);

private:
  enum class Part { Stored, Reduced, Gathered };
  /// Members with one key, and their buckets.
  struct Group {
    llvm::SmallVector<BucketMember> members;
    std::vector<BucketItem> items;
    std::vector<size_t> counts; // of members in each bucket
    int64_t most = std::numeric_limits<int64_t>::max(); // bytes of a bucket

    const BucketKey &key() const { return members.front().key; }
  };
  struct Bucket {
    double ready = 0, length = 0;
    llvm::ArrayRef<BucketMember> members;
  };
  std::vector<Group> groupMembers(mlir::Block &block,
                                  llvm::ArrayRef<BucketMember> members,
                                  Part part);
  double getDuration(const BucketKey &key, int64_t sent) const;
  std::vector<Bucket> listBuckets(const Group &group) const;
  void choose(Group &group, double freeFrom, llvm::ArrayRef<LinkUse> uses);
  double follow(llvm::ArrayRef<Group *> groups, double freeFrom,
                llvm::ArrayRef<LinkUse> uses, size_t &passed,
                llvm::DenseMap<mlir::Operation *, double> &ended) const;
  void chooseTogether(llvm::ArrayRef<Group *> groups);
  llvm::DenseMap<mlir::Operation *, double> findEnds(mlir::Block &block,
                                                     BucketClock::Stage stage);
  struct Queue {
    llvm::SmallVector<AxisRef> axes;
    BucketClock::Stage stage;
    double free = 0;
    size_t used = 0; // the uses of the link that `free` is after
  };
  Queue &findQueue(const BucketKey &key);

  const llvm::DenseMap<mlir::Operation *, int64_t> &places;
  std::optional<cost::CostModel> model; // set if something moves
  std::optional<BucketClock> clock;
  llvm::DenseMap<mlir::Operation *, double> reduced; // when it has ended
  std::vector<Queue> queues;
};

} // namespace polyrank::sharding
