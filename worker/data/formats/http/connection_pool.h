// The connections to the server of one file, or of a set's files. Each is one thread's for a while,
// and is kept afterwards.
//
// Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/data/formats/http/connection.h"

namespace phub::data {

class ConnectionPool {
 public:
  explicit ConnectionPool(const HttpOptions& options) : options_(options) {}

  struct GiveBack {
    ConnectionPool* pool;
    void operator()(HttpConnection* connection) const { pool->give_back(connection); }
  };
  using Lease = std::unique_ptr<HttpConnection, GiveBack>;

  // A connection that nobody uses; made while there are fewer than options.connections. Waits for
  // one as long as one may be in use. Errors: kUnavailable, kResourceExhausted.
  Result<Lease> take();

 private:
  void give_back(HttpConnection* connection);

  const HttpOptions options_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<HttpConnection>> idle_;
  std::uint32_t in_use_ = 0;
};

}  // namespace phub::data
