// The listening doctor's service (proto/doctor.proto): one meeting at a time, for who has its
// token.
//
// Calls come on gRPC's threads; those of the meeting one after another. A peer that says nothing
// between its calls holds no thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/transport/link/link_end.h"
#include "proto/doctor.grpc.pb.h"
#include "server/doctor/peer/end.h"
#include "server/doctor/peer/listen.h"

namespace phub::doctor {

// The first byte of a token, which is neither HTTP/2's nor TLS's: the port is for calls too.
constexpr char kTokenMark = '\0';
constexpr char kTokenMetadata[] = "phub-meeting-bin";

// The listener's part of one meeting: measures with the peer as it asks for.
//
// One thread at a time. Everything that the peer says is checked; every wait has its limit, and the
// whole visit has one.
class Visit {
 public:
  // `who`: the peer, for people. The options outlive it.
  Visit(const ListenOptions& options, std::string who);

  // The steps of a measurement, in this order; `play` any number of times.
  Status open(bool verbs);
  Status connect(UniqueFd socket);
  Status play(const doctor_wire::Block& block);
  doctor_wire::Found close();

  const std::string& who() const { return who_; }
  const RdmaEnd& rdma() const { return rdma_; }
  // Why it has to end; asked while something is waited for.
  Status interrupted() const;

 private:
  const ListenOptions& options_;
  const std::string who_;
  const Clock::time_point end_;
  const RdmaEnd rdma_;
  transport::LinkOptions link_options_;
  std::unique_ptr<transport::LinkEnd> link_;
  std::vector<Counter> before_;  // of link_options_.device, if it has one
};

class DoctorService final : public doctor_wire::Doctor::Service {
  using Block = doctor_wire::Block;
  using Context = grpc::ServerContext;
  using Found = doctor_wire::Found;
  using Link = doctor_wire::Link;
  using Nothing = doctor_wire::Nothing;
  using Visitor = doctor_wire::Visitor;
  using Welcome = doctor_wire::Welcome;

 public:
  // `say` is called with a line when a meeting begins and ends, one after another. `port` has the
  // connections, `peers` says whose they are.
  DoctorService(const ListenOptions& options, server::ControlListener& port,
                const server::ControlPeers& peers, std::function<void(const std::string&)> say)
      : options_(options), port_(port), peers_(peers), say_(std::move(say)) {}

  // A connection whose first bytes have come. It is closed if they are not the meeting's token.
  void offer(UniqueFd socket);
  // Ends a meeting whose peer has been silent for too long, or that has taken all its time.
  void look();
  // Ends a meeting at once. After the last call.
  void stop();
  // Whether anybody has ever come.
  bool has_met() const;
  // How the first meeting ended; none yet.
  std::optional<Status> first() const;

  grpc::Status Meet(Context* context, const Visitor* visitor, Welcome* welcome) override;
  grpc::Status Open(Context* context, const Link* link, Nothing*) override;
  grpc::Status Connect(Context* context, const Nothing*, Nothing*) override;
  grpc::Status Play(Context* context, const Block* block, Nothing*) override;
  grpc::Status Close(Context* context, const Nothing*, Found* found) override;
  grpc::Status Leave(Context* context, const Nothing*, Nothing*) override;

 private:
  // A call of the meeting's: `act` has the visit for itself.
  grpc::Status step(const Context& context, const std::function<Status()>& act,
                    bool is_last = false);
  // The connection that the peer brings.
  Result<UniqueFd> take(const Context& context);
  void end(const Status& status);  // REQUIRES: a meeting, and the mutex

  const ListenOptions& options_;
  server::ControlListener& port_;
  const server::ControlPeers& peers_;
  const std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;
  std::condition_variable has_come_;  // a connection
  std::optional<Visit> visit_;        // the meeting; used by one step, or under the mutex
  std::string token_;                 // its
  bool is_in_step_ = false;
  Clock::time_point heard_;  // when its last call ended
  UniqueFd socket_;          // to be measured
  std::optional<Status> first_;
};

}  // namespace phub::doctor
