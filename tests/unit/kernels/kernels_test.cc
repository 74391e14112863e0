#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/reduce.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

struct Case {
  RuleKind rule;
  std::vector<DataType> source_types;
  std::size_t elements;
  bool published;
  DataType published_type;
};

// One array behind the other. Those of squares begin at the rule's last and are not negative.
Array random_state(RuleKind rule, std::size_t elements, std::mt19937& random) {
  const std::size_t arrays = std::max(1U, state_arrays(rule));
  Array state = random_array(DataType::kFloat32, arrays * elements, random);
  if (!is_adaptive(rule)) return state;
  for (std::size_t i = (arrays - 1) * elements; i < arrays * elements; ++i) {
    state.set(i, std::fabs(state.value(i)));
  }
  return state;
}

// One update by the kernel and by the specification, on equal inputs.
bool update_agrees(const Case& c, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Array> arrays;
  std::vector<Source> sources;
  for (const DataType type : c.source_types)
    arrays.push_back(random_array(type, c.elements, random));
  for (const Array& array : arrays) sources.push_back(array.source());
  Array parameters = random_array(DataType::kFloat32, c.elements, random);
  Array state = random_state(c.rule, c.elements, random);
  Array published(c.published_type, c.elements);
  Array expected_parameters = parameters;
  Array expected_state = state;
  Array expected_published = published;
  Update u = {.sources = sources, .elements = c.elements, .rule = c.rule};
  u.hyper = {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 1.0F / 3.0F};
  u.weight_decay = 5e-4F;
  u.trust = 0.37F;
  u.adaptive = &kAdaptive;
  u.state_stride = c.elements;
  u.published_type = c.published_type;
  const auto run = [&](auto function, Array& w, Array& v, Array& p) {
    u.parameters = w.floats();
    u.state = state_arrays(c.rule) > 0 ? v.floats() : nullptr;
    u.published = c.published ? p.data() : nullptr;
    function(u);
  };
  run(update, parameters, state, published);
  run(reference::update, expected_parameters, expected_state, expected_published);
  return parameters.same_as(expected_parameters) && state.same_as(expected_state) &&
         published.same_as(expected_published);
}

TEST_CASE("updates of fp32 equal the specification for every target, rule, length and count") {
  on_every_target([](const std::string& target) {
    for (const RuleKind rule : kRules) {
      for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 64U}) {
        for (const std::size_t elements : kLengths) {
          if (elements > 1000 && count > 4 && count < 64 && rule != RuleKind::kNesterov) continue;
          CAPTURE(target, name_of(rule), count, elements);
          const std::vector<DataType> types(count, DataType::kFloat32);
          REQUIRE(update_agrees({rule, types, elements, false, DataType::kFloat32}, 1));
        }
      }
    }
  });
}

TEST_CASE("updates of mixed and 16-bit sources equal the specification, published ones too") {
  on_every_target([](const std::string& target) {
    for (const RuleKind rule : kRules) {
      for (const DataType wire : kTypes) {
        for (const std::size_t count : {1U, 2U, 3U, 9U}) {
          for (const std::size_t elements : {0U, 1U, 5U, 16U, 63U, 65U, 1000U, 8193U}) {
            CAPTURE(target, name_of(rule), name_of(wire), count, elements);
            std::vector<DataType> types(count, wire);
            REQUIRE(update_agrees({rule, types, elements, true, wire}, 2));
            types[0] = DataType::kFloat32;  // an accumulator first
            REQUIRE(update_agrees({rule, types, elements, true, wire}, 3));
          }
        }
      }
    }
  });
}

TEST_CASE("any mix of source types equals the specification") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(4);
    for (std::uint32_t trial = 0; trial < 200; ++trial) {
      std::vector<DataType> types(1 + random() % 6);
      std::generate(types.begin(), types.end(), [&] { return kTypes[random() % 3]; });
      CAPTURE(target, trial);
      REQUIRE(update_agrees({kRules[random() % std::size(kRules)], types, random() % 300,
                             random() % 2 == 0, kTypes[random() % 3]},
                            trial));
    }
  });
}

TEST_CASE("add equals the specification for every pair of types, in place too") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(5);
    for (const DataType first_type : kTypes) {
      for (const DataType second_type : kTypes) {
        for (const std::size_t elements : kLengths) {
          CAPTURE(target, name_of(first_type), name_of(second_type), elements);
          Array first = random_array(first_type, elements, random);
          const Array second = random_array(second_type, elements, random);
          Array out(DataType::kFloat32, elements);
          Array expected(DataType::kFloat32, elements);
          add(out.floats(), first.source(), second.source(), elements);
          reference::add(expected.floats(), first.source(), second.source(), elements);
          REQUIRE(out.same_as(expected));
          if (first_type != DataType::kFloat32) continue;
          add(first.floats(), first.source(), second.source(), elements);
          REQUIRE(first.same_as(expected));
        }
      }
    }
  });
}

