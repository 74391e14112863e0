#include "worker/cli/options/run_arguments.h"

#include <fmt/core.h>

#include <charconv>
#include <utility>

#include "common/config/config.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

void apply_job(const RunArguments& o, WorkerConfig& config) {
  if (o.local || !o.servers.empty()) config.clear_servers();
  if (o.local) {
    config.set_workers(1);
    config.clear_worker_index();
    config.clear_wire_type();
    config.mutable_train()->clear_snapshot();
  }
  for (const std::string& server : o.servers) config.add_servers(server);
  if (o.job) config.set_job(*o.job);
  if (o.workers) config.set_workers(*o.workers);
  if (o.index) config.set_worker_index(*o.index);
  if (o.transport) config.set_transport(*o.transport);
  if (o.wire_type) config.set_wire_type(*o.wire_type);
  if (o.log_level) config.set_log_level(*o.log_level);
}

Status apply_security(const RunArguments& o, WorkerConfig& config) {
  if (o.tenant) config.mutable_security()->set_tenant(*o.tenant);
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

void apply_train(const RunArguments& o, WorkerConfig& config) {
  TrainConfig& train = *config.mutable_train();
  if (o.data) config.mutable_data()->set_path(*o.data);
  if (o.epochs) train.set_epochs(*o.epochs);
  if (o.max_steps) train.set_max_steps(*o.max_steps);
  if (o.batch) train.set_batch(*o.batch);
  if (o.compute_type) train.set_compute_type(*o.compute_type);
  if (o.backend) train.set_backend(*o.backend);
  if (o.cuda.device) {
    train.clear_devices();
    train.set_device(*o.cuda.device);
  }
  if (!o.cuda.devices.empty()) {
    train.clear_device();
    train.mutable_devices()->Assign(o.cuda.devices.begin(), o.cuda.devices.end());
  }
  if (o.threads) train.set_threads(*o.threads);
  if (o.accumulate) train.set_accumulate(*o.accumulate);
  if (o.seed) train.set_seed(*o.seed);
  if (o.metrics) train.set_metrics(*o.metrics);
  if (o.tensorboard) train.set_tensorboard(*o.tensorboard);
  if (o.checkpoint_steps) train.set_checkpoint_steps(*o.checkpoint_steps);
  if (o.snapshot) train.set_snapshot(true);
  if (o.checkpoint) train.set_checkpoint(*o.checkpoint);
  if (o.resume) train.set_resume(*o.resume);
  if (o.restart_momentum) train.set_restart_momentum(true);
}

Status check_local(const WorkerConfig& config) {
  if (config.servers_size() > 0) return {};
  if (config.workers() > 1) {
    return {Code::kInvalidArgument,
            fmt::format("workers: {} workers need a server to meet at; start phub-server and give "
                        "its address with --server, or train alone with --workers 1",
                        config.workers())};
  }
  if (config.train().snapshot()) {
    return {Code::kInvalidArgument,
            "train.snapshot: needs servers; without them the momentum is beside the checkpoint"};
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
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    add_override(command, name, value, type, text);
  };
  add("--job", o.job, "NAME", "Job to join; the same for all its workers");
  add("--workers", o.workers, "N", "Number of workers in the job");
  add("--index", o.index, "I", "This worker's index, from 0; -1: the server chooses");
  command
      .add_option("--credentials", o.credentials,
                  "Folder with ca.pem, cert.pem, key.pem, token, nonce")
      ->envname("PHUB_CREDENTIALS")
      ->type_name("FOLDER");
  add("--tenant", o.tenant, "NAME", "Whose job, where the credentials leave the choice");
  add("--transport", o.transport, "KIND", "auto, shm, tcp or verbs");
  add("--wire-type", o.wire_type, "TYPE", "fp32, fp16 or bf16");
  add("--log-level", o.log_level, "LEVEL", "trace, debug, info, warn, error or off");
}

void add_compute_options(CLI::App& command, RunArguments& o) {
  add_override(command, "--data", o.data, "DIRECTORY", "Where the files of the data set are");
  add_override(command, "--batch", o.batch, "N", "Images of one worker in one step");
  add_override(command, "--compute-type", o.compute_type, "TYPE",
               "fp32, bf16 or fp16, where the backend has it");
  add_override(command, "--backend", o.backend, "KIND", "onednn, cuda or reference");
  add_override(command, "--threads", o.threads, "N", "Compute threads of this worker");
  add_cuda_options(command, o.cuda);
  add_kernel_options(command, o.kernels);
}

void add_training_options(CLI::App& command, RunArguments& o) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    add_override(command, name, value, type, text);
  };
  add("--epochs", o.epochs, "N", "Passes over the training images");
  add("--max-steps", o.max_steps, "N", "Stop after so many steps; 0: no limit");
  add("--accumulate", o.accumulate, "N", "Batches whose gradients make one step");
  add("--loss-scale", o.loss_scale, "FACTOR", "A fixed factor, or the word dynamic");
  add("--seed", o.seed, "N", "Seed of parameters, order and augmentation");
  add("--metrics", o.metrics, "FILE", "Write metrics to this file, one JSON object a line");
  add("--tensorboard", o.tensorboard, "FOLDER", "Write event files for TensorBoard");
  add("--checkpoint", o.checkpoint, "FILE", "Write the model to this safetensors file");
  add("--checkpoint-steps", o.checkpoint_steps, "N", "Write it also after every so many steps");
  command.add_flag("--snapshot", o.snapshot,
                   "With each checkpoint, have the servers take a snapshot");
  add("--resume", o.resume, "FILE", "Go on from this safetensors file");
  command.add_flag("--restart-momentum", o.restart_momentum, "Resume with a momentum of 0");
}

Result<WorkerConfig> load_run(const RunArguments& arguments) {
  PHUB_ASSIGN_OR_RETURN(WorkerConfig config, load_worker_config(arguments.config_path));
  return override_run(std::move(config), arguments);
}

Result<WorkerConfig> override_run(WorkerConfig config, const RunArguments& arguments) {
  apply_job(arguments, config);
  apply_train(arguments, config);
  PHUB_RETURN_IF_ERROR(apply_loss_scale(arguments, config));
  PHUB_RETURN_IF_ERROR(apply_security(arguments, config));
  const bool is_cuda = config.train().backend() == "cuda";
  PHUB_RETURN_IF_ERROR(validate(config));
  PHUB_RETURN_IF_ERROR(check_cuda_choice(arguments.cuda, is_cuda));
  PHUB_RETURN_IF_ERROR(
      check_kernel_arguments(arguments.kernels, config.train().backend() == "onednn"));
  PHUB_RETURN_IF_ERROR(check_local(config));
  return config;
}

}  // namespace phub
