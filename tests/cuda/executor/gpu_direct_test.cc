// Gradients that stay in the GPU's memory until a network adapter reads them: when an executor
// tells of them, and how executor and exchange agree on it. On the host's runtime, where a CPU that
// touches that memory faults.
#include "worker/train/exchange/gpu_direct.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/cuda/executor/executor_rig.h"
#include "tests/cuda/networks.h"
#include "tests/support/walled_memory.h"

namespace phub::nn::cuda {
namespace {

using phub::testing::WalledMemory;
using testing::distance;
using testing::Rig;
using train::GpuDirect;

constexpr double kTolerance = 2e-3;

// An exchange of one worker whose adapter reads the memory at the moment of a push.
class Adapter final : public train::GradientExchange {
 public:
  explicit Adapter(const std::vector<KeySpec>& keys)
      : local_(train::make_local_exchange(keys, RuleKind::kSgd)) {
    for (const KeySpec& key : keys) {
      layout_.offsets.push_back(layout_.bytes);
      layout_.bytes += 4 * key.elements + 64;  // not only keys
    }
  }

  std::span<float> gradient(KeyId key) override { return local_->gradient(key); }
  std::span<const float> parameter(KeyId key) const override { return local_->parameter(key); }
  void use_wire_arrays() override { uses_wire_arrays = true; }
  ArrayLayout layout() const override { return layout_; }
  Status reaches_gpus() const override { return {}; }
  Result<std::string> push_from(const ExportedMemoryPointer& gpu) override {
    ++asked;
    if (!refusal.ok()) return refusal;
    memory = std::static_pointer_cast<const WalledMemory>(gpu);
    return std::string("adapter0 by dma-buf");
  }
  Status initialise() override { return local_->initialise(); }
  StateAt state_at() const override { return StateAt::kServers; }
  Status set_hyper(const Hyper& hyper) override { return local_->set_hyper(hyper); }
  Status push(KeyId key) override {
    if (memory != nullptr) {
      const std::span<float> here = local_->gradient(key);
      std::memcpy(here.data(), memory->view().data() + layout_.offsets[key], here.size_bytes());
    }
    return local_->push(key);
  }
  Status wait(KeyId key) override { return local_->wait(key); }
  std::uint32_t worker_index() const override { return 0; }
  std::uint32_t workers() const override { return 1; }
  std::string_view transport() const override { return name; }
  train::ExchangeStatistics statistics() const override { return {}; }

  Status refusal;
  int asked = 0;
  bool uses_wire_arrays = false;
  std::string name = "verbs";
  std::shared_ptr<const WalledMemory> memory;

 private:
  ArrayLayout layout_;
  std::unique_ptr<train::GradientExchange> local_;
};

// What the trainer does with hooks.
class Pushing final : public Hooks {
 public:
  explicit Pushing(train::GradientExchange& exchange) : exchange_(exchange) {}
  Status weights_needed(const KeyRange& keys) override {
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchange_.wait(key));
    }
    return {};
  }
  Status grad_ready(const KeyRange&) override { return {Code::kInternal, "not looked at"}; }
  Status grad_checked(const KeyRange& keys, Finite finite) override {
    REQUIRE(finite == Finite::kYes);
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchange_.push_checked(key, true));
    }
    return {};
  }

 private:
  train::GradientExchange& exchange_;
};

// A rig whose own executor trains through an exchange.
struct Bench {
  explicit Bench(const testing::RigOptions& options) : rig(phub::nn::testing::blocks(), options) {
    std::vector<KeySpec> keys;
    for (const ParameterSpec& spec : rig.executor->parameters()) {
      keys.push_back({.name = spec.name, .elements = spec.elements()});
    }
    exchange = std::make_unique<Adapter>(keys);
    for (KeyId key = 0; key < keys.size(); ++key) {
      const auto& initial = rig.own->parameters[key];
      std::copy(initial.begin(), initial.end(), exchange->gradient(key).begin());
    }
    testing::require(exchange->initialise());
    testing::require(
        exchange->set_hyper({.learning_rate = rig.own->learning_rate, .gradient_scale = 1.0F}));
  }
  ~Bench() { rig.executor.reset(); }  // before the arrays that it copies to and from
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Status bind(GpuDirect wanted, bool sums = false) {
    return train::bind_direct(
        *rig.executor, *exchange,
        {.wanted = wanted, .sums = sums, .note = [this](std::string_view note) {
           notes.emplace_back(note);
         }});
  }

  // With the same batch at both; the parameters are the same afterwards.
  void step(unsigned seed) {
    rig.new_batch(seed);
    Pushing hooks(*exchange);
    testing::require(rig.executor->forward(Mode::kTraining, hooks));
    testing::require(rig.executor->start_loss({}));
    testing::require(rig.executor->backward(hooks));
    rig.oracle->needed.clear();
    testing::require(rig.network->forward(Mode::kTraining, *rig.oracle));
    testing::require(rig.network->start_loss({}));
    testing::require(rig.network->backward(*rig.oracle));
    for (KeyId key = 0; key < rig.oracle->parameters.size(); ++key) {
      INFO(rig.executor->parameters()[key].name);
      CHECK(distance(exchange->gradient(key), rig.oracle->gradients[key]) < kTolerance);
      CHECK(distance(exchange->parameter(key), rig.oracle->parameters[key]) < kTolerance);
    }
  }

