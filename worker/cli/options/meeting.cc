#include "worker/cli/options/meeting.h"

#include "worker/cli/options/run_options.h"

namespace phub {

ClientOptions meeting_of(const WorkerConfig& config, std::string_view suffix) {
  ClientOptions options = client_of(config);
  options.job += suffix;
  options.rule = RuleKind::kSum;
  options.wire_type = DataType::kFloat32;
  options.rack_wire_type = DataType::kFloat32;
  options.rack_compress = {};
  options.hyper = {.gradient_scale = 0.0F};
  options.lars = {};
  options.adaptive = {};
  options.clip_norm = 0.0F;
  options.watch_values = WatchValues::kOff;
  options.checksums = false;
  options.ema_decay = 0.0;
  options.loss_scale = {};
  options.compress = {};
  options.rounds = {};
  return options;
}

}  // namespace phub
