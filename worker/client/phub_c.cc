#include "worker/client/phub_c.h"

#include <algorithm>
#include <sstream>
#include <stop_token>

#include "common/base/version.h"
#include "common/rpc/credentials_folder.h"
#include "worker/client/phub.h"

struct phub_client {
  std::stop_source interruption;
  std::unique_ptr<phub::Client> client;
  std::size_t keys = 0;
  std::string error;
  bool failed = false;
  std::string snapshot;  // what phub_snapshot last returned
  std::string ending;    // and phub_ending
};

namespace {

using phub::Code;
using phub::Status;

int report(phub_client* client, const Status& status) {
  client->failed = !status.ok();
  client->error = client->failed ? status.to_string() : "";
  return client->failed ? 1 : 0;
}

// A call that needs a connected client.
template <typename Call>
int run(phub_client* client, Call call) {
  if (!client->client) return 1;  // the error of phub_connect stands
  return report(client, call(*client->client));
}

template <typename Parse, typename Value>
Status read_word(const char* field, const char* word, Parse parse, Value& value) {
  if (word == nullptr) return {};
  const auto parsed = parse(word);
  if (!parsed) {
    return {Code::kInvalidArgument, std::string(field) + ": \"" + word + "\" is not known"};
  }
  value = *parsed;
  return {};
}

Status read_rounds(const phub_options& options, phub::ClientOptions& result) {
  phub::RoundPolicy& rounds = result.rounds;
  rounds.quorum = options.quorum;
  rounds.grace_ms = options.grace_ms;
  rounds.turns = options.turns != 0;
  rounds.hogwild = options.hogwild != 0;
  if (options.patience_ms > 0) {
    rounds.patience_ms = options.patience_ms;
  } else if (options.quorum > 0) {
    const auto third = static_cast<std::uint32_t>(result.timeout.count() / 3);
    rounds.patience_ms = std::clamp(third, 1U, std::uint32_t{phub::kGraceMsMax});
  }
  if (options.bounds_staleness != 0) {
    rounds.staleness = options.staleness;
  } else if (options.staleness != 0) {
    return {Code::kInvalidArgument,
            "staleness: means nothing without bounds_staleness; set that to 1, or leave both out"};
  }
  const auto late = [](const char* word) { return phub::kLatePushesWords.parse(word); };
  const auto weight = [](const char* word) { return phub::kPushWeightWords.parse(word); };
  PHUB_RETURN_IF_ERROR(read_word("late", options.late, late, rounds.late));
  return read_word("push_weight", options.push_weight, weight, rounds.weight);
}

phub::Result<phub::ClientOptions> translate(const phub_options& options) {
  phub::ClientOptions result;
  std::istringstream servers(options.servers == nullptr ? "" : options.servers);
  for (std::string server; std::getline(servers, server, ',');) result.servers.push_back(server);
  if (options.job != nullptr) result.job = options.job;
  if (options.workers > 0) result.workers = options.workers;
  result.worker_index = options.worker_index;
  if (options.transport != nullptr) result.transport = options.transport;
  if (options.tcp_congestion_control != nullptr) {
    result.links.tcp_congestion_control = options.tcp_congestion_control;
  }
  PHUB_RETURN_IF_ERROR(
      read_word("wire_type", options.wire_type, phub::parse_data_type, result.wire_type));
  PHUB_RETURN_IF_ERROR(read_word("rule", options.rule, phub::parse_rule_kind, result.rule));
  PHUB_RETURN_IF_ERROR(read_word("watch_values", options.watch_values, phub::parse_watch_values,
                                 result.watch_values));
  result.checksums = options.checksums != 0;
  if (options.tcp_streams != 0) result.tcp_streams = options.tcp_streams;
  result.hyper = {.learning_rate = options.learning_rate,
                  .momentum = options.momentum,
                  .gradient_scale = options.gradient_scale};
  if (options.trust_coefficient != 0.0F) result.lars.coefficient = options.trust_coefficient;
  result.lars.epsilon = options.trust_epsilon;
  if (options.beta1 != 0.0) result.adaptive.beta1 = options.beta1;
  if (options.beta2 != 0.0) result.adaptive.beta2 = options.beta2;
  result.adaptive.epsilon = options.epsilon;
  result.clip_norm = options.clip_norm;
  result.ema_decay = options.ema_decay;
  if (options.votes != 0 && options.loss_scale != 0.0F) {
    return Status(Code::kInvalidArgument,
                  "loss_scale: a job that votes is told it by phub_vote; leave one of the two out");
  }
  if (options.votes != 0) result.loss_scale.kind = phub::LossScaling::kVoted;
  if (options.loss_scale != 0.0F) {
    result.loss_scale = {phub::LossScaling::kStatic, options.loss_scale};
  }
  result.deterministic = options.arrival_order == 0;
  if (options.chunk_bytes > 0) result.chunk_bytes = options.chunk_bytes;
  if (options.credentials != nullptr) {
    PHUB_ASSIGN_OR_RETURN(const phub::CredentialFiles files,
                          phub::find_credentials(options.credentials));
    result.security.tls = files.tls;
    result.security.token_file = files.token;
    if (files.token.empty()) result.security.nonce_file = files.nonce;
  }
  if (options.tenant != nullptr) result.security.tenant = options.tenant;
  if (options.run != nullptr) result.security.run = options.run;
  result.security.require_encryption = options.require_encryption != 0;
  if (options.timeout_ms > 0) result.timeout = std::chrono::milliseconds(options.timeout_ms);
  PHUB_RETURN_IF_ERROR(read_rounds(options, result));
  return result;
}

std::vector<phub::KeySpec> read_keys(const phub_key* keys, size_t count) {
  std::vector<phub::KeySpec> specs;
  for (size_t i = 0; i < count; ++i) {
    specs.push_back({keys[i].name == nullptr ? "" : keys[i].name, keys[i].elements,
                     keys[i].weight_decay, keys[i].exclude_from_lars != 0});
  }
  return specs;
}

}  // namespace

