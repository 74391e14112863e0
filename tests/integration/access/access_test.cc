// Who may make which call, over real gRPC.
#include <algorithm>
#include <functional>

#include "proto/probe.grpc.pb.h"
#include "proto/racks.grpc.pb.h"
#include "tests/integration/access/tenants_rig.h"

namespace phub::testing {
namespace {

using control::Probes;
using control::Racks;

// A call with a harmless request, and who may make it beside administrators.
struct Row {
  std::string service;
  std::string name;
  std::function<grpc::StatusCode(const std::shared_ptr<grpc::Channel>&, const std::string&)> call;
  bool tenant, observer;
};

template <typename Service, typename Stub, typename Request, typename Reply>
Row row_of(const char* name,
           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), bool tenant,
           bool observer) {
  const auto call = [method](const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& token) {
    Reply reply;
    return ask(*Service::NewStub(channel), token, method, Request(), reply).error_code();
  };
  return {Service::service_full_name(), name, call, tenant, observer};
}

std::vector<Row> all_calls() {
  using A = Admin::Stub;
  using S = Snapshots::Stub;
  return {
      row_of<Admin>("CreateJob", &A::CreateJob, true, false),
      row_of<Admin>("ListJobs", &A::ListJobs, true, true),
      row_of<Admin>("InspectJob", &A::InspectJob, true, true),
      row_of<Admin>("CloseJob", &A::CloseJob, true, false),
      row_of<Admin>("Plan", &A::Plan, true, true),
      row_of<Admin>("Statistics", &A::Statistics, true, true),
      row_of<Admin>("Trace", &A::Trace, true, true),
      row_of<Admin>("CreateTenant", &A::CreateTenant, false, false),
      row_of<Admin>("ListTenants", &A::ListTenants, true, true),
      row_of<Admin>("InspectTenant", &A::InspectTenant, true, true),
      row_of<Admin>("SetTenant", &A::SetTenant, false, false),
      row_of<Admin>("DeleteTenant", &A::DeleteTenant, false, false),
      row_of<Admin>("CreateToken", &A::CreateToken, false, false),
      row_of<Admin>("ListTokens", &A::ListTokens, false, false),
      row_of<Admin>("RevokeToken", &A::RevokeToken, false, false),
      row_of<Admin>("ListAudit", &A::ListAudit, false, false),
      row_of<Admin>("Drain", &A::Drain, false, false),
      row_of<Snapshots>("Take", &S::Take, true, false),
      row_of<Snapshots>("List", &S::List, true, true),
      row_of<Snapshots>("Restore", &S::Restore, true, false),
      row_of<Snapshots>("Delete", &S::Delete, true, false),
      row_of<Racks>("List", &Racks::Stub::List, true, true),
      row_of<Probes>("Listen", &Probes::Stub::Listen, false, false),
      row_of<Probes>("Measure", &Probes::Stub::Measure, false, false),
      row_of<Probes>("Keep", &Probes::Stub::Keep, false, false),
      row_of<Probes>("Last", &Probes::Stub::Last, true, true),
  };
}

TEST_CASE("every call of people and tools asks who calls, and each role has its own") {
  Tenants f;
  const std::vector<Row> rows = all_calls();
  const auto is_let_in = [](grpc::StatusCode code) {
    return code != grpc::StatusCode::UNAUTHENTICATED && code != grpc::StatusCode::PERMISSION_DENIED;
  };
  const auto channel = f.channel("");
  for (const Row& row : rows) {
    INFO(row.service << "." << row.name);
    for (const std::string& token : {std::string(), std::string("phub-1-wrong")}) {
      CHECK(row.call(channel, token) == grpc::StatusCode::UNAUTHENTICATED);
    }
    CHECK(is_let_in(row.call(channel, f.red)) == row.tenant);
    CHECK(is_let_in(row.call(channel, f.observer)) == row.observer);
    CHECK(is_let_in(row.call(channel, f.admin_token())));
  }
  const auto* const control = control::DrainRequest::descriptor()->file();
  const auto* const racks = control::ListRacksRequest::descriptor()->file();
  const auto* const probes = control::Probe::descriptor()->file();
  for (const auto* const calls :
       {control->FindServiceByName("Admin"), control->FindServiceByName("Snapshots"),
        racks->FindServiceByName("Racks"), probes->FindServiceByName("Probes")}) {
    for (int i = 0; i < calls->method_count(); ++i) {
      INFO(calls->method(i)->full_name());
      CHECK(std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
        return row.service == calls->full_name() && row.name == calls->method(i)->name();
      }));
    }
  }
}

}  // namespace
}  // namespace phub::testing
