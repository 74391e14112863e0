// What the bench prints: aligned tables for people, JSON lines for programs. Main thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/compare/interleave.h"
#include "bench/compare/systems.h"

namespace phub::bench {

// Rows of text, first column left-aligned, the others right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

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

}  // namespace phub::bench
