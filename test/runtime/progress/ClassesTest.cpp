// One rank of each class is enough: on every mesh of up to 64 ranks the verdict
// about classes equals that about the product of all ranks.

#include "runtime/progress/CheckPrograms.h"
#include "test/runtime/progress/FullProduct.h"

#include <gtest/gtest.h>
#include <random>

using namespace polyrank::progress;
using namespace polyrank::test;

namespace {

std::vector<std::vector<int64_t>> meshes(int64_t most) {
  std::vector<std::vector<int64_t>> all = {{1}};
  for (int64_t a = 2; a <= most; ++a) {
    all.push_back({a});
    for (int64_t b = 2; a * b <= most; ++b) {
      all.push_back({a, b});
      for (int64_t c = 2; a * b * c <= most; ++c)
        all.push_back({a, b, c});
    }
  }
  return all;
}

/// Draws programs that mostly agree and end, and then changes some.
class Draw {
public:
  explicit Draw(std::mt19937 &random) : random(random) {}

  RankPrograms draw(const std::vector<int64_t> &sizes);

private:
  int64_t below(int64_t bound) { return random() % bound; }
  bool chance(int percent) { return below(100) < percent; }

  /// A command in the making: a movement as a whole, its start or its wait.
  struct Item {
    int32_t movement;
    Command::Action action;
  };
  using Draft = std::vector<Item>;

  SubAxis drawPart(int32_t axis, int64_t size);
  Group drawGroup(const std::vector<int64_t> &sizes);
  Program finish(const Draft &draft);
  void change(Draft &draft);
  void add(Draft &draft, int32_t movement);

