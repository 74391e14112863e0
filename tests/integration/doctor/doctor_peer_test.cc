// Two doctors in one process: over loopback tcp, and over a libibverbs that lives in the process.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "server/doctor/peer/judge.h"
#include "server/phubctl/pki/pki.h"
#include "tests/support/doctor_listener.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/transports/fake_verbs.h"

namespace phub::doctor {
namespace {

using Catch::Contains;

const std::atomic<bool> kNeverStops{false};

MeetOptions peer_of(const DoctorListener& listener) {
  return {.address = listener.address(),
          .paths = {},
          .choices = {},
          .seconds = 0.02,
          .limits = {.stop = &kNeverStops}};
}

ListenOptions listener_with(const std::vector<std::string>& devices) {
  return {.address = {},
          .paths = {},
          .choices = {.devices = devices, .gid_index = {}},
          .limits = {.stop = nullptr}};
}

void check_numbers(const LinkTrial& trial) {
  INFO(trial.status.to_string());
  CHECK(trial.status.ok());
  CHECK(trial.ping_seconds > 0);
  CHECK(trial.chunk_seconds > 0);
  CHECK(trial.bytes_per_second_there > 0);
  CHECK(trial.bytes_per_second_back > 0);
  CHECK(trial.verified_here);
  CHECK(trial.verified_there);
}

}  // namespace

TEST_CASE("two doctors measure tcp and verbs between them, one peer after another") {
  {
    DoctorListener listener(listener_with({}));
    for (int i = 0; i < 2; ++i) {
      const Meeting meeting = meet(peer_of(listener));
      INFO(meeting.met.to_string());
      REQUIRE(meeting.met.ok());
      CHECK(meeting.there.rdma.device == "fake0");
      CHECK(meeting.here.rdma.gid_reason.starts_with("chosen"));
      REQUIRE(meeting.tcp);
      check_numbers(*meeting.tcp);
      REQUIRE(meeting.verbs);
      check_numbers(*meeting.verbs);
      CHECK(severity_of(judge(meeting, {})) == Severity::kOk);
    }
    const auto& lines = listener.stop();
    CHECK(listener.ended().ok());
    CHECK(std::count_if(lines.begin(), lines.end(),
                        [](const std::string& line) { return line.ends_with(": done"); }) == 2);
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("without RDMA at one end tcp is measured, and the reason is told") {
  DoctorListener listener(listener_with({"mlx5_9"}));
  const Meeting meeting = meet(peer_of(listener));
  REQUIRE(meeting.met.ok());
  check_numbers(*meeting.tcp);
  CHECK_FALSE(meeting.verbs);
  CHECK_THAT(meeting.there.rdma.obstacle, Contains("mlx5_9"));
  CHECK(severity_of(judge(meeting, {})) == Severity::kWarn);
  MeetOptions here = peer_of(listener);
  here.choices.devices = {"mlx5_8"};
  CHECK_THAT(meet(here).here.rdma.obstacle, Contains("mlx5_8"));
}

TEST_CASE("memory that cannot be registered, here or there, fails verbs with the cure") {
  const int registrations = GENERATE(0, 2);
  INFO(registrations << " registrations succeed");
  fake_verbs::behaviour().registrations = registrations;
  Meeting meeting;
  {
    const DoctorListener listener(listener_with({}));
    meeting = meet(peer_of(listener));
  }
  fake_verbs::behaviour().registrations = -1;
  REQUIRE(meeting.tcp);
  check_numbers(*meeting.tcp);
  REQUIRE(meeting.verbs);
  CHECK_THAT(meeting.verbs->status.message(), Contains("memlock"));
  CHECK(severity_of(judge(meeting, {})) == Severity::kFail);
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("a connection that breaks fails verbs, and the listener serves on") {
  DoctorListener listener(listener_with({}));
  MeetOptions options = peer_of(listener);
  options.progress = [](const std::string& what) {
    if (what == "verbs: bandwidth to it") fake_verbs::fail_next_write(IBV_WC_RETRY_EXC_ERR);
  };
  const Meeting meeting = meet(options);
  REQUIRE(meeting.verbs);
  CHECK(meeting.verbs->status.code() == Code::kUnavailable);
  CHECK(meeting.verbs->chunk_seconds > 0);
  CHECK(meet(peer_of(listener)).verbs->status.ok());
}

TEST_CASE("errors counted while measuring, and a card's speed, are found at both ends") {
  const TemporaryDirectory files;
  const auto card = files.path / "class/infiniband/fake0";
  std::filesystem::create_directories(card / "device");
  std::filesystem::create_directories(card / "ports/1/hw_counters");
  const auto set = [&](const char* name, const std::string& value) {
    std::ofstream(card / "ports/1" / name) << value << "\n";
  };
  set("rate", "1000000 Gb/sec (invented)");
  set("hw_counters/packet_seq_err", "3");
  ListenOptions there = listener_with({});
  there.paths.sysfs = files.path.string();
  DoctorListener listener(there);
  MeetOptions options = peer_of(listener);
  options.paths.sysfs = files.path.string();
  options.progress = [&](const std::string& what) {
    if (what == "verbs: bandwidth to it") set("hw_counters/packet_seq_err", "5");
  };
  const Findings findings = judge(meet(options), {});
  const auto count = [&](const std::string& check, const std::string& text) {
    return std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.severity == Severity::kWarn && finding.check == check &&
             finding.text.find(text) != std::string::npos;
    });
  };
  CHECK(count("counters", "while measuring, losses: packet_seq_err 2") == 2);
  CHECK(count("speed", "of the slower card's 1000000 Gb/sec") == 1);
}

TEST_CASE("a peer that stops reports what it has, and the listener serves the next") {
  DoctorListener listener(listener_with({}));
  std::atomic<bool> stop{false};
  MeetOptions options = peer_of(listener);
  options.limits.stop = &stop;
  options.progress = [&](const std::string& what) { stop = what == "tcp: bandwidth to it"; };
  const Meeting meeting = meet(options);
  CHECK(meeting.tcp->status.code() == Code::kAborted);
  CHECK(meeting.tcp->chunk_seconds > 0);
  CHECK_FALSE(meeting.verbs);
  CHECK(severity_of(judge(meeting, {})) == Severity::kWarn);
  CHECK(meet(peer_of(listener)).tcp->status.ok());
}

TEST_CASE("a listener that ends while it is measured with is found at once") {
  DoctorListener listener(listener_with({}));
  MeetOptions options = peer_of(listener);
  options.progress = [&](const std::string& what) {
    if (what == "verbs: bandwidth from it") listener.stop();
  };
  options.limits.silence = options.limits.message = std::chrono::hours(1);
  const Meeting meeting = meet(options);
  check_numbers(*meeting.tcp);
  REQUIRE(meeting.verbs);
  CHECK(meeting.verbs->status.code() == Code::kUnavailable);
  CHECK(meeting.verbs->bytes_per_second_there > 0);
}

TEST_CASE("with certificates only those of the same CA meet") {
  const TemporaryDirectory files;
  const auto make = [&](const std::string& folder) {
    REQUIRE(phubctl::pki_init({.folder = files.path / folder, .hosts = {"127.0.0.1"}}, true).ok());
  };
  const auto tls_of = [&](const std::string& folder) -> TlsFiles {
    const std::string own = files.path / folder;
    return {.ca = own + "/ca.pem", .certificate = own + "/cert.pem", .key = own + "/key.pem"};
  };
  make("ours");
  make("theirs");
  ListenOptions there = listener_with({});
  there.tls = tls_of("ours/server");
  const DoctorListener listener(there);
  MeetOptions options = peer_of(listener);
  options.tls = tls_of("ours/admin");
  const Meeting meeting = meet(options);
  INFO(meeting.met.to_string());
  REQUIRE(meeting.tcp);
  check_numbers(*meeting.tcp);
  for (const TlsFiles& wrong :
       {TlsFiles{}, TlsFiles{.ca = tls_of("ours/admin").ca}, tls_of("theirs/admin")}) {
    options.tls = wrong;
    const Meeting stranger = meet(options);
    CHECK(stranger.met.code() == Code::kInvalidArgument);
    CHECK_THAT(stranger.met.message(), Contains("credentials"));
    CHECK(stranger.there.host.empty());
  }
}

TEST_CASE("nobody there is told from a name that does not exist") {
  Address free;
  {
    const DoctorListener taken(listener_with({}));
    free = taken.address();
  }
  MeetOptions options{.address = free,
                      .paths = {},
                      .choices = {},
                      .seconds = 0.02,
                      .limits = {.stop = &kNeverStops}};
  CHECK(meet(options).met.code() == Code::kUnavailable);
  options.address.host = std::string(70, 'x');  // too long for a name: nobody is asked
  CHECK(meet(options).met.code() == Code::kNotFound);
}

}  // namespace phub::doctor