  Rig rig;
  std::unique_ptr<Adapter> exchange;
  std::vector<std::string> notes;
};

TEST_CASE("No gradient is pushed before the GPU has written it, in whatever order work is done") {
  const unsigned seed = GENERATE(range(1U, 21U));
  Bench bench({.runtime = {.seed = seed}, .capture = seed % 2 == 0, .fuse = seed % 3 != 0});
  testing::require(bench.bind(GpuDirect::kAuto));
  REQUIRE(bench.exchange->memory != nullptr);
  for (unsigned step = 1; step <= 3; ++step) {
    // What was pushed last must not pass for what is pushed next.
    for (std::byte& byte : bench.exchange->memory->view()) byte = std::byte{0xFF};
    bench.step(step);
  }
}

TEST_CASE("Gradients in the GPU's memory need no memory of the host for their way") {
  Bench direct({.runtime = {.registers = false}});
  testing::require(direct.bind(GpuDirect::kRequired));
  Bench host({.runtime = {.registers = false}});
  testing::require(host.bind(GpuDirect::kOff));
  const auto tells_of_gradients = [](const std::string& note) {
    return note.find("the exchange's gradients") != std::string::npos;
  };
  const auto& notes = direct.rig.notes;
  CHECK(std::none_of(notes.begin(), notes.end(), tells_of_gradients));
  CHECK(std::any_of(host.rig.notes.begin(), host.rig.notes.end(), tells_of_gradients));
  for (Bench* bench : {&direct, &host}) bench->step(1);
  CHECK(direct.exchange->asked == 1);
  CHECK(host.exchange->asked == 0);
  CHECK(host.notes.empty());
  REQUIRE(direct.notes.size() == 1);
  CHECK_THAT(direct.notes[0], Catch::Contains("adapter0 by dma-buf"));
}

TEST_CASE("Where it is not required a refusal is told once, and gradients go through the host") {
  Bench bench({});
  bench.exchange->refusal = {Code::kFailedPrecondition, "adapter0 registers none"};
  testing::require(bench.bind(GpuDirect::kAuto));
  REQUIRE(bench.notes.size() == 1);
  CHECK_THAT(bench.notes[0], Catch::Contains("through the host's memory: adapter0 registers none"));
  for (unsigned step = 1; step <= 3; ++step) bench.step(step);
}

TEST_CASE("Where it is required a refusal is an error with its reason and the cure") {
  Bench bench({});
  bool sums = false;
  std::string reason = "adapter0 registers none";
  SECTION("of the adapter") { bench.exchange->refusal = {Code::kFailedPrecondition, reason}; }
  SECTION("of the trainer") {
    sums = true;
    reason = "train.accumulate";
  }
  const Status refused = bench.bind(GpuDirect::kRequired, sums);
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(), Catch::Contains("train.gpu_direct") && Catch::Contains(reason) &&
                                    Catch::Contains("\"auto\""));
  CHECK(bench.notes.empty());
}

TEST_CASE("Gradients that are added up on the host go through it, and nobody asks an adapter") {
  Bench bench({});
  testing::require(bench.bind(GpuDirect::kAuto, true));
  CHECK(bench.exchange->asked == 0);
  CHECK_FALSE(bench.exchange->uses_wire_arrays);
  REQUIRE(bench.notes.size() == 1);
  CHECK_THAT(bench.notes[0], Catch::Contains("train.accumulate"));
}

TEST_CASE("An executor on CPUs and an exchange within the process have nothing to agree on") {
  Bench bench({});
  SECTION("an executor on CPUs") {
    std::vector<std::string> notes;
    const auto network = testing::require(Network::create(
        phub::nn::testing::blocks(), testing::require(make_onednn_backend({})), {.batch = 3}));
    testing::require(train::bind_direct(
        *network, *bench.exchange,
        {.wanted = GpuDirect::kAuto, .note = [&](std::string_view n) { notes.emplace_back(n); }}));
    CHECK(bench.exchange->asked == 0);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], Catch::Contains("this backend"));
  }
  SECTION("a worker alone") {
    const auto alone = train::make_local_exchange({{.name = "w", .elements = 8}}, RuleKind::kSgd);
    CHECK(alone->push_from(WalledMemory::create(64)).error().code() == Code::kFailedPrecondition);
    bench.exchange->name = "local";
    bench.exchange->refusal = {Code::kFailedPrecondition, "no adapter"};
    testing::require(bench.bind(GpuDirect::kAuto));
    CHECK(bench.notes.empty());
  }
}

TEST_CASE("The words for gpu_direct are three") {
  CHECK(train::parse_gpu_direct("off") == GpuDirect::kOff);
  CHECK(train::parse_gpu_direct("auto") == GpuDirect::kAuto);
  CHECK(train::parse_gpu_direct("required") == GpuDirect::kRequired);
  CHECK_FALSE(train::parse_gpu_direct("on"));
}

}  // namespace
}  // namespace phub::nn::cuda
