// phub-worker: trains a network, alone or with others through PHub servers.
#include <fmt/core.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/credentials_folder.h"
#include "worker/bench_command.h"
#include "worker/model_command.h"
#include "worker/nn/description.h"
#include "worker/nn/models.h"
#include "worker/stop_signal.h"
#include "worker/train/session.h"

namespace phub {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr const char* kExamples = R"(
Examples:
  Train alone, in this process:
    phub-worker train configs/mnist.textproto --local

  Train with two workers through a server on this machine:
    phub-server &
    phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 --workers 2 &
    phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 --workers 2

Worker 0 prints a line for each epoch: the loss and the accuracy over its own training images, the
accuracy on the test images, the images per second of all workers together, and the time it spent
waiting for the exchange. The first SIGINT or SIGTERM ends the training after the current step,
writes the checkpoint and leaves the job, which ends it for the others; a second ends the process.
Exit status: 0 trained (or stopped when asked to), 1 failed, 2 wrong usage or configuration.)";

// What the command line overrides.
struct Overrides {
  std::string config_path;
  std::vector<std::string> servers;
  std::optional<std::string> job, transport, wire_type, compute_type, data, metrics, checkpoint,
      resume, log_level, tenant, loss_scale;
  std::string credentials;
  std::optional<std::int32_t> index;
  std::optional<std::uint32_t> workers, epochs, max_steps, batch, threads, accumulate;
  std::optional<std::uint64_t> seed;
  bool local = false;
  bool verbose = false;
};

void add_options(CLI::App& train, Overrides& o) {
  train.add_option("CONFIG", o.config_path, "What to train: see configs/ and proto/config.proto")
      ->required()
      ->type_name("");
  auto* server = train.add_option("--server", o.servers, "A server's control address (repeatable)");
  server->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name("HOST:PORT");
  train.add_flag("--local", o.local, "Train in this process alone, in fp32, without a server")
      ->excludes(server);
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    train.add_option(name, value, text)->type_name(type);
  };
  add("--job", o.job, "NAME", "Job to join; the same for all its workers");
  add("--workers", o.workers, "N", "Number of workers in the job");
  add("--index", o.index, "I", "This worker's index, from 0; -1: the server chooses");
  train
      .add_option("--credentials", o.credentials,
                  "Folder with ca.pem, cert.pem, key.pem, token, nonce")
      ->envname("PHUB_CREDENTIALS")
      ->type_name("FOLDER");
  add("--tenant", o.tenant, "NAME", "Whose job, where the credentials leave the choice");
  add("--transport", o.transport, "KIND", "auto, shm, tcp or verbs");
  add("--wire-type", o.wire_type, "TYPE", "fp32, fp16 or bf16");
  add("--compute-type", o.compute_type, "TYPE", "fp32, or bf16 (mixed precision)");
  add("--data", o.data, "DIRECTORY", "Where the files of the data set are");
  add("--epochs", o.epochs, "N", "Passes over the training images");
  add("--max-steps", o.max_steps, "N", "Stop after so many steps; 0: no limit");
  add("--batch", o.batch, "N", "Images of one worker in one step");
  add("--accumulate", o.accumulate, "N", "Batches whose gradients make one step");
  add("--loss-scale", o.loss_scale, "FACTOR", "A fixed factor, or the word dynamic");
  add("--threads", o.threads, "N", "Compute threads of this worker");
  add("--seed", o.seed, "N", "Seed of parameters, order and augmentation");
  add("--metrics", o.metrics, "FILE", "Write metrics to this file, one JSON object a line");
  add("--checkpoint", o.checkpoint, "FILE", "Write the model to this safetensors file");
  add("--resume", o.resume, "FILE", "Start from this safetensors file (momentum restarts)");
  add("--log-level", o.log_level, "LEVEL", "trace, debug, info, warn, error or off");
  train.add_flag("--verbose", o.verbose, "Print progress also if this is not worker 0");
}

void apply_job(const Overrides& o, WorkerConfig& config) {
  if (o.local || !o.servers.empty()) config.clear_servers();
  if (o.local) {
    config.set_workers(1);
    config.clear_worker_index();
    config.clear_wire_type();
  }
  for (const std::string& server : o.servers) config.add_servers(server);
  if (o.job) config.set_job(*o.job);
  if (o.workers) config.set_workers(*o.workers);
  if (o.index) config.set_worker_index(*o.index);
  if (o.transport) config.set_transport(*o.transport);
  if (o.wire_type) config.set_wire_type(*o.wire_type);
  if (o.log_level) config.set_log_level(*o.log_level);
}

Status apply_security(const Overrides& o, WorkerConfig& config) {
  if (o.tenant) config.mutable_security()->set_tenant(*o.tenant);
  if (o.credentials.empty() || o.local) return {};
  PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(o.credentials));
  ClientSecurityConfig& security = *config.mutable_security();
  security.set_ca(files.ca);
  security.set_certificate(files.certificate);
  security.set_key(files.key);
  security.set_token_file(files.token);
  security.set_nonce_file(files.token.empty() ? files.nonce : "");
  return {};
}

