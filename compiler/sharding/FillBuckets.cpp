// Fills buckets.

#include "compiler/sharding/FillBuckets.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

/// The parameters of one bucket are in memory at the same time. They may take
/// as many bytes as the largest parameter, for which there must be room anyway.
static int64_t getLargestStored(ArrayRef<BucketMember> candidates) {
  int64_t largest = 0;
  for (const BucketMember &candidate : candidates)
    if (candidate.key.isStored)
      largest = std::max(largest, candidate.bytes);
  return largest;
}

Buckets polyrank::sharding::fillBySizes(ArrayRef<BucketMember> candidates,
                                        const BucketSizes &sizes) {
  Buckets buckets;
  int64_t largestStored = getLargestStored(candidates);
  SmallVector<bool> done(candidates.size());
  // Axes over which gradients have a bucket already: each group has its own
  // queue.
  SmallVector<ArrayRef<AxisRef>> begun;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (done[i])
      continue;
    SmallVector<BucketMember> &members = buckets.emplace_back();
    const BucketKey &key = candidates[i].key;
    int64_t bytes = 0, most = sizes.get(key.movement);
    if (key.isStored)
      most = std::min(most, largestStored);
    if (key.movement != MovementKind::AllGather &&
        !llvm::is_contained(begun, ArrayRef(key.axes))) {
      begun.push_back(key.axes);
      most = std::min(most, sizes.first);
    }
    for (size_t j = i; j < candidates.size(); ++j) {
      if (done[j] || !(candidates[j].key == key))
        continue;
      if (!members.empty() && bytes + candidates[j].bytes > most)
        break;
      members.push_back(candidates[j]);
      bytes += candidates[j].bytes;
      done[j] = true;
    }
  }
  return buckets;
}

BucketFiller::BucketFiller(func::FuncOp function, const cost::Machine &machine,
                           const llvm::DenseMap<Operation *, int64_t> &places,
                           llvm::function_ref<bool(Operation &)> isBucketed)
    : places(places) {
  MeshAttr mesh;
  function.walk([&](MovementOp op) {
    mesh = getLayout(op->getResult(0)).getMesh();
    return WalkResult::interrupt();
  });
  if (!mesh)
    return;
  model = machine.getModel(mesh);
  clock.emplace(function, machine, *model, isBucketed);
}

BucketFiller::Queue &BucketFiller::findQueue(const BucketKey &key) {
  for (Queue &queue : queues)
    if (queue.axes == key.axes && queue.stage == key.stage)
      return queue;
  queues.push_back({key.axes, key.stage});
  return queues.back();
}

/// When each op of the block ends on ranks of the stage if the computation
/// waits for reductions where it first reads them.
llvm::DenseMap<Operation *, double>
BucketFiller::findEnds(Block &block, BucketClock::Stage stage) {
  llvm::DenseMap<Operation *, double> ends;
  llvm::DenseMap<Value, double> arrivals; // of values that were reduced
  double stall = 0;
  for (Operation &op : block) {
    int64_t place = places.lookup(&op);
    double length = clock->getLength(place, stage);
    double begin = clock->getEnd(place, stage) - length;
    double arrival = 0;
    for (Value operand : op.getOperands())
      arrival = std::max(arrival, arrivals.lookup(operand));
    if (auto end = reduced.find(&op); end != reduced.end())
      arrival = end->second;
    else if (length > 0)
      stall = std::max(stall, arrival - begin);
    if (length == 0) // it starts a reduction, or is computed with its readers
      for (Value result : op.getResults())
        arrivals[result] = arrival;
    ends[&op] = begin + length + stall;
  }
  return ends;
}

double BucketFiller::getDuration(const BucketKey &key, int64_t sent) const {
  return static_cast<double>(
      model->getPicoseconds(*getCollectiveKind(key.movement), key.axes, sent));
}

std::vector<BucketFiller::Bucket>
BucketFiller::listBuckets(const Group &group) const {
  std::vector<Bucket> buckets;
  size_t begin = 0;
  for (size_t count : group.counts) {
    int64_t sent = 0;
    for (const auto &item : ArrayRef(group.items).slice(begin, count))
      sent += item.sent;
    buckets.push_back({group.items[begin + count - 1].time,
                       getDuration(group.key(), sent),
                       ArrayRef(group.members).slice(begin, count)});
    begin += count;
  }
  return buckets;
}

void BucketFiller::choose(Group &group, double freeFrom,
                          ArrayRef<LinkUse> uses) {
  auto duration = [&](int64_t sent) { return getDuration(group.key(), sent); };
  auto chooseUpTo = [&](int64_t bytes) {
    return group.key().isStored
               ? chooseGathers(group.items, duration, bytes)
               : chooseBuckets(group.items, freeFrom, duration, bytes, uses);
  };
  // A larger bucket takes memory for longer, so it must be worth it.
  constexpr int64_t usual = 25 << 20, largest = 100 << 20;
  constexpr double gain = 0.9995;
  BucketChoice choice = chooseUpTo(std::min(usual, group.most));
  if (group.most > usual)
    if (auto larger = chooseUpTo(std::min(largest, group.most));
        larger.time < gain * choice.time)
      choice = std::move(larger);
  group.counts = std::move(choice.counts);
}

