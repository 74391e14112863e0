#include "server/sharing/fair_share.h"

#include <algorithm>

#include "common/base/check.h"

namespace phub::server {
namespace {

// A debt is forgiven beyond this many turns: a core that was taken off its CPU in the middle of a
// service must not silence a job for long.
constexpr std::int64_t kDebtTurnsMax = 16;

// Takes an entry out of a circle of turns, so that the one after it comes next.
template <typename Entry>
void leave_circle(std::vector<Entry*>& circle, std::size_t& turn, const Entry* entry) {
  const auto found = std::find(circle.begin(), circle.end(), entry);
  const auto position = static_cast<std::size_t>(found - circle.begin());
  circle.erase(found);
  if (position < turn) --turn;
  if (turn >= circle.size()) turn = 0;
}

void pay(std::int64_t& credit, std::int64_t quantum, std::uint64_t cost) {
  credit = std::max(credit - static_cast<std::int64_t>(cost), -kDebtTurnsMax * quantum);
}

}  // namespace

void FairShare::add(Flow& flow, std::uint64_t tenant_id, std::uint32_t weight) {
  PHUB_CHECK(weight > 0 && flow.tenant_ == nullptr, "a flow is added once, with a weight");
  auto found = std::find_if(tenants_.begin(), tenants_.end(),
                            [&](const auto& tenant) { return tenant->id == tenant_id; });
  if (found == tenants_.end()) {
    tenants_.push_back(std::make_unique<Tenant>());
    turns_.reserve(tenants_.size());
    found = std::prev(tenants_.end());
    (*found)->id = tenant_id;
  }
  Tenant& tenant = **found;
  tenant.weight = weight;
  weigh();  // it may be awake
  ++tenant.flows;
  tenant.awake.reserve(tenant.flows);
  flow.tenant_ = &tenant;
}

void FairShare::remove(Flow& flow) {
  if (flow.tenant_ == nullptr) return;
  rest(flow);
  Tenant* const tenant = flow.tenant_;
  flow = Flow{};
  if (--tenant->flows > 0) return;
  std::erase_if(tenants_, [&](const auto& other) { return other.get() == tenant; });
}

void FairShare::weigh() {
  heaviest_ = 1;
  for (const Tenant* tenant : turns_) {
    heaviest_ = std::max(heaviest_, std::int64_t{tenant->weight});
  }
}

std::int64_t FairShare::turn_of(const Tenant& tenant) const {
  const std::int64_t turn = quantum_ * tenant.weight;
  return heaviest_ <= kTurnMax ? turn : std::max<std::int64_t>(1, turn * kTurnMax / heaviest_);
}

void FairShare::wake(Flow& flow) {
  if (flow.awake_) return;
  Tenant& tenant = *flow.tenant_;
  if (tenant.awake.empty()) {
    turns_.push_back(&tenant);
    heaviest_ = std::max(heaviest_, std::int64_t{tenant.weight});
  }
  flow.awake_ = true;
  tenant.awake.push_back(&flow);
  ++awake_;
}

// What is left of a turn is not saved up; a debt stays.
void FairShare::rest(Flow& flow) {
  if (!flow.awake_) return;
  Tenant& tenant = *flow.tenant_;
  flow.awake_ = false;
  flow.credit_ = std::min<std::int64_t>(flow.credit_, 0);
  --awake_;
  leave_circle(tenant.awake, tenant.turn, &flow);
  if (!tenant.awake.empty()) return;
  tenant.credit = std::min<std::int64_t>(tenant.credit, 0);
  leave_circle(turns_, turn_, &tenant);
  if (heaviest_ > 1 && std::int64_t{tenant.weight} == heaviest_) weigh();
}

FairShare::Flow* FairShare::next() {
  if (awake_ == 0) return nullptr;
  if (awake_ == 1) return turns_.front()->awake.front();
  while (turns_[turn_]->credit <= 0) {
    turns_[turn_]->credit += turn_of(*turns_[turn_]);
    turn_ = (turn_ + 1) % turns_.size();
  }
  Tenant& tenant = *turns_[turn_];
  while (tenant.awake[tenant.turn]->credit_ <= 0) {
    tenant.awake[tenant.turn]->credit_ += quantum_;
    tenant.turn = (tenant.turn + 1) % tenant.awake.size();
  }
  return tenant.awake[tenant.turn];
}

void FairShare::charge(Flow& flow, std::uint64_t cost) {
  if (awake_ <= 1) return;  // nobody is kept waiting
  pay(flow.credit_, quantum_, cost);
  pay(flow.tenant_->credit, std::max(quantum_, turn_of(*flow.tenant_)), cost);
}

}  // namespace phub::server
