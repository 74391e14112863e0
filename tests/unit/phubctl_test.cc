#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "proto/control.pb.h"
#include "server/phubctl_json.h"
#include "server/phubctl_table.h"

namespace phub::phubctl {
namespace {

TEST_CASE("a table aligns its columns to the widest cell and ends no line with blanks") {
  Table table({{"NAME"}, {"BYTES", Align::kRight}, {"NOTE"}});
  table.add({"a", "1", ""});
  table.add({"longer", "1,000", "x"});
  table.add({"\xC3\xA9t\xC3\xA9", "10", ""});  // three characters in five bytes
  CHECK(table.to_string() ==
        "NAME    BYTES  NOTE\n"
        "a           1\n"
        "longer  1,000  x\n"
        "\xC3\xA9t\xC3\xA9        10\n");
}

TEST_CASE("bytes are shown in the unit that keeps them short") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1000) == "1000 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(1024 * 1024 - 1) == "1.0 MiB");
  CHECK(human_bytes(102'228'128) == "97.5 MiB");
  CHECK(human_bytes(UINT64_MAX) == "16384.0 PiB");
}

TEST_CASE("counts, seconds and shares are shown as people write them") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1000) == "1,000");
  CHECK(human_count(25'557'032) == "25,557,032");
  CHECK(human_seconds(0.25) == "0.2 s");
  CHECK(human_seconds(303.0) == "5 min 03 s");
  CHECK(human_seconds(7500.0) == "2 h 05 min");
  CHECK(human_share(0.125) == "12.5 %");
}

TEST_CASE("messages become one line of JSON with numbers as numbers and short enumerators") {
  control::InspectJobReply reply;
  control::JobInfo& job = *reply.mutable_job();
  job.set_job_id(3);
  job.set_state(control::JOB_STATE_RUNNING);
  job.mutable_spec()->set_name("a \"b\"");
  job.mutable_spec()->set_wire_type(control::WIRE_TYPE_BF16);
  job.mutable_spec()->set_rule(control::RULE_NESTEROV);
  job.mutable_spec()->set_learning_rate(0.05F);
  job.add_members()->set_worker_index(7);
  job.mutable_statistics()->set_bytes_sent(UINT64_MAX);
  const std::string json = to_json(reply);
  for (const char* part :
       {"\"job_id\":3", "\"state\":\"running\"", "\"name\":\"a \\\"b\\\"\"",
        "\"wire_type\":\"bf16\"", "\"rule\":\"nesterov\"", "\"learning_rate\":0.05,",
        "\"worker_index\":7", "\"left\":false", "\"bytes_sent\":18446744073709551615"}) {
    CHECK_THAT(json, Catch::Matchers::Contains(part));
  }
  CHECK(json.find('\n') == std::string::npos);
}

TEST_CASE("repeated numbers become JSON arrays") {
  control::HeartbeatReply reply;
  reply.add_workers_left(2);
  reply.add_workers_left(5);
  CHECK(to_json(reply) == "{\"running\":false,\"reason\":\"\",\"workers_left\":[2,5]}");
}

}  // namespace
}  // namespace phub::phubctl
