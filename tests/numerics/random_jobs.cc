// Random jobs on whole servers, against one oracle in fp64: whatever the table of contradictions
// takes has to end, and to have the parameters that its formulas say.
//
// Usage: random_jobs [--seeds COUNT] [--first SEED]    or    random_jobs --seed SEED
#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <mutex>

#include "common/job/text.h"
#include "kernels/reference.h"
#include "tests/numerics/roots_oracle.h"
#include "tests/simulation/seeds.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/racks/joined_servers.h"

namespace phub::testing {
namespace {

// Servers stay for the jobs that follow.
class Places {
 public:
  const JoinedServers& of(const RandomJob& job) {
    const bool spans = !job.spec.racks.empty();
    auto& place = places_[{spans ? job.rack_transport : "", job.servers, job.cores,
                           spans ? job.other_cores : 0}];
    if (place == nullptr) {
      JoinedServersOptions options{
          .transport = job.rack_transport, .servers = job.servers, .cores = job.cores};
      options.racks = spans ? 2 : 1;
      if (spans) options.cores_of = {job.cores, job.other_cores};
      options.names = spans ? std::vector<std::string>{"site1/a", "site2/b"}
                            : std::vector<std::string>{"alone"};
      place = std::make_unique<JoinedServers>(options);
    }
    return *place;
  }

 private:
  std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>,
           std::unique_ptr<JoinedServers>>
      places_;
};

template <typename Value>
void fill(Client& client, const RandomJob& job, const Value& value) {
  for (KeyId key = 0; key < job.spec.keys.size(); ++key) {
    std::vector<float> values(job.spec.keys[key].elements);
    for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value(i));
    kernels::reference::convert(client.gradient_bytes(key).data(), job.spec.wire_type,
                                reinterpret_cast<const std::byte*>(values.data()),
                                DataType::kFloat32, values.size());
  }
}

std::vector<float> parameters(const Client& client, const RandomJob& job, KeyId key) {
  std::vector<float> values(job.spec.keys[key].elements);
  kernels::reference::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32,
                              client.parameter_bytes(key).data(), job.spec.wire_type,
                              values.size());
  return values;
}

// What rounding may leave over: of fp32 in a few steps, of 16 bits once more as it is published.
double tolerance(DataType type) {
  if (type == DataType::kFloat32) return 3e-5;
  return type == DataType::kFloat16 ? 1.0 / 512 : 1.0 / 64;
}

Status compare(const Client& client, const RandomJob& job, RootsOracle& oracle,
               std::uint32_t round) {
  const std::uint32_t rack = job.rack_of(client.worker_index());
  for (KeyId key = 0; key < job.spec.keys.size(); ++key) {
    const std::vector<float> values = parameters(client, job, key);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (oracle.is_right(rack, key, i, value, tolerance(job.spec.wire_type))) continue;
      return {Code::kDataLoss, "worker " + std::to_string(client.worker_index()) + ", round " +
                                   std::to_string(round) + ", key " + job.spec.keys[key].name +
                                   "[" + std::to_string(i) + "] is " + std::to_string(values[i]) +
                                   ", not " + std::to_string(oracle.parameter(rack, key, i))};
    }
  }
  return {};
}

// A job with a quorum: equal pushes move every parameter the same way, as often as rounds or
// pushes say.
Status compare_quorum(const Client& client, const RandomJob& job) {
  const JobSpec& spec = job.spec;
  const auto pushes = static_cast<double>(spec.workers * job.rounds);
  for (KeyId key = 0; key < spec.keys.size(); ++key) {
    const std::vector<float> values = parameters(client, job, key);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      const double slack = tolerance(spec.wire_type) * (std::abs(value) + 1.0);
      double least = -slack;
      double most = slack;
      if (is_elastic(spec.rule)) {
        least += -7.0 / 8.0;
        most += 7.0 / 8.0;
      } else if (spec.rule == RuleKind::kSgd) {
        const double all = pushes * static_cast<double>(spec.hyper.learning_rate) / 8.0;
        least += job.parameter(i) - all;
        most += job.parameter(i) + all;
      } else if (!has_parameters(spec.rule)) {
        const double most_pushes = spec.rule == RuleKind::kSum ? spec.workers : 1.0;
        least -= most_pushes / 8.0;
        most += most_pushes / 8.0;
      } else {
        least = -100.0;
        most = 100.0;
      }
      if (value >= least && value <= most) continue;
      return {Code::kDataLoss, "key " + spec.keys[key].name + "[" + std::to_string(i) + "] is " +
                                   std::to_string(value) + ", outside " + std::to_string(least) +
                                   " to " + std::to_string(most)};
    }
  }
  return {};
}

