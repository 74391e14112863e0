#include "worker/cli/options/run_options.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/log_value.h"
#include "common/config/job.h"
#include "common/config/payload.h"
#include "common/plan/plan.h"
#include "common/text/late_notice.h"
#include "worker/cli/options/threads.h"
#include "worker/nn/models/models.h"
#include "worker/train/exchange/local_steps.h"

namespace phub {
namespace {

constexpr std::chrono::seconds kPatience{2};  // with others, before a word about it

train::Schedule schedule_of(const OptimizerConfig& optimizer) {
  const ScheduleConfig& schedule = optimizer.schedule();
  return {.kind = train::parse_schedule_kind(schedule.kind()).value(),
          .learning_rate = optimizer.learning_rate(),
          .warmup_steps = schedule.warmup_steps(),
          .gamma = schedule.gamma(),
          .power = schedule.power()};
}

train::LossScalerOptions loss_scaler_of(const TrainConfig& train) {
  if (!train.has_loss_scale()) return {};
  const LossScaleConfig& scale = train.loss_scale();
  if (!scale.has_dynamic()) return {.kind = LossScaling::kStatic, .scale = scale.factor()};
  return {.kind = LossScaling::kVoted,
          .scale = scale.dynamic().initial(),
          .growth_steps = scale.dynamic().growth_steps()};
}

DataType compute_type_of(const TrainConfig& train) {
  if (train.has_compute_type()) return parse_data_type(train.compute_type()).value();
  if (train.backend() != "cuda") return DataType::kFloat32;
  return train.has_loss_scale() ? DataType::kFloat16 : DataType::kBfloat16;
}

CompressOptions compress_of(const TrainConfig& train) {
  if (!train.has_compress()) return {};
  const CompressConfig& compress = train.compress();
  // "auto" is agreed on before the job is joined.
  return {.encoding = kEncodingWords.parse(compress.encoding()).value_or(Encoding::kDense),
          .density = compress.density(),
          .dense_below = compress.dense_below(),
          .error_feedback = compress.error_feedback(),
          .momentum = compress.momentum(),
          .warm_up_rounds = compress.warm_up_steps(),
          .selector = kSelectorWords.parse(compress.selector()).value()};
}

LarsOptions own_lars(const OptimizerConfig& optimizer) {
  return {.coefficient = optimizer.trust_coefficient(), .epsilon = optimizer.trust_epsilon()};
}

AdaptiveOptions adaptive_of(const OptimizerConfig& optimizer) {
  return {optimizer.beta1(), optimizer.beta2(), optimizer.epsilon()};
}

ClientSecurity security_of(const ClientSecurityConfig& security) {
  return {
      .tls = {.ca = security.ca(), .certificate = security.certificate(), .key = security.key()},
      .token_file = security.token_file(),
      .nonce_file = security.nonce_file(),
      .tenant = security.tenant(),
      .allow_plaintext = security.allow_plaintext(),
      .require_encryption = security.require_encryption()};
}

data::ViewOptions view_of(const DataConfig& config) {
  return {.min_area = config.crop().min_area(),
          .stretch = config.crop().stretch(),
          .test = config.crop().test(),
          .brightness = config.jitter().brightness(),
          .contrast = config.jitter().contrast(),
          .saturation = config.jitter().saturation()};
}

data::cache::CacheOptions cache_of(const CacheConfig& config) {
  constexpr std::uint64_t kMebi = 20;
  return {.path = config.path(),
          .disk_bytes = config.disk_mib() << kMebi,
          .memory_bytes = config.memory_mib() << kMebi,
          .decoded_side = config.decoded_side()};
}

std::vector<train::StageOptions> stages_of(const DataConfig& config) {
  std::vector<train::StageOptions> stages;
  for (const ProgressiveConfig& each : config.progressive()) {
    stages.push_back({.side = each.side(), .end_epoch = each.until_epoch()});
  }
  return stages;
}

train::DataOptions data_of(const WorkerConfig& worker) {
  const DataConfig& config = worker.data();
  return {.format = kDataFormatWords.parse(config.format()).value(),
          .path = config.path(),
          .synthetic_images = config.synthetic_images(),
          .shift_pixels = config.shift_pixels(),
          .flip = config.flip(),
          .mixup = config.mixup(),
          .view = view_of(config),
          .mean = {config.mean().begin(), config.mean().end()},
          .deviation = {config.deviation().begin(), config.deviation().end()},
          .damaged_max = config.damaged_max(),
          .cache = cache_of(config.cache()),
          .feed = {.threads = feed_threads_of(worker),
                   .ahead = config.batches_ahead(),
                   .cpus = feed_cpus_of(worker)},
          .progressive = stages_of(config)};
}

train::UpdateOptions update_of(const WorkerConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const auto& step_epochs = optimizer.schedule().step_epochs();
  return {.local_steps = config.train().local_steps(),
          .momentum = optimizer.momentum(),
          .weight_decay = optimizer.weight_decay(),
          .decay_bias = optimizer.decay_bias(),
          .exclude_bias_from_lars = needs_whole_keys(parse_rule_kind(optimizer.rule()).value()),
          .loss_scale = loss_scaler_of(config.train()),
          .accumulate = config.train().accumulate(),
          .label_smoothing = config.train().label_smoothing(),
          .schedule = schedule_of(optimizer),
          .drop_epochs = {step_epochs.begin(), step_epochs.end()}};
}

// Of all workers: through the configuration's servers, or in this process where there are none.
Result<std::unique_ptr<train::GradientExchange>> make_shared(const WorkerConfig& config,
                                                             const ClientOptions& client,
                                                             const std::vector<KeySpec>& keys) {
  if (config.servers_size() == 0) {
    return train::make_local_exchange(keys, client.job.rule, client.job.lars, client.job.loss_scale,
                                      client.job.adaptive, client.job.clip_norm);
  }
  const LateNotice notice(
      kPatience, fmt::format("phub-worker: waiting for {} and the {} workers of job \"{}\", for {} "
                             "ms at most (timeout_ms)",
                             fmt::join(config.servers(), ", "), config.workers(), config.job(),
                             config.timeout_ms()));
  PHUB_ASSIGN_OR_RETURN(auto exchange, train::make_remote_exchange(client, keys));
  spdlog::info("joined job={} worker={}/{} transport={} reason={}", log_value(config.job()),
               exchange->facts().worker_index, exchange->facts().workers,
               exchange->facts().transport, log_value(exchange->facts().transport_reason));
  return exchange;
}

bool pushes_weights(const WorkerConfig& config) {
  return train::parse_payload(config.train().payload()) == train::Payload::kWeights;
}

// Each worker makes steps of its own; what they share follows the outer rule.
Result<std::unique_ptr<train::GradientExchange>> make_local_steps(
    const WorkerConfig& config, const std::vector<KeySpec>& keys, const std::stop_token& stop,
    const client::PeerListens& peers) {
  const OuterConfig& outer = config.train().outer();
  ClientOptions client = client_of(config);
  client.stop_joining = stop;
  client.peers = peers;
  PlanInput plan{.key_elements = {},
                 .wire_type = client.job.wire_type,
                 .chunk_bytes = client.job.chunk_bytes,
                 .cores_per_server = {1}};
  for (const KeySpec& key : keys) plan.key_elements.push_back(key.elements);
  PHUB_ASSIGN_OR_RETURN(auto fragments, train::fragments_of(plan, outer.fragments()));
  PHUB_ASSIGN_OR_RETURN(auto shared, make_shared(config, client, train::outer_keys(keys)));
  train::LocalStepsParts parts{
      .own = train::make_local_exchange(keys, parse_rule_kind(config.optimizer().rule()).value(),
                                        own_lars(config.optimizer()), {},
                                        adaptive_of(config.optimizer())),
      .outer = std::move(shared)};
  const train::OuterScheduleOptions schedule{.local_steps = config.train().local_steps(),
                                             .fragments = outer.fragments(),
                                             .overlap_steps = outer.overlap_steps()};
  if (pushes_weights(config)) {
    return train::make_elastic_exchange(
        std::move(parts), keys,
        {.schedule = schedule, .fragments = std::move(fragments), .hyper = client.job.hyper});
  }
  return train::make_delta_exchange(std::move(parts), {.schedule = schedule,
                                                       .fragments = std::move(fragments),
                                                       .hyper = client.job.hyper,
                                                       .mix = mix_of(outer)});
}

}  // namespace

ClientOptions client_of(const WorkerConfig& config) {
  return {.servers = {config.servers().begin(), config.servers().end()},
          .job = job_of(config),
          .worker_index = config.worker_index(),
          .transport = config.transport(),
          .links = {.verbs_devices = {config.verbs_devices().begin(), config.verbs_devices().end()},
                    .verbs_gid_index = config.has_verbs_gid_index()
                                           ? std::optional(config.verbs_gid_index())
                                           : std::nullopt,
                    .tcp_congestion_control = config.tcp_congestion_control(),
                    .tcp_buffer_kib = config.tcp_buffer_kib()},
          .compress = compress_of(config.train()),
          .timeout = std::chrono::milliseconds(config.timeout_ms()),
          .security = security_of(config.security())};
}

Result<nn::Description> network_of(const ModelConfig& model) {
  if (model.has_file()) return nn::load_network(model.file());
  nn::ModelOptions options{.classes = model.classes(), .zero_gamma = model.zero_gamma()};
  if (model.has_image()) {
    const ImageConfig& image = model.image();
    options.image = nn::Shape{image.channels(), image.height(),
                              image.has_width() ? image.width() : image.height()};
  }
  PHUB_ASSIGN_OR_RETURN(nn::Graph graph, nn::make_model(model.name(), options));
  return nn::Description{model.name(), std::move(graph)};
}

train::SessionOptions session_of(const WorkerConfig& config, nn::Description network,
                                 bool verbose) {
  return {.model = std::move(network.name),
          .graph = std::move(network.graph),
          .executor = {.backend = train::parse_backend_kind(config.train().backend()).value(),
                       .compute_type = compute_type_of(config.train()),
                       .batch = config.train().batch(),
                       .threads = threads_of(config),
                       .groups = config.train().groups()},
          .gpu_direct = train::parse_gpu_direct(config.train().gpu_direct()).value(),
          .data = data_of(config),
          .update = update_of(config),
          .epochs = config.train().epochs(),
          .max_steps = config.train().max_steps(),
          .workers = config.workers(),
          .seed = config.train().seed(),
          .servers_weigh = job_of(config).rounds.weight == PushWeight::kSamples,
          .evaluate = config.train().evaluate(),
          .checkpoint = {.path = config.train().checkpoint(),
                         .every_steps = config.train().checkpoint_steps(),
                         .last = config.train().checkpoint_last(),
                         .best = config.train().checkpoint_best(),
                         .snapshot = config.train().snapshot(),
                         .resume = config.train().resume(),
                         .recovers = config.train().recover_s() > 0,
                         .restart_momentum = config.train().restart_momentum()},
          .report = {.metrics = config.train().metrics(),
                     .tensorboard = config.train().tensorboard(),
                     .print = verbose ? train::ReportOptions::Print::kAlways
                                      : train::ReportOptions::Print::kFirstWorker,
                     .bar = isatty(STDERR_FILENO) == 1}};
}

train::CudaOptions cuda_of(const WorkerConfig& config, const CudaChoice& choice) {
  train::CudaOptions options = cuda_options(choice, config.train().device());
  options.executor.devices = {config.train().devices().begin(), config.train().devices().end()};
  options.executor.timeout = std::chrono::milliseconds(config.timeout_ms());
  return options;
}

Result<std::unique_ptr<train::GradientExchange>> make_exchange(const WorkerConfig& config,
                                                               const std::vector<KeySpec>& keys,
                                                               const std::stop_token& stop,
                                                               const client::PeerListens& peers) {
  if (train::parse_payload(config.train().payload()) == train::Payload::kGradient) {
    ClientOptions client = client_of(config);
    client.stop_joining = stop;
    client.peers = peers;
    client.joins_after_first = config.train().recover_s() > 0;
    if (client.joins_after_first && config.workers() == 1) client.worker_index = 0;
    return make_shared(config, client, keys);
  }
  return make_local_steps(config, keys, stop, peers);
}

}  // namespace phub
