// A data plane of one core without a control plane: whoever connects is a member.
//
// Owned by a test.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "server/plane/data_plane.h"

namespace phub::testing {

class AnyMember final : public server::MembershipListener {
 public:
  std::optional<server::IssuedSecret> secret_of(std::uint64_t, std::uint32_t,
                                                std::uint32_t) override {
    return server::IssuedSecret{};
  }
  void on_connected(std::uint64_t, std::uint32_t, std::uint32_t, std::string_view) override {}
  void on_lost(std::uint64_t, std::uint32_t, std::string_view) override {}
};

// Over tcp and shm.
struct LonePlane {
  AnyMember membership;
  std::unique_ptr<server::DataPlane> plane;

  LonePlane() {
    server::DataPlaneOptions options;
    options.cores = 1;
    options.verbs = server::OfferVerbs::kNo;
    plane = std::move(*server::DataPlane::create(options, membership));
  }
  server::DataPlane* operator->() const { return plane.get(); }
  server::DataPlane& operator*() const { return *plane; }
};

// A job of these keys on such a plane.
inline server::JobLayout layout_of(std::uint64_t job_id, std::vector<std::uint64_t> key_elements) {
  server::JobLayout layout;
  layout.job_id = job_id;
  layout.weight_decay.assign(key_elements.size(), 0.0F);
  PlanInput input;
  input.key_elements = std::move(key_elements);
  input.cores_per_server = {1};
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  return layout;
}

}  // namespace phub::testing
