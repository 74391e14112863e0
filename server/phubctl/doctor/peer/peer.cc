#include "server/phubctl/doctor/peer/peer.h"

#include "common/base/version.h"
#include "server/phubctl/doctor/peer/client.h"
#include "server/phubctl/doctor/peer/end.h"
#include "server/phubctl/doctor/peer/trial.h"

namespace phub::phubctl::doctor {
namespace {

// The port here; with one there, the one that reaches it.
void choose_here(const MeetOptions& options, Meeting& meeting) {
  meeting.here.rdma = choose_end(options.paths, options.choices);
  if (!meeting.here.rdma.obstacle.empty() || !meeting.there.rdma.obstacle.empty()) return;
  auto end = choose_end_towards(options.paths, options.choices, meeting.there.rdma);
  if (end) {
    meeting.here.rdma = std::move(*end);
  } else {
    meeting.route = end.error();
  }
}

}  // namespace

Meeting meet(const MeetOptions& options) {
  Meeting meeting;
  meeting.address = options.address;
  meeting.here.host = host_name();
  meeting.here.software = kVersion;
  const auto client = DoctorClient::create(options);
  if (!client) {
    meeting.met = client.error();
    return meeting;
  }
  const doctor_wire::Welcome& welcome = (*client)->welcome();
  meeting.there.software = printable(welcome.software(), kMostHostBytes);
  meeting.there.host = printable(welcome.host(), kMostHostBytes);
  auto rdma = from_wire(welcome.port());
  if (!rdma) {
    meeting.met = rdma.error();
    return meeting;
  }
  meeting.there.rdma = std::move(*rdma);
  choose_here(options, meeting);
  Trial trial(options, **client);
  meeting.tcp = trial.run(nullptr);
  const bool has_verbs = meeting.here.rdma.obstacle.empty() &&
                         meeting.there.rdma.obstacle.empty() && meeting.route.ok();
  if (has_verbs && meeting.tcp->status.code() != Code::kAborted) {
    meeting.verbs = trial.run(&meeting.here.rdma);
  }
  return meeting;
}

}  // namespace phub::phubctl::doctor
