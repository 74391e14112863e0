// Two servers' parts in measuring the link between them, in one process, over loopback; and what a
// probe must be to be kept.
#include "server/probe/prober.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <limits>
#include <thread>
#include <vector>

#include "server/phubctl/pki/pki.h"
#include "server/rpc/probes.h"
#include "tests/support/temporary_directory.h"

namespace phub::server {
namespace {

using Catch::Contains;

ProbeTask task_for(const ProbePort& port) {
  return {.address = "127.0.0.1:" + std::to_string(port.port),
          .ticket = port.ticket,
          .seconds = 0.01,
          .bytes = 0};
}

control::Probe probe_of_two() {
  control::Probe probe;
  for (const char* const rack : {"a", "b"}) {
    control::ProbedServer& server = *probe.add_servers();
    server.set_rack(rack);
    server.set_address(std::string(rack) + ".example:7077");
  }
  for (const std::uint32_t from : {0U, 1U}) {
    control::ProbedLink& link = *probe.add_links();
    link.set_from(from);
    link.set_to(1 - from);
    link.set_alpha_seconds(1e-5F);
    link.set_seconds_per_byte(1e-9F);
    link.set_message_seconds(1e-6F);
  }
  return probe;
}

}  // namespace

TEST_CASE("one server listens, another measures with it, again and the other way round") {
  Prober a({});
  Prober b({});
  for (int i = 0; i < 2; ++i) {
    Prober& listens = i == 0 ? a : b;
    Prober& measures = i == 0 ? b : a;
    const auto port = listens.listen();
    REQUIRE(port);
    const auto figures = measures.measure(task_for(*port));
    INFO((figures ? "" : figures.error().to_string()));
    REQUIRE(figures);
    CHECK(figures->alpha_seconds > 0);
    CHECK(figures->there_seconds_per_byte > 0);
    CHECK(figures->back_seconds_per_byte > 0);
    CHECK(figures->message_seconds > 0);
  }
}

TEST_CASE("who has not the ticket measures nothing, and who has it still can") {
  Prober a({});
  Prober b({});
  const auto port = a.listen();
  REQUIRE(port);
  for (const std::string& wrong : {std::string(), std::string("x"), std::string(43, 'A')}) {
    ProbeTask task = task_for(*port);
    task.ticket = wrong;
    const auto refused = b.measure(task);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message(), Contains("its ticket is not this meeting's"));
  }
  CHECK(b.measure(task_for(*port)));
}

TEST_CASE("a server that listens takes part in no other measurement") {
  Prober a({});
  Prober b({});
  REQUIRE(a.listen());
  CHECK(a.listen().error().code() == Code::kResourceExhausted);
  const auto port = b.listen();
  REQUIRE(port);
  CHECK(a.measure(task_for(*port)).error().code() == Code::kResourceExhausted);
}

// Each that waits for the end of another one has a thread of the server's.
TEST_CASE("of those that come while a server measures one waits, and the others are refused") {
  Prober prober({});
  REQUIRE(prober.listen());
  std::atomic<int> refused = 0;
  std::promise<void> all_but_one;
  std::vector<std::thread> callers;
  for (int i = 0; i < 5; ++i) {
    callers.emplace_back([&] {
      const bool is_refused = prober.listen().error().code() == Code::kResourceExhausted;
      if (is_refused && ++refused == 4) all_but_one.set_value();
    });
  }
  // The one waits for three seconds: longer than all others together.
  CHECK(all_but_one.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
  for (std::thread& caller : callers) caller.join();
  CHECK(refused == 5);
}

TEST_CASE("no other hosts are called than those of servers that are known") {
  Prober listens({});
  Prober prober({.is_known = [](const std::string& host) { return host == "127.0.0.1"; }});
  ProbeTask task{.address = "192.0.2.1:80", .ticket = "t", .seconds = 0.01, .bytes = 0};
  const Status refused = prober.measure(task).error();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.message(), Contains("no server of the racks that this one knows is at 192.0"));
  CHECK(prober.measure(task_for(*listens.listen())));
}

