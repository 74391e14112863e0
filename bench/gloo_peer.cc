// phub-bench-gloo: Gloo's allreduce over TCP on the loopback address, one process for each worker.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "bench/peer.h"

namespace {

using phub::Code;
using phub::Status;

constexpr std::chrono::milliseconds kTimeout{120'000};
constexpr int kTurns = 3;
constexpr int kRounds = 3;

// Gloo reports errors by exceptions; they end here.
Status guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return {Code::kUnavailable, fmt::format("Gloo: {}", error.what())};
  }
  return {};
}

class GlooTask final : public phub::bench::PeerTask {
 public:
  using PeerTask::PeerTask;

  Status connect() {
    return guarded([this] {
      gloo::transport::tcp::attr attributes;
      attributes.hostname = "127.0.0.1";
      auto device = gloo::transport::tcp::CreateDevice(attributes);
      gloo::rendezvous::FileStore store(options().directory);
      context_ = std::make_shared<gloo::rendezvous::Context>(
          static_cast<int>(options().hello.index), static_cast<int>(options().workers));
      context_->setTimeout(kTimeout);
      context_->connectFullMesh(store, device);
    });
  }

  // Makes the algorithm ready; for "ring" the faster of Gloo's two, by a vote of all processes.
  Status choose() {
    return guarded([this] {
      if (options().algorithm == "halving-doubling") {
        use_halving_doubling();
        return;
      }
      double ring = std::numeric_limits<double>::max();
      double chunked = ring;
      for (int turn = 0; turn < kTurns; ++turn) {  // in turns, because the machine's speed drifts
        use_ring();
        ring = std::min(ring, slowest(measure()));
        use_ring_chunked();
        chunked = std::min(chunked, slowest(measure()));
      }
      if (ring < chunked) use_ring();
    });
  }

  Status iterate() override { return guarded(exchange_); }
  const std::string& chosen() const { return chosen_; }

 private:
  void use_ring() {
    chosen_ = "gloo::allreduce(RING)";
    algorithm_.reset();
    exchange_ = [this] {
      gloo::AllreduceOptions request(context_);
      request.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      request.setOutput(values().data(), values().size());
      request.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(request);
    };
  }

  void use_ring_chunked() {
    chosen_ = "gloo::AllreduceRingChunked";
    algorithm_ = std::make_unique<gloo::AllreduceRingChunked<float>>(
        context_, std::vector<float*>{values().data()}, static_cast<int>(values().size()));
    exchange_ = [this] { algorithm_->run(); };
  }

  void use_halving_doubling() {
    chosen_ = "gloo::AllreduceHalvingDoubling";
    algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        context_, std::vector<float*>{values().data()}, static_cast<int>(values().size()));
    exchange_ = [this] { algorithm_->run(); };
  }

  // Median seconds of a few exchanges after one to warm up.
  double measure() {
    std::array<double, kRounds> seconds{};
    std::fill(values().begin(), values().end(), 0.0F);
    exchange_();
    for (double& one : seconds) {
      const auto start = std::chrono::steady_clock::now();
      exchange_();
      one = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kRounds / 2];
  }

  double slowest(double seconds) {
    gloo::AllreduceOptions request(context_);
    request.setOutput(&seconds, 1);
    request.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    gloo::allreduce(request);
    return seconds;
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  std::function<void()> exchange_;
  std::string chosen_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace phub::bench;
  end_with_parent();
  PeerOptions options = parse_peer_options(argc, argv);
  if (options.elements > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return fail(options.hello, {Code::kInvalidArgument, "Gloo counts elements in an int"});
  }
  GlooTask task(options);
  if (Status status = task.connect(); !status.ok()) return fail(options.hello, status);
  if (Status status = task.choose(); !status.ok()) return fail(options.hello, status);
  options.hello.note = task.chosen();
  auto channel = say_hello(options.hello);
  return channel ? serve(*channel, task) : 1;
}
