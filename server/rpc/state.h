// What the web page shows, as JSON: the server, its jobs, and the plans of those that run.
//
// Any thread.
#pragma once

#include <string>

#include "server/jobs/table.h"
#include "server/rpc/admin.h"

namespace phub::server {

// PageState of proto/page.proto; of one tenant, or with "" of all.
std::string state_json(AdminService& admin, const JobTable& table, const std::string& tenant);

}  // namespace phub::server
