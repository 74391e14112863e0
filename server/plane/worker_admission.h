// How authenticated workers come to their cores.
//
// The acceptor's thread asks; connections are made by a pool of threads, a job's one after another,
// so that nobody keeps others from shaking hands.
#pragma once

#include <optional>

#include "server/plane/handshake_session.h"
#include "server/plane/plane_jobs.h"

namespace phub::server {

class WorkerAdmission final : public Admission {
 public:
  // All outlive it, and the pool of the jobs' set-ups is joined before it goes.
  WorkerAdmission(const CoreSet& cores, const PlaneJobs& jobs, MembershipListener& membership)
      : cores_(cores), jobs_(jobs), membership_(membership) {}

  std::optional<IssuedSecret> secret_of(const transport::Hello& hello) override {
    return membership_.secret_of(hello.job_id, hello.epoch, hello.worker);
  }
  void admit(Candidate candidate, Done done) override;

 private:
  static Result<bool> take_place(PlaneJob& job, Candidate& candidate);
  Result<Admitted> admit(PlaneJob& job, Candidate& candidate);
  // These REQUIRE job.setup.
  Result<Admitted> connect(PlaneJob& job, Candidate& candidate);
  Result<Admitted> connect_shm(PlaneJob& job, Candidate& candidate);
  Result<Admitted> connect_tcp(const PlaneJob& job, Candidate& candidate);
  Result<Admitted> connect_verbs(PlaneJob& job, Candidate& candidate);

  const CoreSet& cores_;
  const PlaneJobs& jobs_;
  MembershipListener& membership_;
};

}  // namespace phub::server
