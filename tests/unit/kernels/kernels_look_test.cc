// Updates that look at what they make, and which element of an array is not finite, against their
// specification on every instruction set.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr float kWrong[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};

// One update of `sources` by each, of parameters and state that are finite.
struct LookedAtUpdate {
  LookedAtUpdate(RuleKind rule, const std::vector<Array>& pushes, std::size_t elements,
                 DataType published_type, std::mt19937& random)
      : parameters(random_array(DataType::kFloat32, elements, random, false)),
        state(DataType::kFloat32, 2 * elements),
        published(published_type, elements) {
    for (std::size_t i = 0; i < 2 * elements; ++i) state.set(i, 0.25F);
    for (const Array& push : pushes) sources.push_back(push.source());
    arguments = {.sources = sources,
                 .elements = elements,
                 .rule = rule,
                 .hyper = {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.5F},
                 .weight_decay = 5e-4F,
                 .trust = 0.37F,
                 .adaptive = &kAdaptive,
                 .parameters = parameters.floats(),
                 .state = state_arrays(rule) > 0 ? state.floats() : nullptr,
                 .state_stride = elements,
                 .published = published_type == DataType::kFloat32 ? nullptr : published.data(),
                 .published_type = published_type};
  }
  LookedAtUpdate(const LookedAtUpdate&) = delete;
  LookedAtUpdate& operator=(const LookedAtUpdate&) = delete;

  bool same_as(const LookedAtUpdate& other) const {
    return parameters.same_as(other.parameters) && state.same_as(other.state) &&
           published.same_as(other.published);
  }

  std::vector<Source> sources;
  Array parameters;
  Array state;
  Array published;
  Update arguments;
};

void check_update(RuleKind rule, const std::vector<Array>& pushes, std::size_t elements,
                  DataType type, bool is_finite) {
  std::mt19937 one(7);
  std::mt19937 two(7);
  LookedAtUpdate own(rule, pushes, elements, type, one);
  LookedAtUpdate wanted(rule, pushes, elements, type, two);
  REQUIRE(update_and_look(own.arguments) == is_finite);
  REQUIRE(reference::update_and_look(wanted.arguments) == is_finite);
  REQUIRE(own.same_as(wanted));
}

TEST_CASE("an update that looks has the bits of one that does not, and sees any wrong source") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(31);
    for (const RuleKind rule : kRules) {
      for (const DataType type : kTypes) {
        for (const std::size_t elements : {1U, 17U, 64U, 1023U, 1024U, 1025U, 3000U}) {
          CAPTURE(target, name_of(rule), name_of(type), elements);
          std::vector<Array> pushes;
          for (int i = 0; i < 3; ++i) pushes.push_back(random_array(type, elements, random, false));
          check_update(rule, pushes, elements, type, true);
          for (const float wrong : kWrong) {
            Array& push = pushes[random() % pushes.size()];
            const std::size_t place = random() % elements;
            const float right = push.value(place);
            push.set(place, wrong);
            check_update(rule, pushes, elements, type, false);
            push.set(place, right);
          }
        }
      }
    }
  });
}

TEST_CASE("what is not finite is seen by an update whatever its factors are") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(32);
    for (const RuleKind rule : kRules) {
      for (const float wrong : kWrong) {
        CAPTURE(target, name_of(rule), wrong);
        std::vector<Array> pushes;
        pushes.push_back(random_array(DataType::kFloat32, 40, random, false));
        pushes.back().set(random() % 40, wrong);
        LookedAtUpdate looked(rule, pushes, 40, DataType::kFloat32, random);
        looked.arguments.hyper = {};
        looked.arguments.hyper.gradient_scale = 0.0F;
        looked.arguments.weight_decay = 0.0F;
        looked.arguments.trust = 0.0F;
        REQUIRE_FALSE(update_and_look(looked.arguments));
      }
    }
  });
}

TEST_CASE("the first element that is not finite is found in any place of any type") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(33);
    for (const DataType type : kTypes) {
      for (const std::size_t elements : kLengths) {
        CAPTURE(target, name_of(type), elements);
        Array values = random_array(type, elements, random, false);
        REQUIRE(all_finite(values.source(), elements));
        REQUIRE(first_not_finite(values.source(), elements) == elements);
        for (int trial = 0; trial < 20 && elements > 0; ++trial) {
          values.set(random() % elements, kWrong[random() % std::size(kWrong)]);
          const std::size_t wanted = reference::first_not_finite(values.source(), elements);
          REQUIRE(wanted < elements);
          REQUIRE(first_not_finite(values.source(), elements) == wanted);
          REQUIRE_FALSE(all_finite(values.source(), elements));
        }
      }
    }
  });
}

}  // namespace
}  // namespace phub::kernels::test