TEST_CASE("adding one source at a time and updating at last gives the bits of one update") {
  on_every_target([](const std::string& target) {
    CAPTURE(target);
    constexpr std::size_t kElements = 1001;
    std::mt19937 random(6);
    std::vector<Array> arrays;
    std::vector<Source> sources;
    for (int i = 0; i < 5; ++i)
      arrays.push_back(random_array(DataType::kFloat16, kElements, random));
    for (const Array& array : arrays) sources.push_back(array.source());
    Array fused(DataType::kFloat32, kElements);
    Update u = {.sources = sources, .elements = kElements, .rule = RuleKind::kMean};
    u.hyper.gradient_scale = 0.2F;
    u.parameters = fused.floats();
    update(u);

    Array accumulator(DataType::kFloat32, kElements);
    Array stepwise(DataType::kFloat32, kElements);
    add(accumulator.floats(), sources[0], sources[1], kElements);
    add(accumulator.floats(), accumulator.source(), sources[2], kElements);
    add(accumulator.floats(), accumulator.source(), sources[3], kElements);
    const Source last_two[] = {accumulator.source(), sources[4]};
    u.sources = last_two;
    u.parameters = stepwise.floats();
    update(u);
    CHECK(stepwise.same_as(fused));
  });
}

TEST_CASE("summing into a buffer and updating from it gives the bits of the fused update") {
  on_every_target([](const std::string& target) {
    for (const RuleKind rule : kRules) {
      CAPTURE(target, name_of(rule));
      std::mt19937 random(11);
      const Array first = random_array(DataType::kFloat32, 1001, random);
      const Array second = random_array(DataType::kFloat32, 1001, random);
      Array parameters = random_array(DataType::kFloat32, 1001, random);
      Array state = random_state(rule, 1001, random);
      Array unfused_parameters = parameters;
      Array unfused_state = state;
      Array buffer(DataType::kFloat32, 1001);
      const Source sources[] = {first.source(), second.source()};
      const Source summed[] = {buffer.source()};
      Update u = {.sources = sources, .elements = 1001, .rule = rule};
      u.hyper = {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.5F};
      u.adaptive = &kAdaptive;
      u.state_stride = 1001;
      u.parameters = parameters.floats();
      u.state = state.floats();
      update(u);
      update({.sources = sources, .elements = 1001, .parameters = buffer.floats()});
      u.sources = summed;
      u.parameters = unfused_parameters.floats();
      u.state = unfused_state.floats();
      update(u);
      REQUIRE(unfused_parameters.same_as(parameters));
      REQUIRE(unfused_state.same_as(state));
    }
  });
}

TEST_CASE("the result may be written over one of the sources") {
  on_every_target([](const std::string& target) {
    CAPTURE(target);
    std::mt19937 random(7);
    Array accumulator = random_array(DataType::kFloat32, 1003, random);
    const Array last = random_array(DataType::kFloat32, 1003, random);
    Array expected(DataType::kFloat32, 1003);
    reference::add(expected.floats(), accumulator.source(), last.source(), 1003);
    const Source sources[] = {accumulator.source(), last.source()};
    Update u = {.sources = sources, .elements = 1003};
    u.parameters = accumulator.floats();
    update(u);
    CHECK(accumulator.same_as(expected));
  });
}

TEST_CASE("rules compute the formulas of rule.h") {
  const float g = 6.0F;  // 2 + 4, scaled by 1/2: 3
  Array first(DataType::kFloat32, 1);
  Array second(DataType::kFloat32, 1);
  first.set(0, g - 4.0F);
  second.set(0, 4.0F);
  const Source sources[] = {first.source(), second.source()};
  const auto run = [&](RuleKind rule) {
    Array w(DataType::kFloat32, 1);
    Array v(DataType::kFloat32, 1);
    w.set(0, 8.0F);
    v.set(0, 2.0F);
    Update u = {.sources = sources, .elements = 1, .rule = rule};
    u.hyper = {.learning_rate = 0.5F, .momentum = 0.25F, .gradient_scale = 0.5F};
    u.weight_decay = 0.125F;
    u.trust = 0.25F;
    u.parameters = w.floats();
    u.state = v.floats();
    update(u);
    return std::pair{w.value(0), v.value(0)};
  };
  CHECK(run(RuleKind::kSum) == std::pair{6.0F, 2.0F});
  CHECK(run(RuleKind::kMean) == std::pair{3.0F, 2.0F});
  CHECK(run(RuleKind::kSgd) == std::pair{6.0F, 2.0F});          // 8 - 0.5 * (3 + 1)
  CHECK(run(RuleKind::kMomentum) == std::pair{5.75F, 4.5F});    // v = 0.5 + 4;  8 - 2.25
  CHECK(run(RuleKind::kNesterov) == std::pair{5.4375F, 4.5F});  // 8 - 0.5 * (4 + 1.125)
  CHECK(run(RuleKind::kLars) == std::pair{7.0F, 1.0F});         // v = 0.5 + 0.125 * 4;  8 - v
  CHECK(run(RuleKind::kElastic) == std::pair{3.0F, 2.0F});      // 8 + 2 * 0.5 * (3 - 8)
}

