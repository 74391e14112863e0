// One training run from its options to its checkpoint: loads the data, builds the network, opens
// the exchange, trains, evaluates, writes what was asked for.
//
// A function; the calling thread becomes the compute thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/data_format.h"
#include "worker/data/cache/open.h"
#include "worker/data/encoded/view.h"
#include "worker/data/feed/order.h"
#include "worker/data/spread/peer_links.h"
#include "worker/nn/graph/graph.h"
#include "worker/train/backends.h"
#include "worker/train/batch_loading.h"
#include "worker/train/exchange/gpu_direct.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/report/predicted_encoding.h"
#include "worker/train/schedule/loss_scaler.h"
#include "worker/train/schedule/schedule.h"
#include "worker/train/stages/stage_options.h"

namespace phub::train {

// The workers hold the training set together.
struct SpreadChoice {
  std::uint64_t memory_bytes = 0;   // 0: they do not
  std::uint32_t members = 1;        // workers that do, of one rack; 0: not known before they join
  data::ConnectPeers connect = {};  // empty: one worker, which has a cache
};

struct DataOptions {
  DataFormat format = DataFormat::kIdx;
  std::filesystem::path path{};
  std::uint32_t synthetic_images = 1024;
  std::uint32_t shift_pixels = 0;
  bool flip = false;
  float mixup = 0.0F;                      // data::TrainingOptions::mixup
  data::ViewOptions view{};                // from here on: of encoded images
  std::vector<float> mean{}, deviation{};  // [channel]; empty: ImageNet's
  std::uint64_t damaged_max = 100;
  data::cache::CacheOptions cache{};
  FeedOptions feed{};
  SpreadChoice spread{};
  std::vector<StageOptions> progressive{};
};

// How gradients become the next parameters, as far as workers decide it.
struct UpdateOptions {
  std::uint32_t local_steps = 1;  // the exchange's: workers are up to so many apart
  float momentum = 0.9F;
  float weight_decay = 5e-4F;
  bool decay_bias = false;
  bool exclude_bias_from_lars =
      false;  // rule lars: biases and batch normalisation by plain momentum
  LossScalerOptions loss_scale{};
  std::uint32_t accumulate = 1;
  float label_smoothing = 0.0F;
  // learning_rate, kind, warmup_steps, gamma and power are used as they are; total_steps and drops
  // are worked out.
  Schedule schedule{};
  std::vector<std::uint32_t> drop_epochs{};
};

struct CheckpointOptions {
  std::filesystem::path path{};    // empty: none; the worker that leads writes it
  std::uint64_t every_steps = 0;   // also after every so many; 0: only at the end
  std::uint32_t last = 0;          // so many of the last ones stay beside it
  bool best = false;               // and the one with the highest test accuracy
  bool snapshot = false;           // the servers take one with each checkpoint
  std::filesystem::path resume{};  // empty: start anew
  bool recovers = false;           // after a loss it goes on from `path`: train.recover_s
  bool restart_momentum = false;   // a resumed run starts with a momentum of 0
};

// How gradients travel, where workers have agreed on that.
struct AgreedEncoding {
  std::string chosen{};
  std::vector<PredictedEncoding> predicted{};
};

struct ReportOptions {
  std::filesystem::path metrics{};      // empty: none
  std::filesystem::path tensorboard{};  // a folder; empty: none
  enum class Print { kNothing, kFirstWorker, kAlways };
  Print print = Print::kNothing;  // a line for each epoch
  bool bar = false;               // and a bar while it runs
  std::optional<AgreedEncoding> encoding{};
};

struct SessionOptions {
  std::string model = "lenet";              // what checkpoints and metrics call it
  std::optional<nn::Graph> graph{};         // nothing: the built-in model of that name
  ExecutorOptions executor{.batch = 64};    // the batch is each worker's
  GpuDirect gpu_direct = GpuDirect::kAuto;  // of backend cuda
  DataOptions data{};
  UpdateOptions update{};
  std::uint32_t epochs = 10;
  std::uint64_t max_steps = 0;  // 0: no limit
  std::uint32_t workers = 1;
  data::BatchPart part{};                // of the batch of all workers, where theirs differ
  std::vector<std::uint32_t> batches{};  // then: by worker
  std::uint64_t seed = 1;
  bool servers_weigh = false;  // pushes by their images, where rounds have not everybody's
  bool evaluate = true;
  CheckpointOptions checkpoint{};
  ReportOptions report{};
  std::function<void(std::string_view)> note{};  // is told what a user should know; may be empty
  std::function<void()> stepped{};               // is called after each step; may be empty
};

// Images of a step of all workers, those of accumulated batches apart.
inline std::uint64_t global_batch(const SessionOptions& options) {
  return data::TrainingOptions{
      .batch = options.executor.batch, .workers = options.workers, .part = options.part}
      .global_batch();
}

struct SessionResult {
  std::uint64_t next_step = 0;
  bool interrupted = false;     // stopped before the end
  std::string ending{};         // then: why, as told to all workers
  double test_accuracy = -1.0;  // negative: not evaluated
  double train_seconds = 0.0;
};

// `stopped` is asked after each step: whether this worker was asked to stop. Then, and where
// another worker or a server was, all workers stop after the same step. Errors name the option and
// the cure; kDataLoss: the end was planned, and its checkpoint was not written.
Result<SessionResult> run_session(const SessionOptions& options, const ExchangeFactory& factory,
                                  const std::function<bool()>& stopped);

}  // namespace phub::train
