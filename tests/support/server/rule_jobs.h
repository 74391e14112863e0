// Jobs of libphub whose parameters every worker compares, round by round, with the specification of
// their rule, on whole daemons.
#pragma once

#include <grpcpp/create_channel.h>

#include <catch2/catch.hpp>
#include <optional>

#include "kernels/reference.h"
#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/rule_specification.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/shard_rig.h"
#include "tests/support/server/test_server.h"
#include "worker/client/phub.h"

namespace phub::testing {

inline const std::vector<KeySpec> kKeys = {{"conv.weight", 30'000, 0.01F},
                                           {"conv.bias", 20, 0.0F, true},
                                           {"fc.weight", 100'000, 0.01F},
                                           {"fc.bias", 10, 0.0F, true},
                                           {"head", 700, 0.01F}};
// Other rules exclude no keys from lars.
inline std::vector<KeySpec> keys_of(const ClientOptions& options) {
  std::vector<KeySpec> keys = kKeys;
  for (KeySpec& key : keys)
    key.exclude_from_lars = key.exclude_from_lars && needs_whole_keys(options.job.rule);
  return keys;
}

inline constexpr Hyper kHyper = {.learning_rate = 0.25F, .momentum = 0.9F, .gradient_scale = 0.5F};

struct Servers {
  std::vector<std::unique_ptr<TestServer>> servers;

  explicit Servers(const std::vector<std::uint32_t>& cores) {
    for (const std::uint32_t count : cores) servers.push_back(std::move(*TestServer::start(count)));
  }
  ClientOptions options(const std::string& transport, std::uint32_t workers) const {
    ClientOptions options;
    for (const auto& server : servers) options.servers.push_back(server->address());
    options.job.name = "lars";
    options.job.workers = workers;
    options.transport = transport;
    options.timeout = kHangGuard;
    options.job.hyper = kHyper;
    return options;
  }
  std::unique_ptr<control::Admin::Stub> admin(std::size_t server) const {
    return control::Admin::NewStub(
        grpc::CreateChannel(servers[server]->address(), grpc::InsecureChannelCredentials()));
  }
  std::uint64_t drops(std::size_t server, const std::string& cause) const {
    grpc::ClientContext context;
    control::StatisticsReply reply;
    REQUIRE(admin(server)->Statistics(&context, {}, &reply).ok());
    for (const control::Drop& drop : reply.server().drops()) {
      if (drop.cause() == cause) return drop.count();
    }
    return 0;
  }
  void close_job() const {
    grpc::ClientContext context;
    control::CloseJobRequest request;
    request.set_name("lars");
    control::CloseJobReply reply;
    REQUIRE(admin(0)->CloseJob(&context, request, &reply).ok());
  }
  // Nothing: there is no such job yet.
  std::optional<control::JobInfo> job(std::size_t server) const {
    grpc::ClientContext context;
    control::InspectJobRequest request;
    request.set_name("lars");
    control::InspectJobReply reply;
    if (!admin(server)->InspectJob(&context, request, &reply).ok()) return std::nullopt;
    return reply.job();
  }
};

// The job that a client's options describe. One core: where chunks are changes no bit, but for
// those of a norm over several servers.
inline server::JobLayout layout_of(const ClientOptions& options,
                                   const std::vector<std::uint32_t>& cores = {1}) {
  server::JobLayout layout;
  layout.workers = options.job.workers;
  layout.wire_type = options.job.wire_type;
  layout.rule = options.job.rule;
  layout.lars = lars_of(options.job);
  layout.adaptive = options.job.adaptive;
  layout.clip_norm = options.job.clip_norm;
  layout.loss_scale = options.job.loss_scale;
  PlanInput input{.key_elements = {},
                  .wire_type = options.job.wire_type,
                  .chunk_bytes = options.job.chunk_bytes,
                  .cores_per_server = cores,
                  .whole_keys = needs_whole_keys(options.job.rule)};
  for (const KeySpec& key : kKeys) {
    input.key_elements.push_back(key.elements);
    layout.weight_decay.push_back(key.weight_decay);
    layout.exclude_from_lars.push_back(key.exclude_from_lars);
  }
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  return layout;
}

inline void fill(Client& client, DataType type, const RuleSpecification::Value& value) {
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    std::vector<float> values(kKeys[key].elements);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      values[i] = value(client.worker_index(), key, i);
    }
    kernels::reference::convert(client.gradient_bytes(key).data(), type,
                                reinterpret_cast<const std::byte*>(values.data()),
                                DataType::kFloat32, values.size());
  }
}

inline Status compare(const Client& client, DataType type, const RuleSpecification& specification) {
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    std::vector<float> values(kKeys[key].elements);
    kernels::reference::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32,
                                client.parameter_bytes(key).data(), type, values.size());
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      if (values[i] == specification.parameter(key, i)) continue;
      return {Code::kDataLoss, kKeys[key].name + " differs at " + std::to_string(i)};
    }
  }
  return {};
}

inline Status push_all(Client& client) {
  for (KeyId key = static_cast<KeyId>(kKeys.size()); key-- > 0;) {
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return {};
}

// Some rounds with what `round_of` says of each: its loss scale, and which worker overflows.
struct RoundPlan {
  float scale = 1.0F;
  std::int32_t overflows = -1;
};

inline Status train(Client& client, const ClientOptions& options,
                    const std::vector<RoundPlan>& rounds,
                    const std::vector<std::uint32_t>& cores = {1}) {
  RuleSpecification specification(layout_of(options, cores));
  const bool votes = options.job.loss_scale.kind == LossScaling::kVoted;
  fill(client, options.job.wire_type, noise(0));
  specification.initialise(noise(0));
  PHUB_RETURN_IF_ERROR(client.initialise());
  PHUB_RETURN_IF_ERROR(compare(client, options.job.wire_type, specification));
  std::uint32_t number = 0;
  for (const RoundPlan& round : rounds) {
    const auto gradients = noise(++number, round.scale);
    fill(client, options.job.wire_type, gradients);
    PHUB_RETURN_IF_ERROR(push_all(client));
    if (votes) {
      const bool mine = round.overflows == static_cast<std::int32_t>(client.worker_index());
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = round.scale, .overflow = mine ? 1U : 0U}));
    }
    PHUB_RETURN_IF_ERROR(client.wait_all());
    const bool skipped = round.overflows >= 0;
    if (!skipped) specification.round(kHyper, round.scale, gradients);
    PHUB_RETURN_IF_ERROR(compare(client, options.job.wire_type, specification));
    for (KeyId key = 0; key < kKeys.size(); ++key) {
      if (client.was_skipped(key) == skipped) continue;
      return {Code::kDataLoss, "wrong word about key " + kKeys[key].name};
    }
  }
  return {};
}

inline Status train_together(const ClientOptions& options, const std::vector<RoundPlan>& rounds,
                             const std::vector<std::uint32_t>& cores = {1}) {
  return run_workers(options, keys_of(options),
                     [&](Client& client) { return train(client, options, rounds, cores); });
}

}  // namespace phub::testing