Status apply_loss_scale(const Overrides& o, WorkerConfig& config) {
  if (!o.loss_scale) return {};
  LossScaleConfig& scale = *config.mutable_train()->mutable_loss_scale();
  if (*o.loss_scale == "dynamic") {
    scale.clear_factor();
    scale.mutable_dynamic();
    return {};
  }
  float factor = 0.0F;
  const char* const end = o.loss_scale->data() + o.loss_scale->size();
  const auto parsed = std::from_chars(o.loss_scale->data(), end, factor);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return {Code::kInvalidArgument,
            "--loss-scale: \"" + *o.loss_scale + "\" is neither a number nor dynamic"};
  }
  scale.clear_dynamic();
  scale.set_factor(factor);
  return {};
}

void apply_train(const Overrides& o, WorkerConfig& config) {
  TrainConfig& train = *config.mutable_train();
  if (o.data) config.mutable_data()->set_path(*o.data);
  if (o.epochs) train.set_epochs(*o.epochs);
  if (o.max_steps) train.set_max_steps(*o.max_steps);
  if (o.batch) train.set_batch(*o.batch);
  if (o.threads) train.set_threads(*o.threads);
  if (o.compute_type) train.set_compute_type(*o.compute_type);
  if (o.accumulate) train.set_accumulate(*o.accumulate);
  if (o.seed) train.set_seed(*o.seed);
  if (o.metrics) train.set_metrics(*o.metrics);
  if (o.checkpoint) train.set_checkpoint(*o.checkpoint);
  if (o.resume) train.set_resume(*o.resume);
}

Status check_local(const WorkerConfig& config) {
  if (config.servers_size() > 0) return {};
  if (config.workers() > 1) {
    return {Code::kInvalidArgument,
            fmt::format("workers: {} workers need a server to meet at; start phub-server and give "
                        "its address with --server, or train alone with --local",
                        config.workers())};
  }
  if (config.wire_type() != "fp32") {
    return {Code::kInvalidArgument,
            "wire_type: " + config.wire_type() + " needs servers; without them nothing travels"};
  }
  return {};
}

Result<WorkerConfig> load(const Overrides& overrides) {
  PHUB_ASSIGN_OR_RETURN(WorkerConfig config, load_worker_config(overrides.config_path));
  apply_job(overrides, config);
  apply_train(overrides, config);
  PHUB_RETURN_IF_ERROR(apply_loss_scale(overrides, config));
  PHUB_RETURN_IF_ERROR(apply_security(overrides, config));
  PHUB_RETURN_IF_ERROR(validate(config));
  PHUB_RETURN_IF_ERROR(check_local(config));
  return config;
}

train::DataFormat data_format(const std::string& word) {
  if (word == "cifar10") return train::DataFormat::kCifar10;
  return word == "idx" ? train::DataFormat::kIdx : train::DataFormat::kSynthetic;
}

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

// What the job is told: of a dynamic scale each round's votes tell.
LossScale loss_scale_of(const TrainConfig& train) {
  const train::LossScalerOptions scaler = loss_scaler_of(train);
  return {scaler.kind, scaler.kind == LossScaling::kStatic ? scaler.scale : 1.0F};
}

LarsOptions lars_of(const OptimizerConfig& optimizer) {
  if (optimizer.rule() != "lars") return {};
  return {.coefficient = optimizer.trust_coefficient(), .epsilon = optimizer.trust_epsilon()};
}

// The model that the configuration names or describes.
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
  const auto& step_epochs = config.optimizer().schedule().step_epochs();
  return {.model = std::move(network.name),
          .graph = std::move(network.graph),
          .backend = train::parse_backend_kind(config.train().backend()).value(),
          .compute_type = parse_data_type(config.train().compute_type()).value(),
          .format = data_format(config.data().format()),
          .data_path = config.data().path(),
          .synthetic_images = config.data().synthetic_images(),
          .shift_pixels = config.data().shift_pixels(),
          .flip = config.data().flip(),
          .momentum = config.optimizer().momentum(),
          .weight_decay = config.optimizer().weight_decay(),
          .decay_bias = config.optimizer().decay_bias(),
          .plain_bias = config.optimizer().rule() == "lars",
          .loss_scale = loss_scaler_of(config.train()),
          .accumulate = config.train().accumulate(),
          .label_smoothing = config.train().label_smoothing(),
          .schedule = schedule_of(config.optimizer()),
          .drop_epochs = {step_epochs.begin(), step_epochs.end()},
          .epochs = config.train().epochs(),
          .max_steps = config.train().max_steps(),
          .batch = config.train().batch(),
          .workers = config.workers(),
          .seed = config.train().seed(),
          .threads = config.train().threads(),
          .evaluate = config.train().evaluate(),
          .checkpoint = config.train().checkpoint(),
          .resume = config.train().resume(),
          .metrics = config.train().metrics(),
          .print = verbose ? train::SessionOptions::Print::kAlways
                           : train::SessionOptions::Print::kFirstWorker,
          .bar = isatty(STDERR_FILENO) == 1};
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