/// Follows the buckets of the groups in their queue. Returns when the last one
/// has ended, and leaves in `passed` how many other uses of the link come
/// before it.
double BucketFiller::follow(ArrayRef<Group *> groups, double freeFrom,
                            ArrayRef<LinkUse> uses, size_t &passed,
                            llvm::DenseMap<Operation *, double> &ended) const {
  std::vector<Bucket> buckets;
  for (const Group *group : groups)
    llvm::append_range(buckets, listBuckets(*group));
  llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) {
    return a.ready < b.ready;
  });
  passed = 0;
  for (const Bucket &bucket : buckets) {
    for (; passed < uses.size() && uses[passed].time <= bucket.ready; ++passed)
      freeFrom = std::max(freeFrom, uses[passed].time) + uses[passed].length;
    freeFrom = std::max(freeFrom, bucket.ready) + bucket.length;
    for (const BucketMember &member : bucket.members)
      ended[member.op] = freeFrom;
  }
  return freeFrom;
}

/// Chooses the buckets of groups that take turns on one queue, each with those
/// of the others as they are, until none helps.
void BucketFiller::chooseTogether(ArrayRef<Group *> groups) {
  Queue &queue = findQueue(groups.front()->key());
  ArrayRef<LinkUse> uses =
      clock->getUses(queue.axes, queue.stage).drop_front(queue.used);
  std::vector<std::vector<size_t>> best;
  double least = std::numeric_limits<double>::infinity();
  constexpr int mostRounds = 4;
  for (int round = 0; round < mostRounds; ++round) {
    for (Group *group : groups) {
      std::vector<LinkUse> others(uses.begin(), uses.end());
      for (const Group *other : groups)
        if (other != group)
          for (const Bucket &bucket : listBuckets(*other))
            others.push_back({bucket.ready, bucket.length});
      llvm::sort(others, [](const LinkUse &a, const LinkUse &b) {
        return std::tie(a.time, a.length) < std::tie(b.time, b.length);
      });
      choose(*group, queue.free, others);
    }
    size_t passed = 0;
    llvm::DenseMap<Operation *, double> ended;
    double end = follow(groups, queue.free, uses, passed, ended);
    if (end >= least)
      break;
    least = end;
    best.clear();
    for (const Group *group : groups)
      best.push_back(group->counts);
  }
  for (auto [group, counts] : llvm::zip_equal(groups, best))
    group->counts = counts;
  size_t passed = 0;
  queue.free = follow(groups, queue.free, uses, passed, reduced);
  queue.used += passed;
}

/// The groups of one part of the members: those of stored parameters, of
/// gradients, and of new parameters, which wait for the gradients.
std::vector<BucketFiller::Group>
BucketFiller::groupMembers(Block &block, ArrayRef<BucketMember> members,
                           Part part) {
  std::vector<Group> groups;
  for (const BucketMember &member : members) {
    const BucketKey &key = member.key;
    Part own = key.isStored                              ? Part::Stored
               : key.movement == MovementKind::AllGather ? Part::Gathered
                                                         : Part::Reduced;
    if (own != part)
      continue;
    auto group = llvm::find_if(
        groups, [&](const Group &other) { return other.key() == key; });
    if (group == groups.end())
      group = groups.insert(groups.end(), Group());
    group->members.push_back(member);
  }
  int64_t largestStored = getLargestStored(members);
  for (Group &group : groups) {
    if (part == Part::Stored)
      group.most = largestStored;
    llvm::DenseMap<Operation *, double> ends;
    if (part == Part::Gathered)
      ends = findEnds(block, group.key().stage);
    for (const BucketMember &member : group.members) {
      Operation *producer = member.op->getOperand(0).getDefiningOp();
      group.items.push_back(
          {part == Part::Gathered
               ? ends.lookup(producer)
               : clock->getEnd(member.ready, group.key().stage),
           member.bytes,
           cost::CostModel::getBytes(cast<MovementOp>(member.op))});
    }
  }
  return groups;
}

Buckets BucketFiller::fill(Block &block, ArrayRef<BucketMember> members) {
  Buckets buckets;
  for (Part part : {Part::Stored, Part::Reduced, Part::Gathered}) {
    std::vector<Group> groups = groupMembers(block, members, part);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (part == Part::Stored) {
        choose(groups[i], 0, {});
      } else if (groups[i].counts.empty()) {
        SmallVector<Group *> together;
        for (Group &group : llvm::MutableArrayRef(groups).drop_front(i))
          if (group.key().axes == groups[i].key().axes &&
              group.key().stage == groups[i].key().stage)
            together.push_back(&group);
        chooseTogether(together);
      }
      for (const Bucket &bucket : listBuckets(groups[i]))
        buckets.emplace_back(bucket.members);
    }
  }
  return buckets;
}