Status push_round(Client& client, const RandomJob& job, std::uint32_t round) {
  const std::uint32_t worker = client.worker_index();
  const double scale = job.scale(round, worker);
  fill(client, job, [&](std::uint64_t i) { return scale * job.pushed(worker, i, round); });
  if (job.votes()) PHUB_RETURN_IF_ERROR(client.set_loss_scale(job.scale(round, worker)));
  for (KeyId key = static_cast<KeyId>(job.spec.keys.size()); key-- > 0;) {
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  if (job.votes()) {
    const bool is_last = worker + 1 == job.spec.workers;
    PHUB_RETURN_IF_ERROR(
        client.vote({.loss_scale = job.scale(round, worker),
                     .overflow = is_last && job.is_skipped(round, job.rack_of(worker)) ? 1U : 0U}));
  }
  return client.wait_all();
}

Status train(Client& client, const RandomJob& job) {
  RootsOracle oracle(job);
  if (has_parameters(job.spec.rule)) {
    fill(client, job, [&](std::uint64_t i) { return job.parameter(i); });
    oracle.initialise([&](std::uint32_t, KeyId, std::uint64_t i) { return job.parameter(i); });
    PHUB_RETURN_IF_ERROR(client.initialise());
    // With a quorum others may have pushed already.
    if (job.is_ordered()) PHUB_RETURN_IF_ERROR(compare(client, job, oracle, 0));
  }
  for (std::uint32_t round = 0; round < job.rounds; ++round) {
    if (job.is_ordered() && has_parameters(job.spec.rule)) {
      Hyper hyper = job.spec.hyper;  // of others nobody takes it
      const std::uint32_t worker = client.worker_index();
      hyper.learning_rate = worker == job.leader_of(worker) ? job.rate(round) : 0.0F;
      oracle.set_rate(job.rate(round));
      PHUB_RETURN_IF_ERROR(client.set_hyper(hyper));
    }
    PHUB_RETURN_IF_ERROR(push_round(client, job, round));
    if (!job.is_ordered()) continue;
    oracle.round(round, [&](std::uint32_t worker, KeyId, std::uint64_t i) {
      return job.pushed(worker, i, round);
    });
    PHUB_RETURN_IF_ERROR(compare(client, job, oracle, round + 1));
  }
  return job.is_ordered() ? Status() : compare_quorum(client, job);
}

std::string run(Places& places, std::uint64_t seed) {
  const RandomJob job = random_job(seed);
  const JoinedServers& place = places.of(job);
  ClientOptions options = options_of(job);
  options.job.keys.clear();
  options.timeout = kHangGuard;
  const Status status = run_workers(
      options, job.spec.keys, [&](Client& client) { return train(client, job); },
      [&](ClientOptions& own) {
        std::uint32_t rack = 0;
        auto before = static_cast<std::uint32_t>(own.worker_index);
        while (rack < own.job.racks.size() && before >= own.job.racks[rack].workers) {
          before -= own.job.racks[rack++].workers;
        }
        own.servers = place.addresses(rack);
      });
  return status.ok() ? "" : status.to_string() + "; its job: " + text_of(job.spec);
}

}  // namespace
}  // namespace phub::testing

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  phub::testing::Places places;
  return phub::simulation::run_seeds(
      argc, argv, [&](std::uint64_t seed) { return phub::testing::run(places, seed); });
}
