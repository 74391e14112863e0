// Rates of jobs and cores over the last ten minutes, for a page that was opened only now.
//
// Bounded: 150 points, each of 256 jobs at most, take less than a MiB. Owned by PageData; any
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "proto/page.pb.h"

namespace phub::server {

// What a job has done since it was made.
struct JobTotals {
  std::uint64_t job_id = 0;
  double rounds = 0.0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
};

struct Totals {
  std::vector<JobTotals> jobs;                  // live ones, by id
  std::vector<std::uint64_t> busy_nanoseconds;  // of each core, since the start
};

class RateHistory {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kInterval{4};
  static constexpr std::size_t kPoints = 150;
  static constexpr std::size_t kJobsMax = 256;

  // Whether the next point is to be added.
  bool is_due(TimePoint now) const;

  // The first call begins: each further one adds a point, with the rates since the last.
  void add(TimePoint now, Totals totals);

  // Jobs that `sees` allows and that were live at the last point.
  void fill(TimePoint now, const std::function<bool(std::uint64_t job_id)>& sees,
            page::PageHistory& message) const;

 private:
  struct JobPoint {
    std::uint64_t job_id = 0;
    float rounds = 0.0F;  // these three per second
    float received = 0.0F;
    float sent = 0.0F;
  };
  struct Point {
    std::vector<JobPoint> jobs;  // by id
    std::vector<float> busy;     // of each core, a share
  };
  // What was done since the last totals. REQUIRES: there are some.
  Point point_of(const Totals& totals, double seconds) const;

  mutable std::mutex mutex_;  // all below
  std::optional<TimePoint> last_;
  Totals last_totals_;
  std::deque<Point> points_;
};

}  // namespace phub::server
