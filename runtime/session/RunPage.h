// A page of memory that the launcher and all ranks map. It holds what the
// launcher found before the ranks began, and after which step they save next.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/job/Frontier.h"
#include "support/File.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace polyrank::runtime {

/// Steps must be below 2^32 when a save is requested.
class RunPage {
public:
  /// Creates anonymous memory.
  static Result<RunPage> create();
  /// Maps the page that the launcher has created.
  static Result<RunPage> map(int descriptor);
  RunPage(RunPage &&other) noexcept;
  ~RunPage();

  int descriptor() const { return file.get(); }

  /// Written before the ranks start.
  struct Facts {
    int64_t run = 0;        // a number of this run, for file names
    uint64_t step = 0;      // of the checkpoint; 0: there is none
    uint64_t origin = 0;    // the step after which the order of samples began
    char resume[4096] = {}; // the path of the checkpoint
    char data[64] = {};     // the fingerprint of the samples
    /// The identities of the files of --init, of the samples and of the
    /// evaluated samples; empty: none.
    char init[64] = {}, samples[64] = {}, evaluated[64] = {};
    bool resetOptimizer = false; // its state is not loaded from the checkpoint
    bool savesAtOnce = false;    // all steps are done; only save them elsewhere
    /// The result of the evaluations up to `step`, and whether the one after it
    /// is still to be made.
    ManifestEvaluation evaluation;
    bool evaluatesAgain = false;
  };
  Facts &facts() { return page->facts; }
  const Facts &facts() const { return page->facts; }

  /// Notes that a rank begins a step, counted from 1.
  void begin(uint64_t step);
  /// The last step that any rank has begun. If none has, the argument of
  /// startAfter (0 before that).
  uint64_t lastBegun() const;
  /// Called while no rank runs: the next step will be `step` + 1, and no save
  /// is requested. So a save that is requested while ranks load is after a step
  /// that they reach.
  void startAfter(uint64_t step);
  /// Requests a save after a step that no rank has begun, so that each of them
  /// sees the request in time. Must not be called again before all have done
  /// it.
  void requestSave();
  /// True if a save is requested after step `step`.
  bool isSaveAfter(uint64_t step) const;

  /// The batches of all evaluations of this attempt.
  Frontier &batches() { return page->batches; }

  /// What all ranks do when a save is due. At most two saves are in progress at
  /// a time, one that is being written and one that waits.
  enum class SaveDecision {
    Save,
    Wait, // two are in progress: ask again, or give up
    Skip,
    SkipAndSay // the same, for the rank that has decided it for all
  };
  /// Called by all ranks for save number `number`, counted from 0, which is due
  /// after `step`. With `givesUp` the answer is not Wait. No rank may lag
  /// `decisions` numbers behind another.
  SaveDecision decideSave(uint64_t number, uint64_t step, bool givesUp);
  static constexpr uint64_t decisions = 64;
  /// Sets how many of these ranks' saves have ended, committed or failed.
  void setEndedSaves(uint64_t count) { page->ended = count; }

private:
  struct Page {
    /// The last step that any rank has begun, and in the upper half of the word
    /// the step to save after: one word, so that both change atomically.
    std::atomic<uint64_t> steps;
    Frontier batches;
    /// The number of saves that were begun, and of those that have ended. For
    /// the latest save numbers `decided` has twice the step, plus 1 if it is
    /// saved.
    std::atomic<uint64_t> begun, ended;
    std::array<std::atomic<uint64_t>, decisions> decided;
    Facts facts;
  };
  RunPage() = default;

  Descriptor file;
  Page *page = nullptr;
};

} // namespace polyrank::runtime
