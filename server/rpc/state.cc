#include "server/rpc/state.h"

#include "common/text/message_json.h"
#include "proto/page.pb.h"
#include "server/rpc/messages/messages.h"
#include "server/rpc/messages/view.h"

namespace phub::server {

std::string state_json(AdminService& admin, const JobTable& table, const std::string& tenant) {
  page::PageState state;
  state.set_tenant(tenant);
  admin.fill_server(*state.mutable_server());
  if (!tenant.empty())
    redact_other_tenants(tenant, table.usage.of(tenant), *state.mutable_server());
  for (const JobView& view : table.views.list()) {
    if (!tenant.empty() && view.tenant != tenant) continue;
    control::JobInfo& job = *state.add_jobs();
    fill(view, Keys::kLeftOut, job);
    admin.fill_timing(view, job);
    if (view.state != JobState::kRunning) continue;
    const Result<PlanView> plan = table.views.plan(name_of(view));
    if (!plan) continue;  // it has ended meanwhile
    page::JobPlan* const shown = state.add_plans();
    shown->set_job_id(view.id);
    shown->set_server(plan->server_index);
    fill_loads(*plan, *shown->mutable_loads());
  }
  return message_json(state);
}

}  // namespace phub::server
