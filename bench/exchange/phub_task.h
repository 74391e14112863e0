// One PHub worker of the bench: pushes all keys in backward order, waits for all; gradients whose
// sum is known, and the check of it. Main thread of its process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/base/pattern.h"
#include "bench/base/worker_loop.h"
#include "bench/processes/work.h"
#include "common/base/rule.h"
#include "worker/client/phub.h"

namespace phub::bench {

class PhubTask : public Task {
 public:
  // `keys`: the elements of each, in forward order.
  PhubTask(std::uint32_t index, const Work& work, std::vector<std::uint64_t> keys)
      : index_(index), work_(work), keys_(std::move(keys)) {}

  // Joins the job and, for rules with parameters, initialises them.
  Status connect(const std::vector<std::string>& addresses, const std::string& job = kJobName);

  Status fill(std::uint32_t round) override;
  Status iterate() override;
  Result<std::uint64_t> verify(std::uint32_t round) override;

 protected:
  Client& client() { return *client_; }
  std::size_t keys() const { return keys_.size(); }

 private:
  float weight_decay() const;
  Pattern pattern(std::uint32_t round) const;
  Hyper hyper(float rate, float momentum) const;
  Result<std::uint64_t> verify_update(std::uint32_t round);
  std::vector<float> parameters() const;
  std::vector<std::span<const std::byte>> results() const;
  std::uint64_t result_checksum() const;

  std::uint32_t index_;
  Work work_;
  std::vector<std::uint64_t> keys_;
  std::unique_ptr<Client> client_;
};

}  // namespace phub::bench
