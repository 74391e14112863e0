// Metrics as JSON lines: one object a line, with a field "event": start, step, epoch, samples, end.
//
// Owned and called by the trainer's thread. A failed write is reported once, by close().
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/feed/deliveries.h"
#include "worker/data/spread/spread_set.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/report/observer.h"
#include "worker/train/report/predicted_encoding.h"

namespace phub::train {

struct RunDescription {
  std::string model;
  std::string transport;
  std::uint32_t worker_index = 0;
  std::uint32_t workers = 1;
  std::uint32_t batch = 0;
  std::uint64_t seed = 0;
  std::uint64_t first_step = 0;
  std::string encoding{};  // empty: it was not chosen by what was predicted
  std::vector<PredictedEncoding> predicted{};
};

class Metrics {
 public:
  // Starts the file anew, or appends to it (a resumed run).
  static Result<std::unique_ptr<Metrics>> open(const std::filesystem::path& path, bool append);

  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void start(const RunDescription& run);
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  // With data.spread: what this worker was given in an epoch, and what has been read so far.
  void samples(const data::EpochDeliveries& epoch, const data::SpreadCounts& counts);
  Status close(const ExchangeStatistics& statistics);

 private:
  explicit Metrics(const std::filesystem::path& path, std::ios::openmode mode)
      : path_(path), file_(path, mode) {}

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace phub::train
