#include <catch2/catch.hpp>

#include "common/job/fields.h"
#include "common/job/message.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

std::string refusal(const char* name, const char* text) {
  control::JobSpec job;
  job.set_rule(control::RULE_SGD);
  job.mutable_rounds()->set_quorum(3);
  const std::string before = job.SerializeAsString();
  const Status status = set_field(name, text, job);
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(job.SerializeAsString() == before);
  return status.message();
}

TEST_CASE("a field is set by its name and read back, whatever its type") {
  const std::pair<const char*, const char*> fields[] = {{"name", "a \"job\""},
                                                        {"workers", "4"},
                                                        {"wire_type", "bf16"},
                                                        {"rule", "adamw"},
                                                        {"order", "arrival"},
                                                        {"learning_rate", "0.125"},
                                                        {"beta1", "0.5"},
                                                        {"checksums", "true"},
                                                        {"watch_values", "fail"},
                                                        {"rounds.quorum", "3"},
                                                        {"rounds.staleness", "0"},
                                                        {"rounds.late", "add"},
                                                        {"rounds.turns", "true"},
                                                        {"rack_compress.density", "0.25"},
                                                        {"rack_compress.selector", "mstopk"},
                                                        {"rack_hybrid_bytes", "5000000000"},
                                                        {"racks", "a:1,b:3"}};
  control::JobSpec job;
  for (const auto& [name, text] : fields) {
    const Status status = set_field(name, text, job);
    INFO(name << " " << status.to_string());
    REQUIRE(status.ok());
  }
  for (const auto& [name, text] : fields) CHECK(field_text(name, job) == text);
  CHECK(job.rounds().has_staleness());
  const JobSpec spec = spec_from(job).value();
  CHECK(spec.racks.size() == 2);
  CHECK(spec.adaptive.beta1 == 0.5);
  REQUIRE(set_field("racks", "c:2,d:5", job).ok());  // in place of the others
  CHECK(job.racks_size() == 2);
  CHECK(job.workers() == 7);
}

TEST_CASE("what is no field or no value is refused, and the job stays as it was") {
  CHECK_THAT(refusal("checksum", "true"), Contains("did you mean checksums?"));
  CHECK_THAT(refusal("rounds.quorums", "1"), Contains("did you mean rounds.quorum?"));
  CHECK_THAT(refusal("anything", "1"), Contains("anything: is no field of a job"));
  CHECK_THAT(refusal("rounds", "3"), Contains("is a group of fields; set rounds.quorum, "));
  for (const char* const name :
       {"keys", "", ".", "rounds.", "rounds.quorum.x", "rule.x", "racks.name", "keys.name"}) {
    CHECK_THAT(refusal(name, "1"), Contains("is no field of a job"));
  }
  CHECK_THAT(refusal("rule", "RULE_SUM"), Contains("sum, mean, sgd"));
  CHECK_THAT(refusal("rule", "3"), Contains("is not sum, mean"));
  for (const char* const word : {"yes", "1", "True", "t", ""}) {
    CHECK_THAT(refusal("checksums", word), Contains("is not true or false"));
  }
  for (const char* const number :
       {"-1", "4294967296", "1.5", "", " ", "1 2", "x", "1}", "0x10", "1 #x", "1\n", "  3", "+1"}) {
    CHECK_THAT(refusal("workers", number), Contains("is not a whole number"));
  }
  for (const char* const number : {"fast", "1e", "1f", "0x1p3", "1e400", "1e-46", "-1e-400"}) {
    CHECK_THAT(refusal("learning_rate", number), Contains("is not a number that 32 bits can hold"));
  }
  CHECK_THAT(refusal("ema_decay", "1e-400"), Contains("is not a number that 64 bits can hold"));
  CHECK_THAT(refusal("racks", "a:1"), Contains("racks: ") && Contains("two racks or more"));
  std::string many = "a:1";
  for (int i = 0; i < 300; ++i) many += ",r" + std::to_string(i) + ":1";
  CHECK_THAT(refusal("racks", many.c_str()), Contains("at most 256 racks"));
  const std::string long_word(1 << 20, 'x');  // neither takes long, nor comes back whole
  CHECK(refusal(long_word.c_str(), "1").size() < 200);
  CHECK(refusal("rule", long_word.c_str()).size() < 300);
  CHECK(refusal("racks", long_word.c_str()).size() < 400);
}

TEST_CASE("every field but the keys is listed, with what it takes") {
  const std::vector<FieldInfo> fields = job_fields();
  CHECK(fields.front().name == "name");
  const auto kind_of = [&](const std::string& name) {
    for (const FieldInfo& field : fields) {
      if (field.name == name) return field.kind;
    }
    return std::string("not there");
  };
  CHECK(kind_of("wire_type") == "fp32, fp16 or bf16");
  CHECK(kind_of("checksums") == "true or false");
  CHECK(kind_of("learning_rate") == "a number that 32 bits can hold");
  CHECK(kind_of("racks") == "NAME:WORKERS,NAME:WORKERS");
  CHECK(kind_of("keys") == "not there");
}

}  // namespace
}  // namespace phub::testing
