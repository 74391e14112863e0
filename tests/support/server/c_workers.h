// Workers of a server that speak to it through phub_c.h, each in a thread of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/server/test_server.h"
#include "worker/client/phub_c.h"

namespace phub::testing {

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kGuardMs = 60'000;

using Named = std::map<std::string, std::string>;  // options, by their names

// Why the first option that is not taken is not; "" where all are.
inline std::string set_all(phub_options* options, const Named& named) {
  for (const auto& [name, value] : named) {
    const char* error = nullptr;
    if (phub_options_set(options, name.c_str(), value.c_str(), &error) != 0) return error;
    if (error != nullptr) return "an error without a failure";
  }
  return "";
}

class Worker {
 public:
  explicit Worker(const Named& named) {
    phub_options* const options = phub_options_new();
    refusal_ = set_all(options, named);
    client_ = phub_connect(options);
    phub_options_destroy(options);
  }
  ~Worker() { phub_destroy(client_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  operator phub_client*() const { return client_; }  // NOLINT(google-explicit-constructor)

  float* gradient(std::uint32_t key) const {
    return static_cast<float*>(phub_gradient(client_, key, nullptr));
  }
  const float* parameter(std::uint32_t key) const {
    return static_cast<const float*>(phub_parameter(client_, key, nullptr));
  }
  // Of an option, else of the client.
  std::string error() const {
    if (!refusal_.empty()) return refusal_;
    const char* text = phub_error(client_);
    return text == nullptr ? "" : text;
  }

 private:
  std::string refusal_;
  phub_client* client_ = nullptr;
};

inline const std::vector<phub_key> kCKeys = {
    {.name = "a", .elements = 3, .weight_decay = 0.0F, .exclude_from_lars = 0},
    {.name = "b", .elements = 5, .weight_decay = 0.0F, .exclude_from_lars = 0}};

struct Place {
  std::unique_ptr<TestServer> server = std::move(*TestServer::start(1));
  std::string address = server->address();
  Named options = {{"servers", address},
                   {"workers", std::to_string(kWorkers)},
                   {"transport", "shm"},
                   {"timeout_ms", std::to_string(kGuardMs)}};

  // Each worker in a thread of its own; what `body` says went wrong.
  std::vector<std::string> run(const std::function<std::string(const Worker&)>& body) const {
    std::vector<std::string> wrong(kWorkers);
    std::vector<std::thread> threads;
    for (std::uint32_t index = 0; index < kWorkers; ++index) {
      threads.emplace_back([&, index] {
        Named own = options;
        own["worker_index"] = std::to_string(index);
        const Worker worker(own);
        if (phub_register_keys(worker, kCKeys.data(), kCKeys.size()) != 0) {
          wrong[index] = worker.error();
        } else if (phub_worker_index(worker) != index || phub_workers(worker) != kWorkers) {
          wrong[index] = "another index";
        } else {
          wrong[index] = body(worker);
          if (wrong[index].empty()) wrong[index] = worker.error();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong;
  }
};

inline const std::vector<std::string> kNothingWrong(kWorkers);

// Both keys are pushed and waited for; what went wrong.
inline std::string exchange(const Worker& worker) {
  if (phub_push(worker, 0) != 0 || phub_push(worker, 1) != 0) return "push";
  return phub_wait_all(worker) == 0 ? "" : "wait_all";
}
inline std::string exchange(const Worker& worker, float rate, float scale) {
  return phub_set_hyper(worker, rate, 0.0F, scale) == 0 ? exchange(worker) : "set_hyper";
}

}  // namespace phub::testing