TEST_CASE("a measurement is bounded, and a server that does not answer is told") {
  Prober prober({});
  ProbeTask task{.address = "127.0.0.1:1", .ticket = "t", .seconds = 0.01, .bytes = 0};
  CHECK(prober.measure(task).error().code() == Code::kUnavailable);
  for (const double seconds : {0.0, -1.0, 5.1, std::numeric_limits<double>::quiet_NaN()}) {
    task.seconds = seconds;
    CHECK_THAT(prober.measure(task).error().message(), Contains("seconds: "));
  }
  task.seconds = 0.01;
  task.bytes = Prober::kBytesMax + 1;
  CHECK_THAT(prober.measure(task).error().message(), Contains("bytes: "));
  task.bytes = 0;
  task.address = "nowhere";
  CHECK_THAT(prober.measure(task).error().message(), Contains("address"));
}

TEST_CASE("with TLS only servers with a certificate of the same CA measure") {
  const TemporaryDirectory files;
  for (const char* const folder : {"ours", "theirs"}) {
    REQUIRE(phubctl::pki_init({.folder = files.path / folder, .hosts = {"127.0.0.1"}}, true).ok());
  }
  const auto tls_of = [&](const std::string& folder) -> TlsFiles {
    const std::string own = files.path / folder;
    return {.ca = own + "/ca.pem", .certificate = own + "/cert.pem", .key = own + "/key.pem"};
  };
  Prober a({.tls = tls_of("ours/server")});
  Prober in_clear({});
  Prober stranger({.client_tls = tls_of("theirs/worker")});
  Prober b({.client_tls = tls_of("ours/worker")});
  const auto port = a.listen();
  REQUIRE(port);
  CHECK_FALSE(in_clear.measure(task_for(*port)));
  CHECK_FALSE(stranger.measure(task_for(*port)));
  const auto figures = b.measure(task_for(*port));
  INFO((figures ? "" : figures.error().to_string()));
  CHECK(figures);
}

TEST_CASE("a prober that is stopped ends what is under way") {
  Prober a({});
  REQUIRE(a.listen());
  a.stop();
}

TEST_CASE("a probe that makes no sense is refused by its field") {
  CHECK(check_probe(probe_of_two()).ok());
  const auto message = [](const auto& change) {
    control::Probe probe = probe_of_two();
    change(probe);
    return check_probe(probe).message();
  };
  using control::Probe;
  CHECK_THAT(message([](Probe& p) { p.clear_servers(); }), Contains("probe.servers: 2 to 64"));
  CHECK_THAT(message([](Probe& p) {
               for (int i = 0; i < 63; ++i) *p.add_servers() = p.servers(0);
             }),
             Contains("probe.servers: 2 to 64"));
  CHECK_THAT(message([](Probe& p) { p.mutable_servers(0)->set_rack("a b"); }),
             Contains("servers.rack"));
  CHECK_THAT(message([](Probe& p) { p.mutable_servers(0)->set_address("a"); }),
             Contains("servers.address"));
  CHECK_THAT(message([](Probe& p) { *p.mutable_servers(0) = p.servers(1); }),
             Contains("listed twice"));
  CHECK_THAT(message([](Probe& p) { p.mutable_links(0)->set_to(2); }), Contains("from and to"));
  CHECK_THAT(message([](Probe& p) { p.mutable_links(0)->set_to(0); }), Contains("from and to"));
  CHECK_THAT(message([](Probe& p) { *p.mutable_links(0) = p.links(1); }), Contains("listed twice"));
  for (const float wrong : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 3601.0F}) {
    CHECK_THAT(message([&](Probe& p) { p.mutable_links(0)->set_alpha_seconds(wrong); }),
               Contains("above 0 and at most an hour"));
    CHECK_THAT(message([&](Probe& p) { p.mutable_links(0)->set_seconds_per_byte(wrong); }),
               Contains("above 0 and at most an hour"));
    CHECK_THAT(message([&](Probe& p) { p.mutable_links(0)->set_message_seconds(wrong); }),
               Contains("above 0 and at most an hour"));
  }
}

}  // namespace phub::server