  std::mt19937 &random;
  RankPrograms ranks;
  std::vector<int32_t> groupOf, queueOf; // by movement
};

SubAxis Draw::drawPart(int32_t axis, int64_t size) {
  std::vector<SubAxis> parts;
  for (int64_t pre = 1; pre <= size; ++pre)
    for (int64_t count = 2; size % pre == 0 && pre * count <= size; ++count)
      if (size / pre % count == 0)
        parts.push_back({axis, pre, count});
  if (parts.empty() || chance(50))
    return {axis, 1, size};
  return parts[below(parts.size())];
}

Group Draw::drawGroup(const std::vector<int64_t> &sizes) {
  std::vector<int32_t> axes(sizes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    axes[i] = i;
  std::shuffle(axes.begin(), axes.end(), random);
  axes.resize(1 + below(axes.size()));
  Group group;
  for (int32_t axis : axes)
    group.axes.push_back(drawPart(axis, sizes[axis]));
  return group;
}

/// Adds a movement, with its wait at some later place.
void Draw::add(Draft &draft, int32_t movement) {
  if (chance(60)) {
    draft.push_back({movement, Command::Action::Run});
    return;
  }
  draft.push_back({movement, Command::Action::Start});
  draft.push_back({movement, Command::Action::Wait});
}

void Draw::change(Draft &draft) {
  if (draft.size() < 2)
    return;
  size_t i = below(draft.size() - 1);
  switch (below(5)) {
  case 0: {
    int32_t movement = draft[i].movement;
    std::erase_if(draft,
                  [&](const Item &each) { return each.movement == movement; });
    break;
  }
  case 1:
    draft[i].movement = draft[i + 1].movement;
    break;
  default:
    std::swap(draft[i], draft[i + 1]);
  }
}

Program Draw::finish(const Draft &draft) {
  Program program;
  for (size_t i = 0; i < draft.size(); ++i) {
    Command command;
    command.action = draft[i].action;
    command.movement = draft[i].movement;
    command.group = groupOf[command.movement];
    command.queue = queueOf[command.movement];
    for (size_t j = 0; j < i; ++j)
      if (draft[j].movement == command.movement &&
          draft[j].action == Command::Action::Start)
        command.started = j;
    program.push_back(command);
  }
  return program;
}

RankPrograms Draw::draw(const std::vector<int64_t> &sizes) {
  ranks = RankPrograms();
  groupOf.clear();
  queueOf.clear();
  std::vector<MeshAxis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({std::string(1, char('a' + i)), sizes[i]});
  ranks.mesh = Mesh(axes);
  int64_t classes = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (chance(50)) {
      ranks.classAxes.push_back(i);
      classes *= sizes[i];
    }
  if (chance(50))
    ranks.limits = {1 + below(3), 2, 4 + below(5)};

  // Collectives of all ranks, and transfers between two coordinates along one
  // axis.
  std::vector<Draft> drafts(classes);
  int64_t movements = 2 + below(7);
  bool hasQueues = chance(30);
  for (int32_t i = 0; i < movements; ++i) {
    bool isTransfer = !ranks.classAxes.empty() && chance(50);
    Group group;
    std::vector<bool> takesPart(classes, true);
    if (isTransfer) {
      int32_t axis = ranks.classAxes[below(ranks.classAxes.size())];
      int64_t from = below(sizes[axis]), to = below(sizes[axis]);
      if (from == to)
        continue;
      group = {{{axis, 1, sizes[axis]}}, {from, to}};
      for (int64_t each = 0; each < classes; ++each) {
        int64_t index = each;
        for (size_t a = ranks.classAxes.size(); a-- > 0;) {
          int64_t coordinate = index % sizes[ranks.classAxes[a]];
          index /= sizes[ranks.classAxes[a]];
          if (ranks.classAxes[a] == axis)
            takesPart[each] = coordinate == from || coordinate == to;
        }
      }
    } else {
      group = drawGroup(sizes);
    }
    int32_t movement = ranks.movements.size();
    ranks.movements.push_back(
        {uint64_t(movement), "k", {8}, "op", 1 + below(5)});
    groupOf.push_back(ranks.groups.size());
    queueOf.push_back(hasQueues && chance(60) ? int32_t(below(2))
                                              : Command::ownQueue);
    ranks.groups.push_back(group);
    for (int64_t each = 0; each < classes; ++each)
      if (takesPart[each])
        add(drafts[each], movement);
  }
  for (int64_t changes = below(4); changes > 0; --changes)
    change(drafts[below(classes)]);
  for (Draft &draft : drafts)
    for (int64_t moves = below(3); moves > 0 && draft.size() > 1; --moves)
      if (size_t i = below(draft.size() - 1);
          draft[i].action == Command::Action::Wait &&
          draft[i + 1].movement != draft[i].movement)
        std::swap(draft[i], draft[i + 1]);
  ranks.programOf.clear();
  std::vector<Draft> distinct;
  auto isEqual = [](const Item &a, const Item &b) {
    return a.movement == b.movement && a.action == b.action;
  };
  for (const Draft &draft : drafts) {
    size_t number = 0;
    while (number < distinct.size() &&
           !std::equal(draft.begin(), draft.end(), distinct[number].begin(),
                       distinct[number].end(), isEqual))
      ++number;
    if (number == distinct.size()) {
      distinct.push_back(draft);
      ranks.programs.push_back(finish(draft));
    }
    ranks.programOf.push_back(number);
  }
  return ranks;
}

TEST(Classes, HaveTheVerdictOfTheProductOfAllRanks) {
  std::mt19937 random(5);
  int accepted = 0, rejected = 0, fewer = 0;
  for (const std::vector<int64_t> &sizes : meshes(64))
    for (int round = 0; round < 8; ++round) {
      RankPrograms ranks = Draw(random).draw(sizes);
      Verdict verdict = checkPrograms(ranks);
      auto error = findCommunicationError(expand(ranks), ranks.limits);
      ASSERT_EQ(verdict.fault.has_value(), error.has_value())
          << "round " << round << ", mesh " << testing::PrintToString(sizes)
          << ": " << (error ? *error : verdict.fault->toString());
      ++(error ? rejected : accepted);
      fewer += verdict.classes < ranks.mesh.getNumRanks();
    }
  // All kinds of cases occurred.
  EXPECT_GT(accepted, 300);
  EXPECT_GT(rejected, 300);
  EXPECT_GT(fewer, 300);
}

TEST(Classes, OneRankStandsForAllThatRunOneProgram) {
  // 3,072 ranks: 64 x 8 x 6, six programs.
  RankPrograms ranks;
  ranks.mesh = Mesh({{"data", 64}, {"tensor", 8}, {"pipe", 6}});
  ranks.groups = {{{{0, 1, 64}}},
                  {{{1, 1, 8}}},
                  {{{2, 1, 6}}},
                  {{{0, 1, 64}, {1, 1, 8}, {2, 1, 6}}}};
  ranks.classAxes = {2};
  ranks.programOf = {0, 1, 2, 3, 4, 5};
  for (uint64_t i = 0; i < 10000; ++i)
    ranks.movements.push_back({i, "all_reduce sum", {64, 64}, "op"});
  Program program;
  for (int32_t i = 0; i < 10000; ++i)
    program.push_back({Command::Action::Run, i, i % 4});
  ranks.programs.assign(6, program);
  Verdict verdict = checkPrograms(ranks);
  EXPECT_FALSE(verdict.fault);
  EXPECT_EQ(verdict.classes, 6);

  // The last stage communicates with all ranks before it does so with the other
  // stages, which do it in the opposite order.
  std::swap(ranks.programs[5][9998], ranks.programs[5][9999]);
  verdict = checkPrograms(ranks);
  ASSERT_TRUE(verdict.fault);
  EXPECT_EQ(verdict.fault->steps.size(), 2u);
  EXPECT_EQ(verdict.fault->what, "ranks wait for each other without end");
}

TEST(Classes, PickedMembersMakeTheirAxisOneOfClasses) {
  // All ranks run one program, but only the first two of four ranks can take
  // part: rank 2 is in no such group.
  RankPrograms ranks;
  ranks.mesh = Mesh({{"data", 2}, {"pipe", 4}});
  ranks.groups = {{{{1, 1, 4}}, {0, 1}}};
  ranks.movements = {{0, "transfer", {8, 8}, "op"}};
  ranks.programs = {{{}}};
  Verdict verdict = checkPrograms(ranks);
  EXPECT_EQ(verdict.classes, 4);
  ASSERT_TRUE(verdict.fault);
  EXPECT_EQ(verdict.fault->toString(),
            "a group is none: rank 2 (data=0,pipe=2) runs op (command 0, "
            "transfer, id 0, microbatch 0, bytes 8 8, group 0 1), which is no "
            "group of different ranks with itself in it");
}

} // namespace
