// What makes sense in a WorkerConfig.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/config/check.h"
#include "common/config/compress.h"
#include "common/config/config.h"
#include "common/config/data.h"
#include "common/config/job.h"
#include "common/config/model_names.h"
#include "common/config/payload.h"
#include "common/config/racks.h"
#include "common/config/rounds.h"
#include "common/plan/plan.h"

namespace phub {
namespace {

constexpr std::uint32_t kChunkKibMin = 4;  // what servers take
constexpr std::uint32_t kChunkKibMax = 4096;
constexpr std::uint32_t kDayMs = 24U * 3600 * 1000;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::uint32_t kClassesMax = 1'000'000;
constexpr std::uint32_t kBatchMax = 65'536;
constexpr std::uint32_t kThreadsMax = 1024;
constexpr std::uint32_t kAccumulateMax = 4096;
constexpr std::uint32_t kRecoverSecondsMax = 86'400;

template <typename Number>
void check_number(ConfigCheck& check, std::string_view field, Number value, bool is_right,
                  std::string_view wanted) {
  check.require(std::isfinite(value) && is_right, field,
                fmt::format("{} is not {}", value, wanted));
}

void check_model(const ModelConfig& model, ConfigCheck check) {
  check.one_of("name", model.name(), kModelNames);
  for (const char* const field : {"name", "classes", "image", "zero_gamma"}) {
    check.unused_unless(!model.has_file(), field, "with file, which describes all of it");
  }
  check.require(!model.has_file() || !model.file().empty(), "file",
                "is empty; give a network description, or remove it");
  if (model.has_classes()) check.in_range("classes", model.classes(), 2U, kClassesMax);
  if (model.has_image()) {
    ConfigCheck image = check.nested("image", model.image());
    image.in_range("channels", model.image().channels(), 1U, kPixelsMax);
    image.in_range("height", model.image().height(), 1U, kPixelsMax);
    if (model.image().has_width()) {
      image.in_range("width", model.image().width(), 1U, kPixelsMax);
    }
  }
}

void check_schedule(const ScheduleConfig& schedule, ConfigCheck check) {
  check.one_of("kind", schedule.kind(), {"constant", "step", "polynomial", "cosine"});
  const bool is_step = schedule.kind() == "step";
  check.unused_unless(is_step, "step_epochs", "unless kind is \"step\"");
  check.unused_unless(is_step, "gamma", "unless kind is \"step\"");
  check.require(!is_step || schedule.step_epochs_size() > 0, "step_epochs",
                "is missing: kind \"step\" needs the epochs to step at");
  for (int i = 1; i < schedule.step_epochs_size(); ++i) {
    check.require(schedule.step_epochs(i) > schedule.step_epochs(i - 1), "step_epochs",
                  fmt::format("{} comes after {}; list them in ascending order",
                              schedule.step_epochs(i), schedule.step_epochs(i - 1)),
                  i);
  }
  check_number(check, "gamma", schedule.gamma(), schedule.gamma() > 0.0F, "above 0");
  check.unused_unless(schedule.kind() == "polynomial", "power", "unless kind is \"polynomial\"");
  check_number(check, "power", schedule.power(), schedule.power() > 0.0F, "above 0");
}

void check_adaptive(const OptimizerConfig& optimizer, RuleKind rule, ConfigCheck& check) {
  constexpr const char* kNoBetas = "unless rule is \"adam\", \"adamw\" or \"lamb\"";
  check.unused_unless(has_betas(rule), "beta1", kNoBetas);
  check.unused_unless(has_betas(rule), "beta2", kNoBetas);
  check.unused_unless(is_adaptive(rule), "epsilon",
                      rule == RuleKind::kLars
                          ? "with rule \"lars\" (set trust_epsilon)"
                          : "unless rule is \"adam\", \"adamw\", \"adagrad\" or \"lamb\"");
  const auto is_beta = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  check_number(check, "beta1", optimizer.beta1(), is_beta(optimizer.beta1()),
               "at least 0 and below 1");
  check_number(check, "beta2", optimizer.beta2(), is_beta(optimizer.beta2()),
               "at least 0 and below 1");
  const double epsilon = optimizer.epsilon();
  const bool is_epsilon = epsilon >= kEpsilonMin && epsilon <= kEpsilonMax;
  check_number(check, "epsilon", epsilon, !optimizer.has_epsilon() || is_epsilon,
               "from 1e-30 to 1e30");
}

void check_optimizer(const OptimizerConfig& optimizer, ConfigCheck check) {
  check.one_of("rule", optimizer.rule(),
               {"sgd", "momentum", "nesterov", "lars", "adam", "adamw", "adagrad", "lamb"});
  check_number(check, "learning_rate", optimizer.learning_rate(), optimizer.learning_rate() > 0.0F,
               "above 0");
  const RuleKind rule = parse_rule_kind(optimizer.rule()).value_or(RuleKind::kMomentum);
  check.unused_unless(has_momentum(rule), "momentum",
                      has_betas(rule) ? fmt::format("with rule \"{}\" (set beta1)", name_of(rule))
                                      : fmt::format("with rule \"{}\" (choose \"momentum\" or "
                                                    "\"nesterov\")",
                                                    name_of(rule)));
  check_number(check, "momentum", optimizer.momentum(),
               optimizer.momentum() >= 0.0F && optimizer.momentum() < 1.0F,
               "at least 0 and below 1");
  check_number(check, "weight_decay", optimizer.weight_decay(), optimizer.weight_decay() >= 0.0F,
               "0 or above");
  const bool is_lars = optimizer.rule() == "lars";
  check.unused_unless(is_lars, "trust_coefficient", "unless rule is \"lars\"");
  check.unused_unless(is_lars, "trust_epsilon", "unless rule is \"lars\"");
  check_number(check, "trust_coefficient", optimizer.trust_coefficient(),
               optimizer.trust_coefficient() > 0.0F, "above 0");
  check_number(check, "trust_epsilon", optimizer.trust_epsilon(), optimizer.trust_epsilon() >= 0.0F,
               "0 or above");
  check_adaptive(optimizer, rule, check);
  check_number(check, "clip_norm", optimizer.clip_norm(),
               !optimizer.has_clip_norm() || optimizer.clip_norm() > 0.0F, "above 0");
  const double ema = optimizer.ema_decay();
  check_number(check, "ema_decay", ema, !optimizer.has_ema_decay() || (ema > 0.0 && ema < 1.0),
               "above 0 and below 1");
  if (optimizer.has_schedule()) {
    check_schedule(optimizer.schedule(), check.nested("schedule", optimizer.schedule()));
  }
}

bool is_loss_scale(float value) { return value >= kLossScaleMin && value <= kLossScaleMax; }

void check_loss_scale(const LossScaleConfig& scale, ConfigCheck check) {
  check_number(check, "factor", scale.factor(), is_loss_scale(scale.factor()),
               "from 2^-10 to 2^24");
  check.unused_unless(!scale.has_dynamic(), "factor", "beside dynamic (set dynamic.initial)");
  if (scale.has_dynamic()) {
    ConfigCheck dynamic = check.nested("dynamic", scale.dynamic());
    int exponent = 0;
    const float initial = scale.dynamic().initial();
    const bool is_power = std::frexp(initial, &exponent) == 0.5F;
    check_number(dynamic, "initial", initial, is_power && is_loss_scale(initial),
                 "a power of two from 2^-10 to 2^24");
    dynamic.require(scale.dynamic().growth_steps() > 0, "growth_steps", "0 steps: give at least 1");
  }
}

void check_compute_type(const TrainConfig& train, ConfigCheck& check) {
  const bool on_cpu = train.backend() == "onednn";
  check.require(!on_cpu || train.compute_type() != "fp16", "compute_type",
                "fp16 is not offered on CPUs; use bf16 or fp32");
  check.one_of("compute_type", train.compute_type(), {"fp32", "bf16", "fp16"});
  check.require(train.backend() != "reference" || train.compute_type() == "fp32", "compute_type",
                "the reference backend computes in fp32; remove it, or choose backend \"onednn\"");
  const bool on_gpu = train.backend() == "cuda";
  check.require(!on_gpu || train.compute_type() != "fp32", "compute_type",
                "fp32 is not offered on GPUs; use bf16, or fp16 with a loss_scale");
  check.require(!on_gpu || train.compute_type() != "fp16" || train.has_loss_scale(), "compute_type",
                "fp16 loses small gradients: add loss_scale { factor: 1024 } to train, or use "
                "bf16");
}

void check_devices(const TrainConfig& train, ConfigCheck& check) {
  check.unused_unless(train.backend() == "cuda", "devices", "unless backend is \"cuda\"");
  check.unused_unless(train.devices_size() == 0, "device", "beside devices");
  std::set<std::uint32_t> seen;
  for (int i = 0; i < train.devices_size(); ++i) {
    check.require(seen.insert(train.devices(i)).second, "devices",
                  fmt::format("{} is listed twice: name each GPU once", train.devices(i)), i);
  }
  const auto count = static_cast<std::uint32_t>(std::max(train.devices_size(), 1));
  check.require(train.batch() % count == 0, "batch",
                fmt::format("{} images cannot be divided evenly by {} GPUs (devices): choose a "
                            "multiple of that, or other devices",
                            train.batch(), count));
}

void check_train(const TrainConfig& train, ConfigCheck check) {
  check.require(train.epochs() > 0, "epochs", "0 epochs train nothing; give at least 1");
  check.in_range("batch", train.batch(), 1U, kBatchMax);
  check.in_range("threads", train.threads(), 0U, kThreadsMax);
  check.in_range("accumulate", train.accumulate(), 1U, kAccumulateMax);
  check_number(check, "label_smoothing", train.label_smoothing(),
               train.label_smoothing() >= 0.0F && train.label_smoothing() < 1.0F,
               "at least 0 and below 1");
  if (train.has_loss_scale()) {
    check_loss_scale(train.loss_scale(), check.nested("loss_scale", train.loss_scale()));
  }
  check.unused_unless(!train.resume().empty(), "restart_momentum", "without resume");
  check.unused_unless(!train.checkpoint().empty(), "checkpoint_steps", "without checkpoint");
  check.unused_unless(!train.checkpoint().empty(), "checkpoint_last", "without checkpoint");
  check.unused_unless(!train.checkpoint().empty(), "checkpoint_best", "without checkpoint");
  check.require(!train.checkpoint_best() || train.evaluate(), "checkpoint_best",
                "contradicts evaluate: false, without which nobody knows which is the best; remove "
                "one of the two");
  check.unused_unless(!train.checkpoint().empty(), "snapshot", "without checkpoint");
  check.in_range("recover_s", train.recover_s(), 0U, kRecoverSecondsMax);
  if (train.recover_s() > 0) {
    check.require(train.snapshot() && train.checkpoint_steps() > 0, "recover_s",
                  "needs snapshot and checkpoint_steps: the training goes back to the last "
                  "checkpoint, with what the servers kept of that step");
    check.require(train.resume().empty(), "recover_s",
                  "contradicts resume: such a training goes on from its own checkpoint, if that is "
                  "there; give that file's name as checkpoint, and leave resume out");
    check.require(!train.has_share(), "recover_s",
                  "contradicts share, on which all workers agree before they join; remove one of "
                  "the two");
    check.require(train.compress().encoding() != "auto", "recover_s",
                  "contradicts compress.encoding: \"auto\", which all workers measure together at "
                  "their start; name an encoding");
  }
  check.one_of("backend", train.backend(), {"onednn", "reference", "cuda"});
  if (train.has_compute_type()) check_compute_type(train, check);
  const bool is_cuda = train.backend() == "cuda";
  check.unused_unless(is_cuda, "device", "unless backend is \"cuda\"");
  check_devices(train, check);
  check.in_range("groups", train.groups(), 1U, kThreadsMax);
  check.require(!is_cuda || train.groups() == 1, "groups",
                "contradicts backend: \"cuda\"; use devices for several GPUs, or remove it");
  check.require(train.groups() == 0 || train.batch() % train.groups() == 0, "groups",
                fmt::format("{} do not divide {} images (batch) evenly: choose a batch that is a "
                            "multiple of that, or other groups",
                            train.groups(), train.batch()));
  check.require(train.groups() == 1 || !train.has_share(), "groups",
                "contradicts share: the part of the batch that it gives may not be divisible; "
                "remove one of them");
  check.unused_unless(is_cuda, "gpu_direct", "unless backend is \"cuda\"");
  check.one_of("gpu_direct", train.gpu_direct(), {"auto", "required", "off"});
  check.require(train.gpu_direct() != "required" || train.devices_size() <= 1, "gpu_direct",
                "\"required\" contradicts devices: several GPUs push from the host's memory; use "
                "\"auto\", or one GPU");
  check.require(
      train.gpu_direct() != "required" || train.accumulate() == 1, "gpu_direct",
      "\"required\" contradicts accumulate: gradients are added up on the host before they "
      "are pushed; use \"auto\", or remove accumulate");
  check.unused_unless(!is_cuda, "threads", "with backend \"cuda\"");
  check.require(train.backend() != "reference" || train.threads() <= 1, "threads",
                "the reference backend computes on one thread; remove it");
}

void check_security(const WorkerConfig& config, ConfigCheck check) {
  const ClientSecurityConfig& security = config.security();
  check.require(security.certificate().empty() == security.key().empty(), "certificate",
                "certificate and key go together: give both or none");
  check.require(security.certificate().empty() || !security.ca().empty(), "ca",
                "is missing: a certificate is for TLS, which needs the CA that signs servers'");
  check.require(
      !security.require_encryption() || config.transport() != "verbs", "require_encryption",
      "contradicts transport: \"verbs\", which cannot be encrypted; use tcp, or remove one");
  check.require(security.token_file().empty() || security.nonce_file().empty(), "nonce_file",
                "is instead of token_file; give one of them");
}

// What train.recover_s asks of the job.
void check_recovery(const WorkerConfig& config, ConfigCheck& check) {
  if (config.train().recover_s() == 0) return;
  check.require(config.workers() == 1 || config.worker_index() >= 0, "worker_index",
                "is missing: with train.recover_s a worker that is started again takes its own "
                "place; give each its index (--index)");
  check.require(config.racks_size() == 0, "racks",
                "contradict train.recover_s: a worker restores the servers of its own rack alone; "
                "leave one out");
  check.require(config.security().nonce_file().empty(), "security",
                "nonce_file contradicts train.recover_s: a nonce is of one job, and a lost one is "
                "made anew; use a token_file");
}

void check_job(const WorkerConfig& config, ConfigCheck& check) {
  std::set<std::string> servers;
  for (int i = 0; i < config.servers_size(); ++i) {
    check.address("servers", config.servers(i), 1, i);
    check.require(servers.insert(config.servers(i)).second, "servers",
                  fmt::format("\"{}\" is listed twice", config.servers(i)), i);
  }
  check.require(!config.job().empty() && config.job().size() <= kNameBytesMax, "job",
                fmt::format("a name has 1 to {} bytes of UTF-8", std::size_t{kNameBytesMax}));
  check.in_range("workers", config.workers(), 1U, kMaxWorkers);
  check_job_racks(config, check);
  check.in_range("worker_index", config.worker_index(), -1,
                 static_cast<std::int32_t>(config.workers()) - 1);
  check_recovery(config, check);
  check.one_of("transport", config.transport(), {"auto", "shm", "tcp", "verbs"});
  const bool may_use_verbs = config.transport() == "auto" || config.transport() == "verbs";
  check.unused_unless(may_use_verbs, "verbs_devices", "with this transport");
  check.unused_unless(may_use_verbs, "verbs_gid_index", "with this transport");
  check.in_range("verbs_gid_index", config.verbs_gid_index(), 0U, 255U);
  const bool wants_gpu_direct = config.train().gpu_direct() == "required";
  check.require(!wants_gpu_direct || may_use_verbs, "transport",
                "contradicts train.gpu_direct: \"required\", which needs verbs: use \"verbs\", or "
                "gpu_direct: \"auto\"");
  const bool may_use_tcp = config.transport() == "auto" || config.transport() == "tcp";
  check.unused_unless(may_use_tcp, "tcp_buffer_kib", "with this transport");
  if (config.tcp_buffer_kib() != 0) {
    check.in_range("tcp_buffer_kib", config.tcp_buffer_kib(), kTcpBufferKibMin, kTcpBufferKibMax);
  }
  check.unused_unless(may_use_tcp, "tcp_streams", "with this transport");
  check.in_range("tcp_streams", config.tcp_streams(), 1U, kMaxTcpStreams);
  check.one_of("wire_type", config.wire_type(), {"fp32", "fp16", "bf16"});
  check.one_of("order", config.order(), {"deterministic", "arrival"});
  check.one_of("watch_values", config.watch_values(), {"off", "name", "fail"});
  check.require(!config.checksums() || !wants_gpu_direct, "checksums",
                "contradicts train.gpu_direct: \"required\": they are made by the processor, which "
                "does not read a GPU's memory; use gpu_direct: \"auto\"");
  check.in_range("chunk_kib", config.chunk_kib(), kChunkKibMin, kChunkKibMax);
  check.in_range("timeout_ms", config.timeout_ms(), 1U, kDayMs);
  check.log_level("log_level", config.log_level());
}

}  // namespace

Status validate(const WorkerConfig& config, const std::string& file,
                const ConfigCheck::Tree* tree) {
  Status status;
  ConfigCheck check(file, tree, config, status);
  check_job(config, check);
  if (config.has_rounds()) check_rounds(config, check.nested("rounds", config.rounds()));
  if (config.has_security()) {
    check_security(config, check.nested("security", config.security()));
  }
  // The parts are checked with their defaults too: data.path has none.
  check_model(config.model(), check.nested("model", config.model()));
  check_data(config.data(), check.nested("data", config.data()));
  check_optimizer(config.optimizer(), check.nested("optimizer", config.optimizer()));
  check_train(config.train(), check.nested("train", config.train()));
  check_pairs(config, check.nested("train", config.train()));
  check_progressive(config, check.nested("data", config.data()));
  check_payload(config, check.nested("train", config.train()));
  check_compress(config, check.nested("train", config.train()));
  check_rack_compress(config, check);
  if (status.ok()) check_contradictions(config, check);
  return status;
}

}  // namespace phub
