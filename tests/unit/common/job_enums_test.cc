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
using Catch::Matchers::StartsWith;

// Every enumerator that the message knows comes back as it was, and the next one is refused.
template <typename Ours>
void check_all(const std::string& field) {
  using Message = typename InMessage<Ours>::Type;
  const google::protobuf::EnumDescriptor& type = *google::protobuf::GetEnumDescriptor<Message>();
  int largest = 0;
  for (int i = 0; i < type.value_count(); ++i) {
    INFO(type.value(i)->full_name());
    const int number = type.value(i)->number();
    const auto ours = enum_from<Ours>(field, static_cast<Message>(number));
    REQUIRE(ours);
    CHECK(message_of(*ours) == number);
    std::string word(name_of(*ours));  // RULE_SUM: "sum"
    for (char& letter : word) letter = static_cast<char>(std::toupper(letter));
    CHECK_THAT(type.value(i)->name(), EndsWith("_" + word));
    largest = std::max(largest, number);
  }
  const auto unknown = enum_from<Ours>(field, static_cast<Message>(largest + 1));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code() == Code::kInvalidArgument);
  CHECK_THAT(unknown.error().message(),
             Contains(field + ": " + std::to_string(largest + 1) + " is not known here"));
}

// Each enumeration of `part`, which is in `job`, is set to a value that is not known here.
void check_refused(const control::JobSpec& job, google::protobuf::Message& part,
                   const std::string& prefix) {
  const google::protobuf::Descriptor& type = *part.GetDescriptor();
  const google::protobuf::Reflection& reflection = *part.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = type.field(i);
    if (field->enum_type() == nullptr) continue;
    reflection.SetEnumValue(&part, field, 99);
    const auto spec = spec_from(job);
    REQUIRE_FALSE(spec);
    CHECK_THAT(spec.error().message(), StartsWith(prefix + field->name() + ": 99 is not known"));
    reflection.ClearField(&part, field);
  }
}

}  // namespace

TEST_CASE("every enumerator of a job's spec is known, and comes back as it was") {
  check_all<DataType>("wire_type");
  check_all<RuleKind>("rule");
  check_all<LossScaling>("loss_scaling");
  check_all<RackShape>("rack_shape");
  check_all<Encoding>("encoding");
  check_all<Selector>("rack_compress.selector");
  check_all<LatePushes>("rounds.late");
  check_all<PushWeight>("rounds.weight");
  check_all<WatchValues>("watch_values");
}

TEST_CASE("an enumerator that is not known here is refused by its field's name") {
  control::JobSpec job;
  check_refused(job, job, "");
  check_refused(job, *job.mutable_rounds(), "rounds.");
  job.mutable_rack_compress()->set_density(0.5F);
  check_refused(job, *job.mutable_rack_compress(), "rack_compress.");
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
