#include "worker/client/client_options.h"

#include <cmath>
#include <set>
#include <string>

#include "common/job/check.h"
#include "common/rendezvous/rendezvous.h"
#include "common/rpc/run_header.h"
#include "common/transport/tcp/congestion.h"
#include "worker/client/shared_steps.h"
#include "worker/compress/compressor.h"

namespace phub::client {
namespace {

// What a job that is compressed may not be otherwise: its servers say
// (common/job/contradictions.cc).
Status check_compress(const CompressOptions& compress, RuleKind rule) {
  if (!(compress.density > 0.0F && compress.density <= 1.0F)) {
    return {Code::kInvalidArgument, "compress: density " + std::to_string(compress.density) +
                                        " is no share of a key, above 0 and at most 1"};
  }
  if (!(compress.momentum >= 0.0F && compress.momentum < 1.0F)) {
    return {Code::kInvalidArgument,
            "compress: momentum " + std::to_string(compress.momentum) + " is outside [0, 1)"};
  }
  if (!compress.is_on()) return {};
  if (compress.momentum > 0.0F && state_arrays(rule) > 0) {
    return {Code::kInvalidArgument, "compress: momentum is the worker's, and rule " +
                                        std::string(name_of(rule)) +
                                        " has one too; choose rule sgd, or leave it out here"};
  }
  if (compress.momentum > 0.0F && !compress.error_feedback) {
    return {Code::kInvalidArgument,
            "compress: momentum adds up what is not pushed, and error_feedback is off; leave one "
            "of them out"};
  }
  return {};
}

}  // namespace

Status check_keys(const ClientOptions& options, const std::vector<KeySpec>& keys) {
  for (const KeySpec& key : keys) {
    const std::string fault = compress::Compressor::key_fault(key.elements, options.compress);
    if (fault.empty()) continue;
    return {Code::kInvalidArgument, "compress: key " + key.name + " " + fault};
  }
  return {};
}

JobSpec describe_job(const ClientOptions& options, const std::vector<KeySpec>& keys) {
  JobSpec job = options.job;
  job.encoding = options.compress.encoding;
  job.keys = keys;
  return job;
}

Status check_hyper(const ClientOptions& options, const Hyper& hyper) {
  const bool is_finite = std::isfinite(hyper.learning_rate) && std::isfinite(hyper.gradient_scale);
  if (!is_finite || hyper.learning_rate < 0.0F || hyper.gradient_scale < 0.0F ||
      !(hyper.momentum >= 0.0F && hyper.momentum < 1.0F) ||
      !(hyper.samples == 0.0F || are_samples(hyper.samples))) {
    return {Code::kInvalidArgument,
            "set_hyper: learning_rate and gradient_scale must be finite and not negative, momentum "
            "in [0, 1), samples 0 or from 2^-24 to 2^24"};
  }
  if (!is_elastic(options.job.rule)) return {};
  const float pushes = static_cast<float>(most_pushes(options.job.rounds, options.job.workers));
  const float mean = 1.0F / static_cast<float>(options.job.workers);
  const bool is_mean = hyper.gradient_scale == 0.0F || hyper.gradient_scale == mean;
  if (hyper.learning_rate * pushes < 1.0F && is_mean && hyper.momentum == 0.0F) return {};
  return {Code::kInvalidArgument,
          "set_hyper: rule elastic takes a learning_rate below 1 / the pushes of a round, a "
          "gradient_scale of 0 or 1 / workers, and no momentum"};
}

Status check_loss_scale(const ClientOptions& options, const std::string& call, float scale) {
  if (options.job.loss_scale.kind != LossScaling::kVoted) {
    return {Code::kFailedPrecondition, call + ": the job's loss_scale is not a voted one"};
  }
  if (std::isfinite(scale) && scale > 0.0F) return {};
  return {Code::kInvalidArgument, call + ": loss_scale must be finite and above 0"};
}

Status check_same_scale(float pushed, float voted) {
  if (pushed == voted) return {};
  return {Code::kInvalidArgument,
          "vote: loss_scale " + std::to_string(voted) + " is not " + std::to_string(pushed) +
              ", with which what was kept back was added to this round's gradients; call "
              "set_loss_scale before the first push of a round with another scale"};
}

Status check_vote(const ClientOptions& options, const Vote& vote) {
  PHUB_RETURN_IF_ERROR(check_loss_scale(options, "vote", vote.loss_scale));
  if (vote.overflow <= 1) return {};
  return {Code::kInvalidArgument, "vote: overflow must be 0 or 1"};
}

namespace {
Status check_streams(const ClientOptions& options) {
  if (options.job.tcp_streams == 1 || options.transport == "auto" || options.transport == "tcp") {
    return {};
  }
  return {Code::kInvalidArgument,
          "tcp_streams: " + std::to_string(options.job.tcp_streams) + " contradicts transport: " +
              options.transport + ", which has none; use tcp or auto, or leave one of the two out"};
}
}  // namespace

Status check_options(const ClientOptions& options) {
  if (options.servers.empty()) {
    return {Code::kInvalidArgument, "servers: empty; name at least one control address"};
  }
  const std::set<std::string> transports = {"auto", "shm", "tcp", "verbs"};
  if (!transports.contains(options.transport)) {
    return {Code::kInvalidArgument,
            "transport: \"" + options.transport + "\" is none of auto, shm, tcp, verbs"};
  }
  if (!is_run(options.security.run)) {
    return {Code::kInvalidArgument, "run: must be at most " + std::to_string(kRunBytesMax) +
                                        " printable characters of ASCII, without spaces"};
  }
  PHUB_RETURN_IF_ERROR(check_streams(options));
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto control,
                        transport::CongestionControl::parse(options.links.tcp_congestion_control));
  const std::uint32_t buffer = options.links.tcp_buffer_kib;
  if (buffer != 0 && (buffer < kTcpBufferLeastKib || buffer > kTcpBufferMostKib)) {
    return {Code::kInvalidArgument, "links: tcp_buffer_kib of " + std::to_string(buffer) +
                                        " is outside the allowed range of " +
                                        std::to_string(kTcpBufferLeastKib) + " to " +
                                        std::to_string(kTcpBufferMostKib)};
  }
  PHUB_RETURN_IF_ERROR(check_compress(options.compress, options.job.rule));
  PHUB_RETURN_IF_ERROR(check_hogwild(options));
  PHUB_RETURN_IF_ERROR(validate(describe_job(options, {})));
  if (options.worker_index < -1) {
    return {Code::kInvalidArgument, "worker_index: " + std::to_string(options.worker_index) +
                                        " is below -1, with which the server chooses"};
  }
  if (options.worker_index >= static_cast<std::int32_t>(options.job.workers)) {
    return {Code::kInvalidArgument, "worker_index: " + std::to_string(options.worker_index) +
                                        " is not below workers, " +
                                        std::to_string(options.job.workers)};
  }
  for (std::size_t s = 0; s < options.servers.size(); ++s) {
    PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto parsed,
                          Rendezvous::create(options.servers[s], options.security, s));
  }
  return {};
}

}  // namespace phub::client
