#include "worker/cli/data/training_images.h"

#include <utility>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_options.h"
#include "worker/train/session_data.h"

namespace phub {

Result<TrainingImages> open_training_images(const WorkerConfig& config, bool keeps_decoded) {
  auto network = network_of(config.model());
  if (!network) return network.error().with_context("model");
  const nn::Graph graph = network->graph;
  TrainingImages images{.options = session_of(config, std::move(*network), false), .sets = {}};
  images.options.note = print_note;
  images.options.data.cache.keeps_decoded = keeps_decoded;
  images.options.data.cache.takes_what_is_free = true;
  PHUB_ASSIGN_OR_RETURN(images.sets, train::load_data(images.options, graph));
  PHUB_RETURN_IF_ERROR(train::check_fit(images.options, graph, images.sets.train->facts()));
  return images;
}

data::TrainingOptions training_order(const train::SessionOptions& options) {
  return {.batch = options.executor.batch,
          .workers = options.workers,
          .worker_index = 0,
          .part = options.part,
          .seed = options.seed,
          .accumulate = options.update.accumulate,
          .shift_pixels = options.data.shift_pixels,
          .flip = options.data.flip,
          .mixup = options.data.mixup};
}

}  // namespace phub