const char* phub_version() { return phub::kVersion; }

phub_client* phub_connect(const phub_options* options) {
  auto* client = new phub_client();
  auto translated = translate(*options);
  if (!translated) {
    report(client, translated.error());
    return client;
  }
  translated->stop = client->interruption.get_token();
  auto connected = phub::Client::connect(*translated);
  if (connected) {
    client->client = std::move(*connected);
  } else {
    report(client, connected.error());
  }
  return client;
}

void phub_destroy(phub_client* client) { delete client; }

void phub_interrupt(phub_client* client) { client->interruption.request_stop(); }

const char* phub_error(const phub_client* client) {
  return client->failed ? client->error.c_str() : nullptr;
}

int phub_register_keys(phub_client* client, const phub_key* keys, size_t count) {
  const std::vector<phub::KeySpec> specs = read_keys(keys, count);
  const int result = run(client, [&](phub::Client& c) { return c.register_keys(specs); });
  if (result == 0) client->keys = count;
  return result;
}

int phub_add_keys(phub_client* client, const phub_key* keys, size_t count) {
  const std::vector<phub::KeySpec> specs = read_keys(keys, count);
  const int result = run(client, [&](phub::Client& c) { return c.add_keys(specs); });
  if (result == 0) client->keys += count;
  return result;
}

void* phub_gradient(phub_client* client, uint32_t key, size_t* bytes) {
  if (key >= client->keys) return nullptr;
  const auto span = client->client->gradient_bytes(key);
  if (bytes != nullptr) *bytes = span.size();
  return span.data();
}

const void* phub_parameter(const phub_client* client, uint32_t key, size_t* bytes) {
  if (key >= client->keys) return nullptr;
  const auto span = client->client->parameter_bytes(key);
  if (bytes != nullptr) *bytes = span.size();
  return span.data();
}

int phub_push(phub_client* client, uint32_t key) {
  return run(client, [&](phub::Client& c) { return c.push(key); });
}
int phub_wait(phub_client* client, uint32_t key) {
  return run(client, [&](phub::Client& c) { return c.wait(key); });
}
int phub_wait_all(phub_client* client) {
  return run(client, [](phub::Client& c) { return c.wait_all(); });
}
int phub_wait_for(phub_client* client, uint32_t key, uint32_t milliseconds) {
  bool there = true;
  const int status = run(client, [&](phub::Client& c) -> Status {
    const auto which = key == PHUB_ALL_KEYS ? std::nullopt : std::optional(key);
    PHUB_ASSIGN_OR_RETURN(there, c.wait_for(which, std::chrono::milliseconds(milliseconds)));
    return {};
  });
  return status == 0 && !there ? PHUB_NOT_YET : status;
}
int phub_push_pull(phub_client* client, uint32_t key) {
  return run(client, [&](phub::Client& c) { return c.push_pull(key); });
}
int phub_initialise(phub_client* client) {
  return run(client, [](phub::Client& c) { return c.initialise(); });
}
int phub_snapshot(phub_client* client, const char** files) {
  return run(client, [&](phub::Client& c) -> Status {
    PHUB_ASSIGN_OR_RETURN(const auto made, c.snapshot());
    client->snapshot.clear();
    for (const std::string& file : made) client->snapshot += file + "\n";
    if (files != nullptr) *files = client->snapshot.c_str();
    return {};
  });
}
uint64_t phub_rounds_before(const phub_client* client) {
  return client->client ? client->client->rounds_before() : 0;
}
int phub_set_hyper(phub_client* client, float learning_rate, float momentum, float gradient_scale) {
  const phub::Hyper hyper{
      .learning_rate = learning_rate, .momentum = momentum, .gradient_scale = gradient_scale};
  return run(client, [&](phub::Client& c) { return c.set_hyper(hyper); });
}
int phub_set_samples(phub_client* client, float samples) {
  return run(client, [&](phub::Client& c) { return c.set_samples(samples); });
}
int phub_vote(phub_client* client, int overflow, float loss_scale) {
  return run(client, [&](phub::Client& c) {
    return c.vote({.loss_scale = loss_scale, .overflow = overflow != 0 ? 1U : 0U});
  });
}
int phub_was_skipped(const phub_client* client, uint32_t key) {
  return key < client->keys && client->client->was_skipped(key) ? 1 : 0;
}
int phub_end(phub_client* client, const char* reason) {
  return run(client,
             [&](phub::Client& c) { return c.end(reason == nullptr ? "no reason" : reason); });
}
const char* phub_ending(phub_client* client) {
  client->ending = client->client ? client->client->ending() : "";
  return client->ending.empty() ? nullptr : client->ending.c_str();
}
int phub_is_last(phub_client* client, uint64_t steps, uint32_t ahead) {
  bool is_last = false;
  const int status = run(client, [&](phub::Client& c) -> Status {
    PHUB_ASSIGN_OR_RETURN(is_last, ahead == 0 ? c.is_last(steps) : c.is_last(steps, ahead));
    return {};
  });
  return status == 0 && is_last ? PHUB_LAST : status;
}
uint32_t phub_worker_index(const phub_client* client) {
  return client->client ? client->client->worker_index() : 0;
}
uint32_t phub_workers(const phub_client* client) {
  return client->client ? client->client->workers() : 0;
}
