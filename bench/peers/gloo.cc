// phub-bench-gloo: Gloo's allreduce over TCP, one process for each worker.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bench/base/statistics.h"
#include "bench/peers/peer.h"

namespace {

using phub::Code;
using phub::Status;

constexpr std::chrono::milliseconds kTimeout{120'000};
constexpr int kTurns = 3;

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
      attributes.hostname = options().host;
      auto device = gloo::transport::tcp::CreateDevice(attributes);
      gloo::rendezvous::FileStore files(options().directory);
      for (const auto& [context, name] :
           {std::pair{&collectives_, "collectives"}, std::pair{&algorithms_, "algorithms"}}) {
        gloo::rendezvous::PrefixStore store(name, files);
        auto mesh = std::make_shared<gloo::rendezvous::Context>(
            static_cast<int>(options().hello.index), static_cast<int>(options().workers));
        mesh->setTimeout(kTimeout);
        mesh->connectFullMesh(store, device);
        *context = std::move(mesh);
      }
    });
  }

  // Makes the algorithm ready; for "ring" the faster of Gloo's two, by a vote of all processes.
  Status choose() {
    return guarded([this] {
      if (options().algorithm == "halving-doubling") {
        use<gloo::AllreduceHalvingDoubling<float>>("gloo::AllreduceHalvingDoubling");
        return;
      }
      double ring = std::numeric_limits<double>::max();
      double chunked = ring;
      for (int turn = 0; turn < kTurns; ++turn) {  // in turns, because the machine's speed drifts
        use_ring();
        ring = std::min(ring, slowest(measure()));
        use<gloo::AllreduceRingChunked<float>>("gloo::AllreduceRingChunked");
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
    exchange_ = [this] {
      gloo::AllreduceOptions request(collectives_);
      request.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      request.setOutput(values().data(), values().size());
      request.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      request.setTag(++operations_);
      gloo::allreduce(request);
    };
  }

  // An algorithm that has run stays alive: its neighbours may still be sending to its buffers.
  template <typename Allreduce>
  void use(const char* name) {
    chosen_ = name;
    if (!algorithm_) {
      algorithm_ = std::make_unique<Allreduce>(algorithms_, std::vector<float*>{values().data()},
                                               static_cast<int>(values().size()));
    }
    exchange_ = [this] { algorithm_->run(); };
  }

  double timed() {
    const auto start = std::chrono::steady_clock::now();
    exchange_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // Median seconds of a few exchanges, more of them where they are short, after one to warm up. Of
  // those that take seconds one is enough, as all processes agree.
  double measure() {
    constexpr std::size_t kElements = 2'000'000;
    constexpr double kLong = 2.0;  // seconds
    std::fill(values().begin(), values().end(), 0.0F);
    const bool is_long = slowest(timed()) > kLong;
    const std::size_t few = std::clamp<std::size_t>(kElements / values().size(), 3, 200);
    std::vector<double> seconds(is_long ? 1 : few);
    for (double& one : seconds) one = timed();
    return phub::bench::median(seconds);
  }

  double slowest(double seconds) {
    gloo::AllreduceOptions request(collectives_);
    request.setOutput(&seconds, 1);
    request.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    request.setTag(++operations_);
    gloo::allreduce(request);
    return seconds;
  }

  // Gloo's old algorithm classes and its new functions hang when they take turns on one mesh.
  std::shared_ptr<gloo::Context> collectives_;
  std::shared_ptr<gloo::Context> algorithms_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  std::function<void()> exchange_;
  std::uint32_t operations_ = 0;  // Gloo wants a tag of its own for each that may overlap another
  std::string chosen_;
};

}  // namespace

static phub::Status run(phub::bench::PeerOptions options) {
  using namespace phub::bench;
  if (options.elements > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return tell(options.hello, {Code::kInvalidArgument, "Gloo counts elements in an int"});
  }
  GlooTask task(options);
  if (Status status = task.connect(); !status.ok()) return tell(options.hello, status);
  if (Status status = task.choose(); !status.ok()) return tell(options.hello, status);
  options.hello.note = task.chosen();
  return serve(options.hello, task);
}

int main(int argc, char** argv) {
  phub::bench::end_with_parent();
  return phub::bench::exit_code_of(run(phub::bench::parse_peer_options(argc, argv)));
}
