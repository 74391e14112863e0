// The threads on which the control service does what gRPC's own must not wait for.
//
// Owned by the ControlService.
#pragma once

#include "server/process/work_queue.h"

namespace phub::server {

struct CallThreads {
  // Who joins, who wants a snapshot? The answer may be a line in the audit log, on the disk.
  WorkQueue door{"calls", {.threads = 2, .running_of_tenant = 2, .waiting_of_tenant = 2048}};
  // Calls that are going to be refused. Each holds a request, so they are few.
  WorkQueue strangers{"calls", {.threads = 1, .running_of_tenant = 1, .waiting_of_tenant = 63}};
  // Joins and readies. Of a job of many workers most wait here, or for the first one's ready.
  WorkQueue work{"joins and readies",
                 {.threads = 16, .running_of_tenant = 4, .waiting_of_tenant = 8192}};
  // Calls of Admin, and snapshots' lists and restores. Administrators' are apart.
  WorkQueue administrators{"calls",
                           {.threads = 8, .running_of_tenant = 8, .waiting_of_tenant = 1024}};
  WorkQueue tenants{"calls", {.threads = 16, .running_of_tenant = 2, .waiting_of_tenant = 30}};
  // A snapshot has a thread while it is copied and written, none while it waits for its round.
  WorkQueue takes{"snapshots", {.threads = 64, .running_of_tenant = 4, .waiting_of_tenant = 12}};

  // Before the first call.
  void publish() {
    for (WorkQueue* queue : {&door, &strangers, &work, &administrators, &tenants, &takes}) {
      queue->publish();
    }
  }
};

// Whose calls are at the door.
inline constexpr char kNobodyYet[] = "not known yet";

}  // namespace phub::server
