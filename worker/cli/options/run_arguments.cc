#include "worker/cli/options/run_arguments.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/rule.h"
#include "common/config/config.h"
#include "common/job/rack_list.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct FieldPlace {
  Message* message;
  const FieldDescriptor* field;
};

// Of "train.epochs": of the field epochs in the message that train is, which is made.
FieldPlace place_of(Message& message, std::string_view path) {
  const std::size_t dot = path.find('.');
  const FieldDescriptor* const field =
      message.GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  PHUB_CHECK(field != nullptr, "a field of the configuration");
  if (dot == std::string_view::npos) return {&message, field};
  return place_of(*message.GetReflection()->MutableMessage(&message, field), path.substr(dot + 1));
}

// An option whose value is that of a field of the configuration.
void add_override(CLI::App& command, RunArguments& o, const char* name, const char* path,
                  const char* type, const char* text) {
  const auto add =
      [&]<typename Value>(void (Reflection::*set)(Message*, const FieldDescriptor*, Value) const) {
        // Nothing: an empty text, which is no number.
        const auto store = [&o, path, set](const std::optional<Value>& value) {
          if (!value) return;
          const auto [message, field] = place_of(o.overrides, path);
          (message->GetReflection()->*set)(message, field, *value);
        };
        command.add_option_function<std::optional<Value>>(name, store, text)->type_name(type);
      };
  WorkerConfig any;
  switch (place_of(any, path).field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return add(&Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_UINT32:
      return add(&Reflection::SetUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return add(&Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return add(&Reflection::SetFloat);
    default:
      return add(&Reflection::SetString);
  }
}

void apply_job(const RunArguments& o, WorkerConfig& config) {
  if (o.local || !o.servers.empty()) config.clear_servers();
  if (o.local) {
    config.set_workers(1);
    config.clear_worker_index();
    config.clear_wire_type();
    config.mutable_train()->clear_snapshot();
    config.mutable_train()->clear_recover_s();
    config.mutable_train()->clear_share();
  }
  for (const std::string& server : o.servers) config.add_servers(server);
}

// The number of workers is their sum.
Status apply_racks(const RunArguments& o, WorkerConfig& config) {
  if (o.racks.empty()) return {};
  const auto racks = parse_racks(o.racks);
  if (!racks) return racks.error().with_context("--racks");
  config.clear_racks();
  std::uint32_t workers = 0;
  for (const RackSpec& rack : *racks) {
    JobRackConfig& added = *config.add_racks();
    added.set_name(rack.name);
    added.set_workers(rack.workers);
    workers += rack.workers;
  }
  if (!o.overrides.has_workers()) config.set_workers(workers);
  return {};
}

Status apply_security(const RunArguments& o, WorkerConfig& config) {
  if (o.credentials.empty() || o.local) return {};
  PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(o.credentials));
  ClientSecurityConfig& security = *config.mutable_security();
  security.set_ca(files.tls.ca);
  security.set_certificate(files.tls.certificate);
  security.set_key(files.tls.key);
  security.set_token_file(files.token);
  security.set_nonce_file(files.token.empty() ? files.nonce : "");
  return {};
}

Status apply_loss_scale(const RunArguments& o, WorkerConfig& config) {
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

// What the file says of its own rule means nothing for another one.
void apply_rule(const OptimizerConfig& given, OptimizerConfig& optimizer) {
  const auto rule = parse_rule_kind(given.rule());
  if (!given.has_rule() || !rule) return;
  if (!has_momentum(*rule) && !given.has_momentum()) optimizer.clear_momentum();
  if (!has_betas(*rule)) {
    optimizer.clear_beta1();
    optimizer.clear_beta2();
  }
  if (!is_adaptive(*rule)) optimizer.clear_epsilon();
  if (*rule == RuleKind::kLars) return;
  optimizer.clear_trust_coefficient();
  optimizer.clear_trust_epsilon();
}

void apply_devices(const CudaChoice& choice, TrainConfig& train) {
  if (choice.device) {
    train.clear_devices();
    train.set_device(*choice.device);
  }
  if (!choice.devices.empty()) {
    train.clear_device();
    train.mutable_devices()->Assign(choice.devices.begin(), choice.devices.end());
  }
}

// Of servers the file may say another number than the command line, whose word is the last.
Status check_servers(const WorkerConfig& config) {
  if (config.servers_size() > 0) return {};
  if (config.optimizer().has_ema_decay()) {
    return {Code::kInvalidArgument,
            "optimizer.ema_decay: needs servers; the average is in their snapshots"};
  }
  if (config.watch_values() != "off") {
    return {Code::kInvalidArgument,
            "watch_values: servers do that; give their addresses with --server, or remove it"};
  }
  if (config.checksums()) {
    return {
        Code::kInvalidArgument,
        "checksums: are of what servers are sent; give their addresses with --server, or remove "
        "it"};
  }
  if (config.tcp_streams() > 1) {
    return {Code::kInvalidArgument,
            "tcp_streams: are to servers; give their addresses with --server, or remove it"};
  }
  if (config.workers() > 1) {
    return {Code::kInvalidArgument,
            fmt::format("workers: {} workers need a server to meet at; start phub-server and give "
                        "its address with --server, or train alone with --workers 1",
                        config.workers())};
  }
  if (config.train().recover_s() > 0) {
    return {Code::kInvalidArgument,
            "train.recover_s: needs servers; without them nobody else can be lost"};
  }
  if (config.train().snapshot()) {
    return {Code::kInvalidArgument,
            "train.snapshot: needs servers; without them the momentum is beside the checkpoint"};
  }
  if (config.train().has_compress()) {
    return {Code::kInvalidArgument, "train.compress: needs servers; without them nothing travels"};
  }
  if (config.train().has_share()) {
    return {Code::kInvalidArgument,
            "train.share: needs servers; without them there are no others to share a batch with"};
  }
  if (config.wire_type() != "fp32") {
    return {Code::kInvalidArgument,
            "wire_type: " + config.wire_type() + " needs servers; without them nothing travels"};
  }
  return {};
}

}  // namespace

void add_exchange_options(CLI::App& command, RunArguments& o) {
  auto* server =
      command.add_option("--server", o.servers, "A server's control address (repeatable)");
  server->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name("HOST:PORT");
  command.add_flag("--local", o.local, "Train in this process alone, in fp32, without a server")
      ->excludes(server);
  const auto add = [&](const char* name, const char* field, const char* type, const char* text) {
    add_override(command, o, name, field, type, text);
  };
  add("--job", "job", "NAME", "Job to join; the same for all its workers");
  add("--workers", "workers", "N", "Number of workers in the job");
  add("--index", "worker_index", "I", "This worker's index, from 0; -1: the server chooses");
  command
      .add_option("--racks", o.racks,
                  "All racks of the job, with --server naming those of this worker's own")
      ->type_name("NAME:N,...");
  add("--rack-shape", "rack_shape", "SHAPE",
      "How racks are joined: spread, chain, multicolour, hybrid, tree, nested");
  add("--rack-hybrid-bytes", "rack_hybrid_bytes", "N", "Of hybrid: the largest key that is small");
  add("--rack-wire-type", "rack_wire_type", "TYPE", "Of sums between racks: fp32, bf16, fp16");
  add("--rack-density", "rack_compress.density", "SHARE",
      "Share of each sum's elements that goes from rack to rack; left out: all");
  command
      .add_option("--credentials", o.credentials,
                  "Folder with ca.pem, cert.pem, key.pem, token, nonce")
      ->envname("PHUB_CREDENTIALS")
      ->type_name("FOLDER");
  add("--tenant", "security.tenant", "NAME", "Whose job, where the credentials leave the choice");
  add("--transport", "transport", "KIND", "auto, shm, tcp or verbs");
  add("--timeout-ms", "timeout_ms", "N", "How long to wait for servers and for the other workers");
  add("--wire-type", "wire_type", "TYPE", "fp32, fp16 or bf16");
  add("--log-level", "log_level", "LEVEL", "trace, debug, info, warn, error or off");
}

void add_compute_options(CLI::App& command, RunArguments& o) {
  add_override(command, o, "--data", "data.path", "DIRECTORY",
               "Directory of the data set; or a URL of packed files, or URLs of shards (quoted)");
  add_override(command, o, "--batch", "train.batch", "N", "Images of one worker in one step");
  add_override(command, o, "--compute-type", "train.compute_type", "TYPE",
               "fp32, bf16 or fp16, where the backend has it");
  add_override(command, o, "--backend", "train.backend", "KIND", "onednn, cuda or reference");
  const auto set_threads = [&o](const std::string& word) {
    std::uint32_t threads = 0;
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, threads);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == end && threads > 0;
    if (!is_number && word != "auto") {
      throw CLI::ValidationError("--threads",
                                 "\"" + word + "\" is neither a number above 0 nor auto");
    }
    o.overrides.mutable_train()->set_threads(is_number ? threads : 0);
  };
  command
      .add_option_function<std::string>("--threads", set_threads,
                                        "Compute threads of this worker, or auto: its share of "
                                        "the CPUs that it may use")
      ->type_name("N");
  add_cuda_options(command, o.cuda);
  add_kernel_options(command, o.kernels);
}

void add_training_options(CLI::App& command, RunArguments& o) {
  const auto add = [&](const char* name, const char* field, const char* type, const char* text) {
    add_override(command, o, name, field, type, text);
  };
  add("--rule", "optimizer.rule", "RULE",
      "sgd, momentum, nesterov, lars, adam, adamw, adagrad or lamb; what the file sets for "
      "another rule alone is left out");
  add("--learning-rate", "optimizer.learning_rate", "RATE", "Before the schedule");
  add("--momentum", "optimizer.momentum", "SHARE", "Of momentum, nesterov and lars");
  add("--epochs", "train.epochs", "N", "Passes over the training images");
  add("--max-steps", "train.max_steps", "N", "Stop after so many steps; 0: no limit");
  add("--accumulate", "train.accumulate", "N", "Batches whose gradients make one step");
  add("--groups", "train.groups", "N", "Replicas that share this worker's batch");
  add("--share", "train.share", "WEIGHT", "Of the batch of all workers: a number, or auto");
  add("--payload", "train.payload", "WHAT",
      "What is pushed: gradient, or delta or weights after local steps");
  add("--local-steps", "train.local_steps", "N",
      "With delta and weights: steps from one push to the next");
  command.add_option("--loss-scale", o.loss_scale, "A fixed factor, or the word dynamic")
      ->type_name("FACTOR");
  add("--compress", "train.compress.encoding", "HOW",
      "Push less of each gradient: sparse (its largest elements), int8, int4, or auto; the rest "
      "later");
  add("--density", "train.compress.density", "SHARE", "With sparse: so much of each gradient");
  add("--watch-values", "watch_values", "WHAT",
      "Who pushes NaNs and infinities: off, name (servers tell it), or fail (and end the job)");
  command.add_flag_callback(
      "--checksums", [&o] { o.overrides.set_checksums(true); },
      "A checksum goes with each pushed chunk; another one at the server ends the job");
  add("--tcp-streams", "tcp_streams", "N",
      "Connections by tcp to each core of a server, for links that are long and fast");
  add("--seed", "train.seed", "N", "Seed of parameters, order and augmentation");
  add("--metrics", "train.metrics", "FILE", "Write metrics to this file, one JSON object a line");
  add("--tensorboard", "train.tensorboard", "FOLDER", "Write event files for TensorBoard");
  add("--checkpoint", "train.checkpoint", "FILE", "Write the model to this safetensors file");
  add("--checkpoint-steps", "train.checkpoint_steps", "N",
      "Write it also after every so many steps");
  add("--checkpoint-last", "train.checkpoint_last", "N",
      "Keep so many of the last ones, as NAME.step-STEP.safetensors");
  command.add_flag_callback(
      "--checkpoint-best", [&o] { o.overrides.mutable_train()->set_checkpoint_best(true); },
      "Keep the one with the highest test accuracy, as NAME.best.safetensors");
  command.add_flag_callback(
      "--snapshot", [&o] { o.overrides.mutable_train()->set_snapshot(true); },
      "With each checkpoint, have the servers take a snapshot");
  add("--resume", "train.resume", "FILE", "Go on from this safetensors file");
  add("--recover", "train.recover_s", "SECONDS",
      "Seconds to wait after a loss for what is missing, and then go on from the last checkpoint; "
      "needs --index, --checkpoint, --checkpoint-steps and --snapshot");
  command.add_flag_callback(
      "--restart-momentum", [&o] { o.overrides.mutable_train()->set_restart_momentum(true); },
      "Resume with a momentum of 0");
}

Result<WorkerConfig> load_run(const RunArguments& arguments) {
  Status wrong_in_file;
  PHUB_ASSIGN_OR_RETURN(WorkerConfig config,
                        load_worker_config(arguments.config_path, wrong_in_file));
  auto run = override_run(std::move(config), arguments);
  // What no option has mended is in the file, at its place there.
  const bool is_in_file =
      !run && !wrong_in_file.ok() && wrong_in_file.message().ends_with(run.error().message());
  return is_in_file ? Result<WorkerConfig>(wrong_in_file) : run;
}

Result<WorkerConfig> override_run(WorkerConfig config, const RunArguments& arguments) {
  apply_job(arguments, config);
  config.MergeFrom(arguments.overrides);
  apply_rule(arguments.overrides.optimizer(), *config.mutable_optimizer());
  apply_devices(arguments.cuda, *config.mutable_train());
  PHUB_RETURN_IF_ERROR(apply_racks(arguments, config));
  PHUB_RETURN_IF_ERROR(apply_loss_scale(arguments, config));
  PHUB_RETURN_IF_ERROR(apply_security(arguments, config));
  const bool is_cuda = config.train().backend() == "cuda";
  PHUB_RETURN_IF_ERROR(validate(config));
  PHUB_RETURN_IF_ERROR(check_cuda_choice(arguments.cuda, is_cuda));
  PHUB_RETURN_IF_ERROR(
      check_kernel_arguments(arguments.kernels, config.train().backend() == "onednn"));
  PHUB_RETURN_IF_ERROR(check_servers(config));
  return config;
}

}  // namespace phub
