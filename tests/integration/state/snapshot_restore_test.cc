// Snapshots of running jobs over gRPC, and training that goes on from them on another server.
#include <catch2/catch.hpp>
#include <climits>
#include <cstring>
#include <future>

#include "common/tensors/safetensors.h"
#include "tests/support/hang_guard.h"
#include "tests/support/lab.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using control::Snapshots;
using std::chrono::milliseconds;

const std::vector<KeySpec> kKeys = {{"a", 50'000}, {"b", 7}, {"c", 20'000, 0.01F}};
constexpr int kStepsAfter = 10;

// A server on a state folder that outlives it.
struct Place {
  explicit Place(server::DaemonOptions with = {}) : options(std::move(with)) {
    spdlog::set_level(spdlog::level::off);
    options.data_plane.cores = 2;
    options.tenancy.state_folder = folder.path / "state";
    restart();
  }
  void restart() {
    server.reset();
    server = std::move(*TestServer::start(options));
    stub = Snapshots::NewStub(
        grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
  }
  ClientOptions job(const std::string& transport, DataType wire = DataType::kFloat32) const {
    return {.servers = {server->address()},
            .job = {.name = "demo",
                    .workers = 2,
                    .wire_type = wire,
                    .rule = RuleKind::kMomentum,
                    .hyper = {.learning_rate = 0.01F, .momentum = 0.9F, .gradient_scale = 0.0F}},
            .transport = transport,
            .timeout = kHangGuard};
  }
  grpc::Status take(std::uint64_t round, std::uint32_t timeout_ms = 60'000) {
    control::TakeRequest request;
    request.set_name("demo");
    request.set_round(round);
    request.set_timeout_ms(timeout_ms);
    return ask(*stub, "", &Snapshots::Stub::Take, request, taken);
  }
  std::vector<control::SnapshotInfo> list() {
    control::ListSnapshotsReply reply;
    REQUIRE(ask(*stub, "", &Snapshots::Stub::List, control::ListSnapshotsRequest(), reply).ok());
    return {reply.snapshots().begin(), reply.snapshots().end()};
  }
  void restore(const std::string& file, std::uint32_t workers = 0) {
    control::RestoreRequest request;
    request.set_file(file);
    request.set_workers(workers);
    control::RestoreReply reply;
    const grpc::Status status = ask(*stub, "", &Snapshots::Stub::Restore, request, reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
  }
  TemporaryDirectory folder;
  server::DaemonOptions options;
  std::unique_ptr<TestServer> server;
  std::unique_ptr<Snapshots::Stub> stub;
  control::TakeReply taken;
};

// Depends on the step, the worker and the key only; small and finite in every wire type. Workers
// beyond the second push what the first two do: a mean over them is the same.
void fill(Client& client, KeyId key, int step) {
  const std::uint64_t seed =
      static_cast<std::uint64_t>(step) * 7 + client.worker_index() % 2 * 3 + key;
  const std::size_t bytes = client.gradient_bytes(key).size() / kKeys[key].elements;
  for (std::uint64_t i = 0; i < kKeys[key].elements; ++i) {
    const auto value = static_cast<std::uint16_t>((i * 31 + seed) % 101);
    if (bytes == sizeof(float)) {
      client.gradient<float>(key)[i] = (static_cast<float>(value) - 50.0F) * 1e-3F;
    } else {  // fp16: 2^-10 and up, of both signs
      client.gradient<std::uint16_t>(key)[i] =
          static_cast<std::uint16_t>(0x1400U + value * 8U + (i % 2U) * 0x8000U);
    }
  }
}

Status train_step(Client& client, int step) {
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    fill(client, key, step);
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return client.wait_all();
}

Status begin(Client& client) {
  for (KeyId key = 0; key < kKeys.size(); ++key) fill(client, key, 1000);
  return client.initialise();
}

std::string parameters_of(const Client& client) {
  std::string all;
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    const auto bytes = client.parameter_bytes(key);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

struct Trained {
  int last_step = 0;
  std::string parameters;
};

// A job that is snapshotted while it trains, and some steps more.
Trained train_through_snapshot(Place& place, const ClientOptions& job) {
  Trained trained;
  std::atomic<int> last_step{INT_MAX};
  grpc::Status taken;
  const Status status = run_workers(job, kKeys, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(begin(client));
    std::future<grpc::Status> snapshot;
    int step = 0;
    for (; step <= last_step.load(); ++step) {
      PHUB_RETURN_IF_ERROR(train_step(client, step));
      if (client.worker_index() != 0) continue;
      if (step == 3) snapshot = std::async(std::launch::async, [&] { return place.take(0); });
      const bool is_done =
          snapshot.valid() && snapshot.wait_for(milliseconds(0)) == std::future_status::ready;
      if (!is_done) continue;
      taken = snapshot.get();
      last_step.store(step + kStepsAfter);  // the other one is a step ahead at most
    }
    if (client.worker_index() == 0) trained = {step - 1, parameters_of(client)};
    return {};
  });
  INFO(status.message() << taken.error_message());
  REQUIRE(status.ok());
  REQUIRE(taken.ok());
  return trained;
}

// Round R is the first round, which carries the initial values, and R - 1 steps.
void train_on(const ClientOptions& job, std::uint64_t round, const Trained& until) {
  std::string parameters;
  const Status status = run_workers(job, kKeys, [&](Client& client) -> Status {
    for (KeyId key = 0; key < kKeys.size(); ++key) fill(client, key, 77);  // these do not count
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (int step = static_cast<int>(round) - 1; step <= until.last_step; ++step) {
      PHUB_RETURN_IF_ERROR(train_step(client, step));
    }
    if (client.worker_index() == 0) parameters = parameters_of(client);
    return {};
  });
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK((parameters == until.parameters));
}

}  // namespace

TEST_CASE("a restored job trains on bit by bit as the first one did") {
  for (const DataType wire : {DataType::kFloat32, DataType::kFloat16}) {
    for (const char* const transport : {"shm", "tcp"}) {
      INFO(transport << " " << size_of(wire));
      Place place;
      const Trained first = train_through_snapshot(place, place.job(transport, wire));
      const control::SnapshotInfo info = place.taken.snapshot();
      CHECK(info.round() >= 5);
      CHECK(static_cast<int>(info.round()) <= first.last_step - kStepsAfter + 3);
      CHECK(place.taken.pause_seconds() > 0);
      place.restart();
      place.restore(info.file());
      train_on(place.job(transport, wire), info.round(), first);
    }
  }
}

// In fp16 sums of these pushes are exact, so that as many of each have the same bits.
TEST_CASE("four workers go on with what two began, and two with what four began") {
  for (const std::uint32_t workers : {2U, 4U}) {
    Place place;
    ClientOptions job = place.job("shm", DataType::kFloat16);
    job.job.workers = workers;
    const Trained first = train_through_snapshot(place, job);
    const control::SnapshotInfo info = place.taken.snapshot();
    place.restart();
    place.restore(info.file(), 6 - workers);
    job = place.job("shm", DataType::kFloat16);
    job.job.workers = 6 - workers;
    train_on(job, info.round(), first);
  }
}

TEST_CASE("a restored job survives a restart of its server") {
  Place place;
  const Trained first = train_through_snapshot(place, place.job("shm"));
  const control::SnapshotInfo info = place.taken.snapshot();
  place.restart();
  place.restore(info.file());
  place.restart();
  train_on(place.job("shm"), info.round(), first);
}

TEST_CASE("a snapshot that is taken before the restored job trains has that round again") {
  Place place;
  const Trained first = train_through_snapshot(place, place.job("shm"));
  const control::SnapshotInfo info = place.taken.snapshot();
  const auto tensors_of = [&](const control::SnapshotInfo& taken) {
    const auto path = place.folder.path / "state" / "snapshots" / taken.file();
    return read_safetensors(path).value().tensors;
  };
  const std::vector<NamedTensor> before = tensors_of(info);
  place.restart();
  place.restore(info.file());
  grpc::Status taken;
  grpc::Status refused;
  const Status status = run_workers(place.job("shm"), kKeys, [&](Client& client) -> Status {
    if (client.worker_index() == 0) {
      refused = place.take(info.round() - 1);
      auto snapshot = std::async(std::launch::async, [&] { return place.take(0); });
      PHUB_RETURN_IF_ERROR(client.initialise());
      taken = snapshot.get();
      return {};
    }
    return client.initialise();
  });
  INFO(status.message() << taken.error_message());
  REQUIRE(status.ok());
  REQUIRE(taken.ok());
  CHECK(place.taken.snapshot().round() == info.round());
  CHECK((tensors_of(place.taken.snapshot()) == before));
  CHECK_THAT(refused.error_message(), Contains("is over already"));
}

TEST_CASE("a job that keeps no parameters here is not snapshotted, and is told why") {
  Place place;
  ClientOptions job = place.job("shm");
  job.job.rule = RuleKind::kSum;
  job.job.hyper = {.gradient_scale = 0.0F};
  const Status status = run_workers(job, kKeys, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(train_step(client, 0));
    if (client.worker_index() != 0) return {};
    const grpc::Status taken = place.take(0);
    const bool is_refused = taken.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
                            taken.error_message().find("keeps no parameters") != std::string::npos;
    return is_refused ? Status() : Status(Code::kInternal, taken.error_message());
  });
  INFO(status.message());
  CHECK(status.ok());
  CHECK(place.list().empty());
}

