// The work of a calibration.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/plan/Collectives.h"
#include "runtime/plan/plan_generated.h"

#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// Products such as plans of transformers, convolutional and recurrent networks
/// have on each rank: forward, and as gradients with one operand transposed;
/// large, narrow, shallow and small. Each takes some milliseconds at most: the
/// least time of longer work includes what else the system runs on the core.
/// Larger products consist of more of the same tiles.
std::vector<ProductTrial> calibratedProducts(ElementType elements);
/// The elements of which there are products.
std::span<const ElementType> calibratedElements();

/// A part of an addition that no cache holds.
AdditionTrial calibratedAddition();

/// The kinds of collectives that are measured, and the sizes: bytes of the
/// larger one of input and output.
/// @{
std::span<const CollectiveKind> calibratedKinds();
std::span<const uint64_t> calibratedBytes();
/// @}

/// A plan for `devices` ranks with two programs on the same ranks, of which an
/// interpreter runs one: each has `numCommands` copies, those of the first of
/// one cache line, and those of the second of nothing.
plan::PlanT makeLaunchPlan(int devices, int threads);
inline constexpr uint64_t numCommands = 256;
/// The bytes of the private arena of its programs.
inline constexpr uint64_t launchArena = 128;

} // namespace polyrank::runtime
