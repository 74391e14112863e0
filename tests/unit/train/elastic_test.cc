// Workers that push their parameters: the exchange against the equations, by hand.
//
// With step t, worker i's parameters W_i, the centre W, rate eta, gradients G_i and elasticity
// alpha (You, Buluc, Demmel, SC 2017, equations 1, 2, 5 and 6):
//   W_i <- W_i - eta G_i - alpha (W_i - W)                    W <- W + alpha sum of (W_i - W)
//   V_i <- mu V_i - eta G_i;   W_i <- W_i + V_i - alpha (W_i - W)       of a rule with momentum
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "worker/train/exchange/local_steps.h"

namespace phub::train {
namespace {

constexpr float kRate = 0.125F;
constexpr float kElasticity = 0.25F;
constexpr float kFirst = 8.0F;
constexpr float kGoals[] = {1.0F, -2.0F, 5.0F};  // of each worker's loss
constexpr std::size_t kWorkers = 3;

float gradient_of(std::size_t worker, float parameter) { return parameter - kGoals[worker]; }

// One key of one parameter that three workers share. A round is over when all have pushed; who
// waits before that is wrong, for nothing else would wake it up.
struct Centre {
  float value = kFirst;
  float sum = 0.0F;
  std::size_t pushes = 0;
  std::uint64_t rounds = 0;
};

class Seat : public GradientExchange {
 public:
  explicit Seat(Centre& centre) : GradientExchange({.workers = kWorkers}), centre_(centre) {}

  std::span<float> gradient(KeyId) override { return {&pushed_, 1}; }
  std::span<const float> parameter(KeyId) const override { return {&reply_, 1}; }
  Status initialise() override {
    reply_ = kFirst;
    return {};
  }
  Status set_hyper(const Hyper& hyper) override {
    CHECK(hyper.learning_rate == kElasticity);
    return {};
  }
  Status push(KeyId) override {
    REQUIRE_FALSE(under_way_);
    under_way_ = true;
    round_ = centre_.rounds;
    reply_ = NAN;  // it may be overwritten from now on
    centre_.sum += pushed_ - centre_.value;
    if (++centre_.pushes < kWorkers) return {};
    centre_ = {.value = centre_.value + kElasticity * centre_.sum, .rounds = centre_.rounds + 1};
    return {};
  }
  Status wait(KeyId) override {
    if (!under_way_) return {};
    under_way_ = false;
    REQUIRE(centre_.rounds == round_ + 1);
    reply_ = centre_.value;
    return {};
  }

 private:
  Centre& centre_;
  float pushed_ = 0.0F;
  float reply_ = kFirst;
  bool under_way_ = false;
  std::uint64_t round_ = 0;
};

// Three workers in step with each other.
class Workers {
 public:
  Workers(const OuterScheduleOptions& schedule, RuleKind rule, float momentum, std::uint64_t end)
      : momentum_(momentum) {
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const std::vector<KeySpec> keys = {{.name = "w", .elements = 1}};
      workers_.push_back(make_elastic_exchange(
          {.own = make_local_exchange(keys, rule), .outer = std::make_unique<Seat>(centre_)}, keys,
          {.schedule = schedule,
           .fragments = {0},
           .hyper = {.learning_rate = kElasticity, .gradient_scale = 0.0F}}));
      workers_[i]->gradient(0)[0] = kFirst;
      REQUIRE(workers_[i]->initialise().ok());
      workers_[i]->set_steps(0, end);
    }
  }

  void step() {
    wait();
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const float gradient = gradient_of(i, parameters()[i]);
      workers_[i]->gradient(0)[0] = gradient;
      REQUIRE(workers_[i]->set_hyper({.learning_rate = kRate, .momentum = momentum_}).ok());
      REQUIRE(workers_[i]->push(0).ok());
      REQUIRE(workers_[i]->end_step(1.0F).ok());
    }
  }
  // Of a forward pass, or of who reads the parameters between steps.
  void wait() {
    for (const auto& worker : workers_) REQUIRE(worker->wait(0).ok());
  }

