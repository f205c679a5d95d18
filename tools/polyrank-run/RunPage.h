// A page of memory that the launcher and all ranks map: what the launcher found
// before they began, and after which step they are to save next.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/comm/Frontier.h"
#include "support/File.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace polyrank::runtime {

/// Steps are below 2^32 where a save is asked for.
class RunPage {
public:
  /// New memory, without a name.
  static Result<RunPage> create();
  /// The one that the launcher has made.
  static Result<RunPage> map(int descriptor);
  RunPage(RunPage &&other) noexcept;
  ~RunPage();

  int descriptor() const { return file.get(); }

  /// Written before the ranks start.
  struct Facts {
    int64_t run = 0;        // a number of this run, for the names of its files
    uint64_t step = 0;      // that the checkpoint is of; 0: there is none
    uint64_t origin = 0;    // the step after which the order of samples began
    char resume[4096] = {}; // the path of the checkpoint
    char data[64] = {};     // the fingerprint of the samples
    /// Which files --init and the samples to evaluate are; empty: none.
    char init[64] = {}, evaluated[64] = {};
    bool resetOptimizer = false; // whose state is not loaded from there
    bool savesAtOnce =
        false; // all steps are done, and are to be saved elsewhere
    /// What the evaluations until `step` came to, and whether the one after it
    /// is still to be made.
    ManifestEvaluation evaluation;
    bool evaluatesAgain = false;
  };
  Facts &facts() { return page->facts; }
  const Facts &facts() const { return page->facts; }

  /// A rank begins a step, from 1.
  void begin(uint64_t step);
  /// The last one that any rank has begun; what was given to startAfter (0
  /// before that) where none has.
  uint64_t lastBegun() const;
  /// No rank is there: the first step that one will begin is `step` + 1, and no
  /// save is asked for. One that is asked for while ranks load is then after a
  /// step that they reach.
  void startAfter(uint64_t step);
  /// Asks for a save after a step that no rank has begun, so that each of them
  /// learns of it in time. Not again before all have done that.
  void requestSave();
  /// Whether that was step `step`.
  bool isSaveAfter(uint64_t step) const;

  /// The batches of all evaluations of this attempt.
  Frontier &batches() { return page->batches; }

  /// What all ranks do after a step after which a save is due. At most two
  /// saves are on their way at a time, one that is written and one that waits.
  enum class Turn {
    Save,
    Wait, // two are on their way: ask again, or give it up
    Skip,
    SkipAndSay // the same, of the rank that has decided it for all
  };
  /// Asked by all ranks of each save number `number`, from 0, which is due
  /// after `step`; with `givesUp` the answer is not Wait. No rank may be
  /// `turns` numbers behind another.
  Turn turnOf(uint64_t number, uint64_t step, bool givesUp);
  static constexpr uint64_t turns = 64;
  /// How many of the saves of these ranks have come to an end, whole or failed.
  void setEndedSaves(uint64_t count) { page->ended = count; }

  /// A rank cannot begin this step, from 1: its samples are wrong.
  void refuse(uint64_t step) { page->refused = step; }
  /// Asked when all ranks have tried to begin it.
  bool isRefused(uint64_t step) const { return page->refused == step; }

private:
  struct Page {
    /// The last step that any rank has begun, and above it, in the same word,
    /// the one to save after: neither can change unseen by who changes the
    /// other.
    std::atomic<uint64_t> steps;
    std::atomic<uint64_t> refused;
    Frontier batches;
    /// Saves that were begun, and those that have ended; and of the latest
    /// numbers twice the step, and 1 more where it is saved.
    std::atomic<uint64_t> begun, ended;
    std::array<std::atomic<uint64_t>, turns> decided;
    Facts facts;
  };
  RunPage() = default;

  Descriptor file;
  Page *page = nullptr;
};

} // namespace polyrank::runtime
