#include "worker/client/phub_c.h"

#include <stop_token>

#include "common/base/version.h"
#include "common/rpc/credentials_folder.h"
#include "worker/client/named_options.h"
#include "worker/client/phub.h"

struct phub_options {
  phub::client::NamedOptions named;
  std::string error;
};

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

phub_options* phub_options_new() { return new phub_options(); }

void phub_options_destroy(phub_options* options) { delete options; }

int phub_options_set(phub_options* options, const char* name, const char* value,
                     const char** error) {
  const Status status = name == nullptr || value == nullptr
                            ? Status(Code::kInvalidArgument, "an option's name or value is NULL")
                            : options->named.set(name, value);
  options->error = status.message();
  if (error != nullptr) *error = status.ok() ? nullptr : options->error.c_str();
  return status.ok() ? 0 : 1;
}

phub_client* phub_connect(const phub_options* options) {
  auto* client = new phub_client();
  auto translated = options->named.options();
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
int phub_report_steps(phub_client* client, uint64_t steps, uint64_t samples, double seconds,
                      double input_seconds, double exchange_seconds) {
  return run(client, [&](phub::Client& c) -> Status {
    const auto times =
        phub::step_waits_from(steps, samples, seconds, input_seconds, exchange_seconds);
    return times ? c.report_steps(*times) : times.error();
  });
}
int phub_set_samples(phub_client* client, float samples) {
  return run(client, [&](phub::Client& c) { return c.set_samples(samples); });
}
int phub_set_loss_scale(phub_client* client, float loss_scale) {
  return run(client, [&](phub::Client& c) { return c.set_loss_scale(loss_scale); });
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