ClientOptions client_of(const WorkerConfig& config) {
  return {.servers = {config.servers().begin(), config.servers().end()},
          .job = config.job(),
          .workers = config.workers(),
          .worker_index = config.worker_index(),
          .transport = config.transport(),
          .verbs_devices = {config.verbs_devices().begin(), config.verbs_devices().end()},
          .verbs_gid_index =
              config.has_verbs_gid_index() ? std::optional(config.verbs_gid_index()) : std::nullopt,
          .tcp_congestion_control = config.tcp_congestion_control(),
          .wire_type = parse_data_type(config.wire_type()).value(),
          .rule = parse_rule_kind(config.optimizer().rule()).value(),
          .hyper = {.learning_rate = config.optimizer().learning_rate(),
                    .momentum = config.optimizer().momentum(),
                    .gradient_scale = 0.0F},
          .lars = lars_of(config.optimizer()),
          .loss_scale = loss_scale_of(config.train()),
          .deterministic = config.order() == "deterministic",
          .chunk_bytes = config.chunk_kib() * 1024,
          .timeout = std::chrono::milliseconds(config.timeout_ms()),
          .security = security_of(config.security())};
}

Result<std::unique_ptr<train::Exchanger>> make_exchanger(const WorkerConfig& config,
                                                         const std::vector<KeySpec>& keys) {
  if (config.servers_size() == 0) {
    return train::make_local_exchanger(keys, parse_rule_kind(config.optimizer().rule()).value(),
                                       lars_of(config.optimizer()), loss_scale_of(config.train()));
  }
  PHUB_ASSIGN_OR_RETURN(auto exchanger, train::make_remote_exchanger(client_of(config), keys));
  spdlog::info("joined job={} worker={}/{} transport={} reason=\"{}\"", config.job(),
               exchanger->worker_index(), exchanger->workers(), exchanger->transport(),
               exchanger->transport_reason());
  return exchanger;
}

int fail(const Status& status, int exit_code) {
  fmt::print(stderr, "phub-worker: {}\n", status.message());
  return exit_code;
}

int train_command(const Overrides& overrides) {
  const auto config = load(overrides);
  if (!config) return fail(config.error(), kExitUsage);
  spdlog::set_level(spdlog::level::from_str(config->log_level()));
  gpr_set_log_function([](gpr_log_func_args* arguments) {
    spdlog::debug("grpc: {}", arguments->message);  // what matters comes back as a Status
  });
  auto network = network_of(config->model());
  if (!network) return fail(network.error().with_context("model"), kExitUsage);
  const auto stop = StopSignal::create();
  if (!stop) return fail(stop.error(), kExitFailed);
  const auto result = train::run_session(
      session_of(*config, std::move(*network), overrides.verbose),
      [&](const std::vector<KeySpec>& keys) { return make_exchanger(*config, keys); },
      [&] { return (*stop)->requested(); });
  if (!result) {
    // Asked to stop, the workers of a job do not leave it in the same step.
    if ((*stop)->requested() && result.error().code() != Code::kDataLoss) {
      fmt::print(stderr, "phub-worker: stopped as asked; {}\n", result.error().message());
      return 0;
    }
    const bool usage = result.error().code() == Code::kInvalidArgument;
    return fail(result.error(), usage ? kExitUsage : kExitFailed);
  }
  if (result->interrupted && (*stop)->requested()) {
    fmt::print("stopped as asked after step {}\n", result->next_step);
  } else if (result->test_accuracy >= 0.0) {
    fmt::print("test accuracy {:.2f} % after {} steps, {:.1f} s of training\n",
               100.0 * result->test_accuracy, result->next_step, result->train_seconds);
  }
  return 0;
}

}  // namespace
}  // namespace phub

int main(int argc, char** argv) {
  CLI::App app("Trains convolutional networks, exchanging gradients through PHub servers.",
               "phub-worker");
  app.require_subcommand(1);
  app.footer(phub::kExamples);
  CLI::App* train = app.add_subcommand("train", "Train the network that a configuration describes");
  train->footer(phub::kExamples);
  phub::Overrides overrides;
  phub::add_options(*train, overrides);
  phub::ModelArguments model_arguments;
  phub::BenchArguments bench_arguments;
  const CLI::App* model = phub::add_model_command(app, model_arguments);
  const CLI::App* bench = phub::add_bench_command(app, bench_arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : phub::kExitUsage;
  }
  if (model->parsed()) return phub::model_command(model_arguments);
  if (bench->parsed()) return phub::bench_command(bench_arguments);
  return phub::train_command(overrides);
}
