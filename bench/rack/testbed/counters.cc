#include "bench/rack/testbed/counters.h"

namespace phub::bench {

Status RackCounters::open() {
  if (testbed_ == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(opened_, take_losses(fabric_, *testbed_, *tools_));
  return {};
}

Status RackCounters::start() {
  if (testbed_ == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(started_, take_sample(fabric_, *testbed_, *tools_));
  return {};
}

Status RackCounters::stop() {
  if (testbed_ == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(const RackSample stopped, take_sample(fabric_, *testbed_, *tools_));
  load_.add(*started_, stopped);
  return {};
}

Status RackCounters::close() {
  if (testbed_ == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(auto closed, take_losses(fabric_, *testbed_, *tools_));
  losses_ = losses_between(opened_, std::move(closed));
  return {};
}

}  // namespace phub::bench
