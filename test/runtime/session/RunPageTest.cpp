// The words by which ranks and launcher agree.

#include "runtime/session/RunPage.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

using Decision = RunPage::SaveDecision;

TEST(RunPage, WhatTheLauncherWritesEachRankReads) {
  auto page = RunPage::create();
  ASSERT_TRUE(page);
  page->facts().step = 7;
  auto mapped = RunPage::map(page->descriptor());
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->facts().step, 7u);
  mapped->begin(8);
  EXPECT_EQ(page->lastBegun(), 8u);
}

TEST(RunPage, IsNotMappedWithoutADescriptor) {
  auto mapped = RunPage::map(-1);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().fault, Error::Fault::Rank);
}

TEST(RunPage, ARequestedSaveIsAfterAStepThatNoRankHasBegun) {
  auto page = RunPage::create();
  ASSERT_TRUE(page);
  page->startAfter(4);
  page->begin(5);
  page->begin(6);
  page->begin(5); // a slower rank
  page->requestSave();
  EXPECT_FALSE(page->isSaveAfter(6));
  EXPECT_TRUE(page->isSaveAfter(7));
  page->begin(7);
  EXPECT_TRUE(page->isSaveAfter(7));
  page->startAfter(4);
  EXPECT_EQ(page->lastBegun(), 4u);
  EXPECT_FALSE(page->isSaveAfter(7));
}

TEST(RunPage, AllRanksDoWhatTheFirstDecides) {
  auto page = RunPage::create();
  ASSERT_TRUE(page);
  page->startAfter(0);
  EXPECT_EQ(page->decideSave(0, 10, false), Decision::Save);
  EXPECT_EQ(page->decideSave(0, 10, false), Decision::Save); // another rank
  EXPECT_EQ(page->decideSave(1, 20, false), Decision::Save);
  // Two are in progress.
  EXPECT_EQ(page->decideSave(2, 30, false), Decision::Wait);
  EXPECT_EQ(page->decideSave(2, 30, true), Decision::SkipAndSay);
  EXPECT_EQ(page->decideSave(2, 30, false), Decision::Skip);
  page->setEndedSaves(1);
  EXPECT_EQ(page->decideSave(2, 30, false), Decision::Skip);
  EXPECT_EQ(page->decideSave(3, 40, false), Decision::Save);
  EXPECT_EQ(page->decideSave(4, 50, false), Decision::Wait);
}

} // namespace
} // namespace polyrank::runtime::test
