#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <string>

#include "common/job/enums.h"
#include "common/job/message.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

// Every enumerator that the message knows comes back as it was, and the next one is refused.
template <typename Message, typename From>
void check_all(const google::protobuf::EnumDescriptor& type, const std::string& field,
               const From& from) {
  int largest = 0;
  for (int i = 0; i < type.value_count(); ++i) {
    INFO(type.value(i)->full_name());
    const int number = type.value(i)->number();
    const auto ours = from(static_cast<Message>(number));
    REQUIRE(ours);
    CHECK(message_of(*ours) == number);
    std::string word(name_of(*ours));  // RULE_SUM: "sum"
    for (char& letter : word) letter = static_cast<char>(std::toupper(letter));
    CHECK_THAT(type.value(i)->name(), EndsWith("_" + word));
    largest = std::max(largest, number);
  }
  const auto unknown = from(static_cast<Message>(largest + 1));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code() == Code::kInvalidArgument);
  CHECK_THAT(unknown.error().message(),
             Contains(field + ": " + std::to_string(largest + 1) + " is not known here"));
}

}  // namespace

TEST_CASE("every enumerator of a job's spec is known, and comes back as it was") {
  check_all<control::WireType>(*control::WireType_descriptor(), "wire_type", data_type_from);
  check_all<control::UpdateRule>(*control::UpdateRule_descriptor(), "rule", rule_from);
  check_all<control::LossScaling>(*control::LossScaling_descriptor(), "loss_scaling",
                                  loss_scaling_from);
  check_all<control::Selector>(*control::Selector_descriptor(), "rack_compress.selector",
                               selector_from);
  check_all<control::LatePushes>(*control::LatePushes_descriptor(), "rounds.late",
                                 late_pushes_from);
  check_all<control::PushWeight>(*control::PushWeight_descriptor(), "rounds.weight",
                                 push_weight_from);
  check_all<control::WatchValues>(*control::WatchValues_descriptor(), "watch_values",
                                  watch_values_from);
}

TEST_CASE("rack_compress that is there has a density") {
  control::JobSpec message;
  for (const float density : {0.0F, -0.5F}) {
    message.mutable_rack_compress()->set_density(density);
    const auto spec = spec_from(message);
    REQUIRE_FALSE(spec);
    CHECK_THAT(spec.error().message(), Contains("rack_compress.density: is missing"));
  }
  message.mutable_rack_compress()->set_density(0.5F);
  CHECK(spec_from(message));
}

}  // namespace phub::testing
