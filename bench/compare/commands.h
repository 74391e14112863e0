// The subcommands beside "exchange".
// Each prints its table or JSON lines and returns the exit code. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/compare/interleave.h"
#include "bench/processes/work.h"
#include "common/base/waiting.h"

namespace phub::bench {

// What is common to the passes over memory that run in the bench itself.
struct MemoryOptions {
  std::uint32_t workers = 4;
  std::uint64_t elements = 0;
  unsigned threads = 2;
  BlockPlan plan;
  bool json = false;
};

struct RoofOptions : MemoryOptions {
  unsigned states = 0;  // of the update, from 0 to 2
};
Status run_roof(const RoofOptions& options);

struct AggregateOptions : MemoryOptions {
  std::string keys = "auto";
  RuleKind rule = RuleKind::kNesterov;
  std::uint32_t chunk_kib = 32;
};
Status run_aggregate(const AggregateOptions& options);

struct SelectOptions {
  std::uint64_t elements = 25'557'032;  // a ResNet-50's
  double density = 0.001;               // of them, selected
  unsigned rounds = 30;                 // of MSTopK's bisection
  BlockPlan plan;
  bool json = false;
};
Status run_select(const SelectOptions& options);

struct ChunksOptions {
  Work work;
  std::vector<std::uint32_t> sizes_kib = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  BlockPlan plan;
  bool json = false;
};
Status run_chunks(const ChunksOptions& options);

struct TransportOptions {
  std::string transport = "verbs";
  std::vector<std::string> devices;  // of the two ends; empty: the first that can be used
  std::uint32_t bytes = 32 * 1024;
  std::vector<std::uint32_t> batches = {1, 2, 4, 8, 16, 32, 64};
  std::uint64_t writes = 2000;      // of a bandwidth measurement
  std::uint64_t round_trips = 500;  // of a latency measurement
  unsigned blocks = 5;
  Waiting waiting;  // of both ends
  bool perftest = false;
  bool json = false;
};
Status run_transport(const TransportOptions& options);

struct TenantsOptions {
  std::vector<std::string> transports = {"shm", "tcp"};
  std::vector<std::string> scenarios = {"below", "saturation", "flood"};
  double seconds = 10;
  double slice = 1;  // seconds that one set of jobs runs at a time
  unsigned blocks = 3;
  std::uint32_t workers = 1;            // of a job that saturates the server
  std::uint64_t elements = 12'582'912;  // of it: beyond the cache, and always some on its way
  DataType dtype =
      DataType::kFloat16;             // of its wire: one CPU of workers can saturate one of server
  std::uint32_t compute_us = 50'000;  // of a worker below capacity, for each exchange
  bool json = false;
};
Status run_tenants(const TenantsOptions& options);

struct BarsOptions {
  Work work;             // elements, keys, server cores
  BlockPlan plan;        // of the model-sized exchanges
  BlockPlan small_plan;  // of the one-chunk exchanges
  bool json = false;
};
Status run_bars(const BarsOptions& options);

}  // namespace phub::bench
