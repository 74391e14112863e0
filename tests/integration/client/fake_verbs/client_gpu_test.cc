// Gradients that adapters read in a GPU's memory, where every touch by a CPU ends the test: whole
// rounds against a server, beside workers whose gradients are the host's.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/gpu_adapters.h"
#include "tests/support/walled_memory.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

using std::chrono::milliseconds;
using testing::WalledMemory;

const std::vector<KeySpec> kGpuKeys = {{"a", 10}, {"b", 100'001}, {"c", 1}, {"d", 8193}};

ClientOptions gpu_options(const TestServer& server, const std::string& transport) {
  return {.servers = {server.address()},
          .job = {.name = "gpu",
                  .workers = 2,
                  .rule = RuleKind::kNesterov,
                  .hyper = {.learning_rate = 0.1F, .momentum = 0.9F}},
          .transport = transport,
          .timeout = testing::kHangGuard};
}

// Where a worker fills its gradients in.
struct Gradients {
  std::span<float> of(Client& client, KeyId key) const {
    const std::span<float> host = client.gradient<float>(key);
    if (memory == nullptr) return host;
    std::byte* const start = memory->view().data() + client.layout().offsets[key];
    return {reinterpret_cast<float*>(start), host.size()};
  }
  std::shared_ptr<WalledMemory> memory;  // null: the host's
};

void fill_from(std::span<float> values, float first) {
  for (float& value : values) value = first = first * 1.0001F;
}

// Five rounds. The workers that `is_on_gpu` names push from a GPU's memory, as soon as the keys are
// registered or only after initialise.
Status train_rounds(Client& client, bool is_on_gpu, bool early, std::vector<float>& result) {
  Gradients gradients;
  const auto attach = [&]() -> Status {
    gradients.memory = WalledMemory::create(client.layout().bytes);
    PHUB_ASSIGN_OR_RETURN(const std::string how, client.push_from(gradients.memory));
    return how.find("by dma-buf") != std::string::npos ? Status() : Status(Code::kInternal, how);
  };
  if (is_on_gpu && early) PHUB_RETURN_IF_ERROR(attach());
  for (KeyId key = 0; key < kGpuKeys.size(); ++key) fill_from(client.gradient<float>(key), 1.0F);
  PHUB_RETURN_IF_ERROR(client.initialise());
  if (is_on_gpu && !early) PHUB_RETURN_IF_ERROR(attach());
  for (int round = 0; round < 5; ++round) {
    PHUB_RETURN_IF_ERROR(client.set_hyper({.learning_rate = 0.1F / static_cast<float>(round + 1),
                                           .momentum = 0.9F,
                                           .gradient_scale = 0.0F}));
    for (KeyId key = static_cast<KeyId>(kGpuKeys.size()); key-- > 0;) {
      fill_from(gradients.of(client, key), 0.3F + static_cast<float>(client.worker_index() + key) /
                                                      (7.0F + static_cast<float>(round)));
      PHUB_RETURN_IF_ERROR(client.push(key));
    }
    PHUB_RETURN_IF_ERROR(client.wait_all());
  }
  if (client.worker_index() != 0) return {};
  for (KeyId key = 0; key < kGpuKeys.size(); ++key) {
    const auto values = client.parameter<float>(key);
    result.insert(result.end(), values.begin(), values.end());
  }
  return {};
}

std::vector<float> trained_on(std::vector<bool> on_gpu, bool early) {
  const auto server = std::move(*TestServer::start(2));
  std::vector<float> result;
  const Status status = run_workers(gpu_options(*server, "verbs"), kGpuKeys, [&](Client& client) {
    return train_rounds(client, on_gpu[client.worker_index()], early, result);
  });
  INFO(status.to_string());
  REQUIRE(status.ok());
  return result;
}

}  // namespace

TEST_CASE("gradients from a GPU's memory train to the same bits as from the host's") {
  const GpuAdapters adapters;
  const std::vector<float> host = trained_on({false, false}, false);
  REQUIRE(host.size() == 108'205);
  CHECK(trained_on({true, true}, true) == host);
  CHECK(trained_on({true, false}, false) == host);
}

TEST_CASE("votes and sums travel beside gradients that are a GPU's") {
  const GpuAdapters adapters;
  const auto server = std::move(*TestServer::start(2));
  ClientOptions options = gpu_options(*server, "verbs");
  options.job.loss_scale = {.kind = LossScaling::kVoted};
  const Status status = run_workers(options, kGpuKeys, [&](Client& client) -> Status {
    const Gradients gradients{WalledMemory::create(client.layout().bytes)};
    PHUB_ASSIGN_OR_RETURN(const std::string how, client.push_from(gradients.memory));
    for (KeyId key = 0; key < kGpuKeys.size(); ++key) fill_from(client.gradient<float>(key), 1.0F);
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (std::uint32_t round = 0; round < 4; ++round) {
      for (KeyId key = 0; key < kGpuKeys.size(); ++key) {
        fill_from(gradients.of(client, key), 0.5F);
        PHUB_RETURN_IF_ERROR(client.push(key));
      }
      const std::uint32_t overflow = round % 2 == 1 && client.worker_index() == 1 ? 1 : 0;
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 1.0F, .overflow = overflow}));
      PHUB_RETURN_IF_ERROR(client.wait_all());
      if (client.was_skipped(1) != (round % 2 == 1)) return {Code::kDataLoss, "the vote"};
    }
    return {};
  });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("what a GPU's memory cannot be pushed by is refused by name, and changes nothing") {
  const GpuAdapters adapters;
  const auto server = std::move(*TestServer::start(1));
  const std::vector<KeySpec> keys = {{"a", 10}, {"b", 7}};  // one chunk: sent when both are pushed
  for (const char* transport : {"verbs", "tcp", "shm"}) {
    INFO(transport);
    ClientOptions options = gpu_options(*server, transport);
    options.job.workers = 1;
    options.job.rule = RuleKind::kSum;
    options.job.hyper = JobSpec().hyper;
    const auto client = std::move(*Client::connect(options));
    const auto memory = WalledMemory::create(1 << 20);
    CHECK(client->push_from(memory).error().code() == Code::kFailedPrecondition);
    REQUIRE(client->register_keys(keys).ok());
    const bool is_verbs = std::string(transport) == "verbs";
    const auto refused = client->push_from(is_verbs ? WalledMemory::create(16) : memory);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() ==
          (is_verbs ? Code::kInvalidArgument : Code::kFailedPrecondition));
    CHECK_THAT(refused.error().message(),
               Catch::Contains(is_verbs ? "the memory has 16"
                                        : server->address() + " is reached over " + transport));
    fill_from(client->gradient<float>(1), 3.0F);
    REQUIRE(client->push(0).ok());
    const auto early = client->push_from(memory);
    REQUIRE_FALSE(early);
    CHECK_THAT(early.error().message(), Catch::Contains("wait for every push"));
    REQUIRE(client->push(1).ok());
    REQUIRE(client->wait_all().ok());
    CHECK(client->parameter<float>(1)[0] == 3.0F * 1.0001F);
  }
}

TEST_CASE("gradients that are compressed are pushed from the host's memory only") {
  const GpuAdapters adapters;
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = gpu_options(*server, "verbs");
  options.job.workers = 1;
  options.compress.encoding = Encoding::kInt8;
  const auto client = std::move(*Client::connect(options));
  REQUIRE(client->register_keys({{"a", 10}}).ok());
  const auto refused = client->push_from(WalledMemory::create(1 << 20));
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Catch::Contains("push_from: options.compress"));
}

}  // namespace phub
