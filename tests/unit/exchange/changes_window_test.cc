// Replies over verbs that have only what changed of a chunk: what a server wrote into a worker's
// window, right or damaged.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "common/exchange/exchange.h"
#include "common/protocol/sparse_push.h"
#include "common/protocol/wire.h"
#include "common/transport/verbs/registered.h"
#include "tests/support/server/sparse_bytes.h"
#include "tests/support/transports/endpoint_pair.h"
#include "tests/support/transports/rdma_devices.h"

namespace phub::client {
namespace {

using namespace transport;  // NOLINT(google-build-using-namespace): what the ends are made of

constexpr std::uint32_t kElements = 64;

// The core that a worker exchanges with, as far as it is needed: it writes what a test says where
// it says.
struct ScriptedCore final : ReceiveBuffers, Layout {
  std::byte* acquire(PeerId, std::uint32_t, std::uint32_t) override { return window.data(); }
  void release(PeerId, std::byte*) override {}
  std::uint64_t offset(PeerId, const Write&) const override { return landing; }

  std::vector<std::byte> window = std::vector<std::byte>(4096);
  std::vector<std::byte> source = std::vector<std::byte>(4096);
  std::uint64_t landing = 0;
  std::unique_ptr<VerbsEndpoint> endpoint;
  PeerId peer = 0;
};

// A worker of a job with one chunk, which it has pushed.
class Worker {
 public:
  explicit Worker(bool has_place = true)
      : plan_(std::make_shared<const Plan>(std::move(*make_plan(
            {.key_elements = {kElements}, .chunk_bytes = 4096, .cores_per_server = {1}})))),
        changes_(changes_offset(*plan_, sizeof(float), false)),
        window_(parameters_and_changes_bytes(*plan_, sizeof(float), false)),
        exchange_(plan_, DataType::kFloat32, /*leader=*/false) {
    gradients_ = std::move(*SharedMemory::create("test", shared_memory_bytes(*plan_, 4)));
    for (std::uint32_t i = 0; i < kElements; ++i) set(i, 7.0F);
    exchange_.use_memory({.hyper = gradients_->data(),
                          .gradients = gradients_->data() + wire::hyper_bytes(1),
                          .parameters = window_.data(),
                          .sparse_replies = has_place ? window_.data() + changes_ : nullptr});
    connect();
    push();
  }

  void push() {
    exchange_.start(0);
    exchange_.run_once();
  }
  // What the core writes, and where.
  void reply(const std::vector<std::byte>& bytes, std::uint64_t landing) {
    std::memcpy(core_.source.data(), bytes.data(), bytes.size());
    core_.landing = landing;
    const Write write{.data = core_.source.data(),
                      .bytes = static_cast<std::uint32_t>(bytes.size()),
                      .immediate = wire::reply(0, 1, false)};
    REQUIRE(core_.endpoint->post(core_.peer, {&write, 1}) == 1);
    exchange_.run_once();
  }
  void reply(const std::vector<std::byte>& bytes) { reply(bytes, changes_); }

  Exchange& exchange() { return exchange_; }
  float at(std::uint32_t element) const {
    float value = 0.0F;
    std::memcpy(&value, window_.data() + element * sizeof(float), sizeof(value));
    return value;
  }
  bool is_untouched() const {
    for (std::uint32_t i = 0; i < kElements; ++i) {
      if (at(i) != 7.0F) return false;
    }
    return true;
  }

 private:
  void set(std::uint32_t element, float value) {
    std::memcpy(window_.data() + element * sizeof(float), &value, sizeof(value));
  }

  void connect() {
    const auto& device = rdma_devices().front();
    VerbsEndpoint& own = **exchange_.lanes().verbs_on(device);
    core_.endpoint = std::move(*VerbsEndpoint::create(device, 1, core_, core_));
    const auto prepare = [&](VerbsEndpoint& endpoint, std::span<std::byte> source,
                             std::span<std::byte> window) {
      const auto registered = *verbs::register_both(device, source, window);
      return std::move(*endpoint.connector().prepare(verbs::regions_of(registered), 8));
    };
    auto here = prepare(own, {gradients_->data(), gradients_->size()}, window_);
    auto there = prepare(*core_.endpoint, {core_.source.data(), core_.source.size()}, core_.window);
    std::tie(here.socket, there.socket) = stream_pair();
    here.peer = there.own;
    there.peer = here.own;
    REQUIRE(own.connector().connect(here).ok());
    REQUIRE(core_.endpoint->connector().connect(there).ok());
    core_.peer = *core_.endpoint->add(std::move(there));
    REQUIRE(exchange_.connect(own, {.server = 0, .core = 0, .epoch = 1}, std::move(here)).ok());
  }

  std::shared_ptr<const Plan> plan_;
  const std::uint64_t changes_;
  std::vector<std::byte> window_;
  std::unique_ptr<SharedMemory> gradients_;
  ScriptedCore core_;
  Exchange exchange_;
};

TEST_CASE("what changed is written into the window beside the parameters, and taken from there") {
  Worker worker;
  worker.reply(testing::sparse_bytes_of({0, 5, 63}, 2.0F));
  CHECK(worker.exchange().ready(0));
  for (std::uint32_t i = 0; i < kElements; ++i) {
    CHECK(worker.at(i) == (i == 0 || i == 5 || i == 63 ? 2.0F : 7.0F));
  }
  worker.push();
  worker.reply(testing::sparse_bytes_of({}, 0.0F));
  CHECK(worker.exchange().ready(0));
  worker.push();
  worker.reply(std::vector<std::byte>(kElements * sizeof(float)), 0);  // whole, in its own place
  CHECK(worker.exchange().ready(0));
  CHECK(worker.at(5) == 0.0F);
  CHECK_FALSE(worker.exchange().loss());
}

TEST_CASE("a damaged one ends the connection by name, and changes no parameter") {
  std::vector<std::byte> count = testing::sparse_bytes_of({1, 2}, 2.0F);
  count[0] = std::byte{3};
  const std::vector<std::vector<std::byte>> wrong = {std::vector<std::byte>(3),
                                                     std::vector<std::byte>(5),
                                                     count,
                                                     testing::sparse_bytes_of({5, 5}, 2.0F),
                                                     testing::sparse_bytes_of({6, 5}, 2.0F),
                                                     testing::sparse_bytes_of({kElements}, 2.0F)};
  for (const auto& bytes : wrong) {
    Worker worker;
    worker.reply(bytes);
    CHECK_FALSE(worker.exchange().ready(0));
    REQUIRE(worker.exchange().loss());
    CHECK(worker.exchange().loss()->loss == Loss::kBadLength);
    CHECK(worker.is_untouched());
  }
}

TEST_CASE("one that lies elsewhere, or that nobody has a place for, ends the connection too") {
  Worker elsewhere;  // its length is that of what changed, and in that place there is nothing
  elsewhere.reply(testing::sparse_bytes_of({1}, 7.0F), 0);
  REQUIRE(elsewhere.exchange().loss());
  CHECK(elsewhere.exchange().loss()->loss == Loss::kBadLength);
  Worker without(false);
  without.reply(testing::sparse_bytes_of({1}, 2.0F));
  REQUIRE(without.exchange().loss());
  CHECK(without.exchange().loss()->loss == Loss::kRefused);
  CHECK(without.is_untouched());
}

}  // namespace
}  // namespace phub::client
