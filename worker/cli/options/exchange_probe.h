// Measures what an exchange takes between a job's servers and all of its workers, before the job.
//
// Blocks within the client's timeouts. Belongs to main's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/cost/compression.h"
#include "proto/config.pb.h"
#include "worker/client/phub.h"

namespace phub {

class ExchangeProbe {
 public:
  static constexpr std::uint32_t kFigures = 20;  // that a worker tells the others at once, at most

  // Meets the other workers in a job "JOB.encoding", as they all do. `stop` ends each wait for
  // them. Errors: the client's.
  static Result<std::unique_ptr<ExchangeProbe>> meet(const WorkerConfig& config,
                                                     std::uint64_t model_bytes,
                                                     const std::stop_token& stop);

  // All workers at the same time: few exchanges of the model's size, or of 4 MiB if that is less.
  Result<cost::ExchangeFigures> measure();

  // Of each of them the largest of all workers', which all do at the same time. REQUIRES: at most
  // kFigures, finite.
  Result<std::vector<float>> largest(std::span<const float> own);

  std::string transport() const { return std::string(dense_->transport()); }

 private:
  ExchangeProbe(const WorkerConfig& config, std::uint64_t elements, std::stop_token stop)
      : config_(config), elements_(elements), stop_(std::move(stop)) {}

  const WorkerConfig& config_;
  const std::uint64_t elements_;
  const std::stop_token stop_;
  std::unique_ptr<Client> dense_;
};

}  // namespace phub