  std::vector<float> parameters() const {
    std::vector<float> values;
    for (const auto& worker : workers_) {
      values.push_back(std::as_const(*worker).parameter(0)[0]);
    }
    return values;
  }
  const Centre& centre() const { return centre_; }

 private:
  float momentum_;
  Centre centre_;
  std::vector<std::unique_ptr<GradientExchange>> workers_;
};

// The equations, in double. `momentum` 0: without.
struct Model {
  double centre = kFirst;
  std::vector<double> own = std::vector<double>(kWorkers, kFirst);
  std::vector<double> speed = std::vector<double>(kWorkers);

  void step(bool exchanges, double momentum) {
    double apart = 0.0;
    const double before = centre;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const double away = own[i] - before;
      speed[i] = momentum * speed[i] - kRate * (own[i] - kGoals[i]);
      own[i] += speed[i] - (exchanges ? kElasticity * away : 0.0);
      apart += away;
    }
    if (exchanges) centre += kElasticity * apart;
  }
};

TEST_CASE("workers and centre follow the equations of EASGD and MEASGD, whatever the overlap") {
  for (const std::uint32_t local_steps : {1U, 3U}) {
    for (std::uint32_t overlap = 0; overlap <= local_steps; ++overlap) {
      for (const float momentum : {0.0F, 0.5F}) {
        CAPTURE(local_steps, overlap, momentum);
        const RuleKind rule = momentum > 0.0F ? RuleKind::kMomentum : RuleKind::kSgd;
        Workers workers({.local_steps = local_steps, .overlap_steps = overlap}, rule, momentum,
                        100);
        Model model;
        for (std::uint32_t step = 0; step < 12; ++step) {
          workers.step();
          model.step((step + 1) % local_steps == 0, double{momentum});
          for (std::size_t i = 0; i < kWorkers; ++i) {
            REQUIRE(workers.parameters()[i] == Approx(model.own[i]).epsilon(1e-5));
          }
          REQUIRE(workers.centre().value == Approx(model.centre).epsilon(1e-5));
        }
        CHECK(workers.centre().rounds == 12 / local_steps);
      }
    }
  }
}

TEST_CASE("when pushes leave makes no difference to a bit") {
  const auto run = [](std::uint32_t overlap) {
    Workers workers({.local_steps = 2, .overlap_steps = overlap}, RuleKind::kMomentum, 0.9F, 40);
    for (int step = 0; step < 40; ++step) workers.step();
    workers.wait();
    return workers.parameters();
  };
  CHECK(run(0) == run(1));
  CHECK(run(0) == run(2));
}

TEST_CASE("who reads the parameters between steps makes no difference either") {
  const auto run = [](int reads) {
    Workers workers({.local_steps = 1, .overlap_steps = 1}, RuleKind::kSgd, 0.0F, 20);
    for (int step = 0; step < 20; ++step) {
      workers.step();
      for (int i = 0; i < reads; ++i) workers.wait();
    }
    workers.wait();
    return workers.parameters();
  };
  CHECK(run(0) == run(2));
}

TEST_CASE("the last step's gradients are in the centre, and all end with that") {
  for (const std::uint32_t overlap : {0U, 1U, 2U}) {
    CAPTURE(overlap);
    Workers workers({.local_steps = 2, .overlap_steps = overlap}, RuleKind::kSgd, 0.0F, 1);
    workers.step();
    const std::vector<float> own = workers.parameters();  // 7.125, 6.75, 7.625
    CHECK(own[0] == kFirst - kRate * 7.0F);
    workers.wait();
    float centre = kFirst;
    for (const float value : own) centre += kElasticity * (value - kFirst);
    CHECK(workers.parameters() == std::vector<float>(kWorkers, centre));
  }
  // A last step that comes before the reply is due.
  Workers workers({.local_steps = 3, .overlap_steps = 3}, RuleKind::kSgd, 0.0F, 5);
  for (int step = 0; step < 5; ++step) workers.step();
  workers.wait();
  CHECK(workers.centre().rounds == 2);
  CHECK(workers.parameters() == std::vector<float>(kWorkers, workers.centre().value));
}

}  // namespace
}  // namespace phub::train