// One element: its weight is 8, its mean 2, its square 4, its gradient 6, scaled by 1/2: 3.
struct AdaptedElement {
  AdaptedElement(RuleKind rule, float rate) {
    gradient.set(0, 6.0F);
    weight.set(0, 8.0F);
    state.set(0, 2.0F);
    state.set(1, 4.0F);
    step.rate = rate;
    arguments = {.sources = {&source, 1},
                 .elements = 1,
                 .rule = rule,
                 .hyper = {.learning_rate = 0.25F, .gradient_scale = 0.5F},
                 .weight_decay = 0.125F,
                 .adaptive = &step,
                 .parameters = weight.floats(),
                 .state = state.floats(),
                 .state_stride = 1};
  }
  AdaptedElement(const AdaptedElement&) = delete;
  AdaptedElement& operator=(const AdaptedElement&) = delete;

  std::vector<float> values() const { return {weight.value(0), state.value(0), state.value(1)}; }

  Array gradient{DataType::kFloat32, 1};
  Array weight{DataType::kFloat32, 1};
  Array state{DataType::kFloat32, 2};
  Source source = gradient.source();
  // The new mean is 0.25 * 2 + 0.75 * g, the new square 0.5 * 4 + 0.5 * g * g.
  AdaptiveStep step = {.keep_mean = 0.25F,
                       .add_mean = 0.75F,
                       .keep_square = 0.5F,
                       .add_square = 0.5F,
                       .root_scale = 2.0F,
                       .epsilon = 0.5F};
  Update arguments;
};

TEST_CASE("adaptive rules compute the formulas of rule.h") {
  const auto run = [](RuleKind rule) {
    AdaptedElement element(rule, 0.5F);
    update(element.arguments);
    return element.values();
  };
  // With decay the gradient is 3 + 1.
  CHECK(run(RuleKind::kAdam) ==
        std::vector{8.0F - 0.5F * (3.5F / (std::sqrt(10.0F) * 2.0F + 0.5F)), 3.5F, 10.0F});
  CHECK(run(RuleKind::kAdamW) ==
        std::vector{7.75F - 0.5F * (2.75F / (std::sqrt(6.5F) * 2.0F + 0.5F)), 2.75F, 6.5F});
  CHECK(run(RuleKind::kAdagrad) ==
        std::vector{8.0F - 0.5F * (4.0F / (std::sqrt(18.0F) + 0.5F)), 18.0F, 4.0F});
}

TEST_CASE("the two passes of lamb compute the formulas of rule.h") {
  AdaptedElement element(RuleKind::kLamb, 2.0F);
  element.arguments.trust = 0.5F;
  lamb_direction(element.arguments, element.gradient.floats());
  const float direction = 2.0F * (2.75F / (std::sqrt(6.5F) * 2.0F + 0.5F)) + 1.0F;
  CHECK(element.gradient.value(0) == direction);
  CHECK(element.values() == std::vector{8.0F, 2.75F, 6.5F});
  update(element.arguments);
  CHECK(element.values() == std::vector{8.0F - 0.125F * direction, 2.75F, 6.5F});
}

TEST_CASE("directions of lamb equal the specification for every target and length, in place too") {
  on_every_target([](const std::string& target) {
    for (const std::size_t elements : kLengths) {
      for (const bool in_place : {false, true}) {
        CAPTURE(target, elements, in_place);
        std::mt19937 random(12);
        Array parameters = random_array(DataType::kFloat32, elements, random);
        Array state = random_state(RuleKind::kLamb, elements, random);
        Array sum = random_array(DataType::kFloat32, elements, random);
        Array directions(DataType::kFloat32, elements);
        Array expected_state = state;
        Array expected(DataType::kFloat32, elements);
        const Array before = parameters;
        const Source source = sum.source();
        Update u = {.sources = {&source, 1}, .elements = elements, .rule = RuleKind::kLamb};
        u.hyper = {.learning_rate = 0.1F, .gradient_scale = 1.0F / 3.0F};
        u.weight_decay = 5e-4F;
        u.adaptive = &kAdaptive;
        u.state_stride = elements;
        u.parameters = parameters.floats();
        u.state = expected_state.floats();
        reference::lamb_direction(u, expected.floats());
        u.state = state.floats();
        lamb_direction(u, in_place ? sum.floats() : directions.floats());
        REQUIRE((in_place ? sum : directions).same_as(expected));
        REQUIRE(state.same_as(expected_state));
        REQUIRE(parameters.same_as(before));
      }
    }
  });
}

TEST_CASE("targets are listed best first, can be selected by name, and unknown names are refused") {
  const auto targets = supported_targets();
  REQUIRE_FALSE(targets.empty());
  CHECK(active_target() == targets.front());
  for (const std::string_view target : targets) {
    CHECK(select_target(target));
    CHECK(active_target() == target);
    CHECK(supported_targets() == targets);
  }
  CHECK_FALSE(select_target("ABACUS"));
  CHECK(active_target() == targets.back());
  CHECK(select_target(""));
  CHECK(active_target() == targets.front());
}

}  // namespace
}  // namespace phub::kernels::test
