// Whose turn it is on a core: deficit round-robin over the tenants that have pushes waiting, by
// weight, and within a tenant over its jobs, equally (Shreedhar and Varghese, 1995, with the cost
// charged after the service: the price of such a push in core time, see price_list.h).
//
// Nobody waits while others have nothing to do: a turn passes on as soon as a queue is empty.
// Belongs to a core's thread. next, charge, wake and rest allocate nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace phub::server {

class FairShare {
  struct Tenant;

 public:
  // One job on one core. Its owner keeps it alive from add to remove.
  class Flow {
   public:
    bool is_added() const { return tenant_ != nullptr; }
    bool is_awake() const { return awake_; }

   private:
    friend class FairShare;
    Tenant* tenant_ = nullptr;
    std::int64_t credit_ = 0;
    bool awake_ = false;
  };

  // `quantum`: cost that a tenant of weight 1 may run up in a turn. The heaviest tenant gets at
  // most kTurnMax of them, and the others less than one, when weights are far apart.
  explicit FairShare(std::uint64_t quantum) : quantum_(static_cast<std::int64_t>(quantum)) {}

  // REQUIRES: weight > 0; the flow is in no FairShare. The weight is the tenant's: the last one
  // that is named holds.
  void add(Flow& flow, std::uint64_t tenant_id, std::uint32_t weight);
  void remove(Flow& flow);  // ignored if it was never added

  // The flow has something to be served / nothing any more.
  void wake(Flow& flow);
  void rest(Flow& flow);

  // Who is to be served now: the same one until its turn is over or it rests. Null: nobody is
  // awake.
  Flow* next();

  // The cost that its turn still has room for: none if the turn is over or has not come yet.
  // REQUIRES: it is awake.
  std::uint64_t owed(const Flow& flow) const {
    if (awake_ == 1) return UINT64_MAX;
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, std::min(flow.credit_, flow.tenant_->credit)));
  }

  // What serving the flow has cost.
  void charge(Flow& flow, std::uint64_t cost);

  std::size_t awake() const { return awake_; }

  static constexpr std::int64_t kTurnMax = 16;

 private:
  struct Tenant {
    std::uint64_t id = 0;
    std::uint32_t weight = 1;
    std::int64_t credit = 0;
    std::size_t flows = 0;     // that were added
    std::size_t turn = 0;      // in `awake`
    std::vector<Flow*> awake;  // in the order of their turns
  };

  std::int64_t turn_of(const Tenant& tenant) const;
  void weigh();  // after a tenant has come or gone

  std::int64_t quantum_;
  std::int64_t heaviest_ = 1;  // weight, of the tenants in turns_
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<Tenant*> turns_;  // tenants with flows that are awake
  std::size_t turn_ = 0;
  std::size_t awake_ = 0;
};

}  // namespace phub::server
