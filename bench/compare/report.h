// What the bench prints: aligned tables for people, JSON lines for programs. Main thread.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "bench/base/statistics.h"
#include "bench/compare/interleave.h"
#include "bench/compare/systems.h"
#include "common/text/table.h"

namespace phub::bench {

// A row of a table: the name, p50, p99, GB/s of an iteration's bytes, the ratio to `base`, if there
// is one, with its range, and `more`.
std::vector<std::string> timing_cells(std::string name, const Blocks& blocks, double bytes,
                                      const Blocks* base, std::initializer_list<std::string> more);
std::string format_range(const Spread& spread);  // "[0.98 .. 1.03]"

std::string format_seconds(double seconds);     // "28.1 ms", "41.0 us"
std::string format_bytes(std::uint64_t bytes);  // "32.0 KiB", "97.5 MiB"

// Bytes that N workers push and receive in one iteration: 2 N payloads.
double exchanged_bytes(const Work& work);

// One table of a run: the phub system of one configuration first, then what it is compared with.
struct Comparison {
  Work work;
  const System* phub = nullptr;  // may be absent, when --systems leaves it out
  std::vector<const System*> rows;
};

void print_comparison(const Comparison& comparison, const BlockPlan& plan);
// One JSON object a line.
void print_json(const std::string& bench, const Comparison& comparison, const BlockPlan& plan);

// Parameters and optimizer state of the job, what an ideal server would hold.
std::uint64_t ideal_server_bytes(const Work& work);

// What its servers hold, but for staging, over that. REQUIRES: its memory was measured.
double memory_ratio(const System& system);

}  // namespace phub::bench