TEST_CASE("a snapshot that the server has no memory for is refused with the figures") {
  // The job takes 1.2 MiB with what it stages and its tables, a snapshot 0.6 MiB while it is made.
  for (const std::uint64_t limit_kib : {1536U, 3072U}) {
    server::DaemonOptions options;
    options.data_plane.memory_limit_bytes = limit_kib << 10U;
    Place place(options);
    grpc::Status taken;
    const Status status = run_workers(place.job("shm"), kKeys, [&](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(begin(client));
      if (client.worker_index() != 0) return {};
      taken = place.take(0);
      if (taken.ok()) taken = place.take(0);  // the first one's memory is given back
      return {};
    });
    INFO(status.message() << taken.error_message());
    REQUIRE(status.ok());
    CHECK(taken.ok() == (limit_kib == 3072));
    if (taken.ok()) continue;
    CHECK(taken.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    CHECK_THAT(taken.error_message(), Contains("the snapshot needs 1 MiB") &&
                                          Contains("MiB of memory_limit_mib 1 are taken"));
  }
}

TEST_CASE("rounds that are over, and rounds that do not end, are refused by their number") {
  for (const char* const transport : {"shm", "tcp"}) {
    Place place;
    grpc::Status over;
    grpc::Status late;
    grpc::Status finished;
    std::promise<void> asked;
    auto was_asked = asked.get_future().share();
    const Status status = run_workers(place.job(transport), kKeys, [&](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(begin(client));
      PHUB_RETURN_IF_ERROR(client.push_pull(0));  // round 2 of key a only
      if (client.worker_index() == 0) {
        over = place.take(1);
        late = place.take(0, 200);
        asked.set_value();
      }
      was_asked.wait();
      PHUB_RETURN_IF_ERROR(client.push(1));
      PHUB_RETURN_IF_ERROR(client.push(2));
      PHUB_RETURN_IF_ERROR(client.wait_all());
      if (client.worker_index() == 0) finished = place.take(2);
      return {};
    });
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(over.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
    CHECK_THAT(over.error_message(), Contains("round 1 is over already"));
    CHECK(late.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
    CHECK_THAT(late.error_message(), Contains("did not finish round 2 within 200 ms"));
    CHECK(finished.ok());
  }
}

TEST_CASE("a job that waits long for its snapshot does not hold up another's") {
  Place place;
  std::future<grpc::Status> long_wait;
  std::promise<void> done;
  auto is_done = done.get_future().share();
  ClientOptions other = place.job("shm");
  other.job.name = "other";
  grpc::Status taken;
  const Status status = run_workers(place.job("shm"), kKeys, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(begin(client));
    if (client.worker_index() != 0) {
      is_done.wait();
      return {};
    }
    control::TakeReply never;
    control::TakeRequest request;
    request.set_name("demo");
    request.set_round(1000);
    grpc::ClientContext context;
    auto waiting =
        std::async(std::launch::async, [&] { return place.stub->Take(&context, request, &never); });
    const Status ran = run_workers(other, kKeys, [&](Client& second) -> Status {
      PHUB_RETURN_IF_ERROR(begin(second));
      if (second.worker_index() != 0) return {};
      control::TakeRequest now;
      now.set_name("other");
      now.set_timeout_ms(60'000);
      control::TakeReply reply;
      taken = ask(*place.stub, "", &Snapshots::Stub::Take, now, reply);
      return {};
    });
    const bool still_waits = waiting.wait_for(milliseconds(0)) == std::future_status::timeout;
    context.TryCancel();
    done.set_value();
    static_cast<void>(waiting.get());
    if (!still_waits) return {Code::kInternal, "the long wait was over"};
    return ran;
  });
  INFO(status.message() << taken.error_message());
  CHECK(status.ok());
  CHECK(taken.ok());
}

TEST_CASE("a drain with snapshots writes one of what still runs before it ends it") {
  server::DaemonOptions options;
  options.drain_timeout = milliseconds(50);
  options.drain_snapshots = true;
  Place place(options);
  std::promise<void> trains;
  std::future<void> is_training = trains.get_future();
  auto job = std::async(std::launch::async, [&] {
    return run_workers(place.job("tcp"), kKeys, [&](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(begin(client));
      for (int step = 0;; ++step) {
        PHUB_RETURN_IF_ERROR(train_step(client, step));
        if (step == 3 && client.worker_index() == 0) trains.set_value();
      }
    });
  });
  REQUIRE(is_training.wait_for(kHangGuard) == std::future_status::ready);
  place.server->daemon().drain();
  CHECK(place.server->daemon().wait_until_drained(kHangGuard));
  CHECK_THAT(job.get().message(), Contains("drained"));
  place.restart();
  const auto snapshots = place.list();
  REQUIRE(snapshots.size() == 1);
  CHECK(snapshots[0].round() >= 5);
  place.restore(snapshots[0].file());
}

}  // namespace phub::testing
