// What the server's web page shows, as JSON of the messages of proto/page.proto.
//
// Owned by the daemon. `look` is called by its reaper, all else by any thread.
#pragma once

#include <string>

#include "server/page/rate_history.h"
#include "server/plane/data_plane.h"
#include "server/rpc/admin.h"
#include "server/rpc/tenants.h"
#include "server/snapshot/store.h"
#include "server/tenants/reader.h"

namespace phub::server {

class PageData {
 public:
  // All outlive this. `snapshots` null: the server keeps none.
  PageData(AdminService& admin, TenantAdmin& tenants, const JobTable& table,
           const DataPlane& data_plane, const SnapshotStore* snapshots)
      : admin_(admin),
        tenants_(tenants),
        table_(table),
        data_plane_(data_plane),
        snapshots_(snapshots) {}

  std::string state_json(const Reader& reader);          // PageState
  std::string records_json(const Reader& reader);        // PageRecords; reads the disk
  std::string history_json(const Reader& reader) const;  // PageHistory

  // Adds to the history when that is due.
  void look();

 private:
  AdminService& admin_;
  TenantAdmin& tenants_;
  const JobTable& table_;
  const DataPlane& data_plane_;
  const SnapshotStore* const snapshots_;
  RateHistory history_;
};

}  // namespace phub::server
