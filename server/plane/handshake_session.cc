#include "server/plane/handshake_session.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/transport/descriptors.h"

namespace phub::server {
namespace {

namespace asio = boost::asio;
using transport::Challenge;
using transport::HandshakeRole;
using transport::Hello;
using transport::Kind;
using transport::Mark;
using transport::Proof;
using transport::Verdict;
using transport::VerdictCode;
using transport::verbs::Introduction;

constexpr std::size_t kProofDescriptors = 2;  // shm: a channel and the worker's memory

// A worker that is told what became of its connection, on the thread that has made it.
struct Proven {
  Hello hello;
  Challenge challenge;
  Secret secret;
  UniqueFd socket;
  asio::io_context& io;
  DropCounters& drops;

  void tell(const Result<Admitted>& admitted) const {
    const bool is_shm = hello.kind == Kind::kShm;
    Verdict verdict{.code = admitted ? VerdictCode::kWelcome : VerdictCode::kFull};
    verdict.digest = transport::proof_of(HandshakeRole::kServer, secret, hello, challenge);
    // The counters are written by the io_context's thread alone.
    if (!admitted) asio::post(io, [&d = drops] { d.count(Drop::kRefusedConnection); });
    std::array<int, 1> fds = {admitted ? admitted->memory_fd.get() : -1};
    if (admitted) verdict.memory_bytes = admitted->memory_bytes;
    // A failure means that the worker is gone, which its core will notice.
    Status sent = transport::send_value(
        socket.get(), verdict, std::span<const int>(fds.data(), is_shm && admitted ? 1 : 0));
    if (sent.ok() && admitted && admitted->introduction) {
      sent = transport::send_value(socket.get(), *admitted->introduction);
    }
  }
};

class HandshakeSession final : public Lobby::Guest,
                               public std::enable_shared_from_this<HandshakeSession> {
 public:
  HandshakeSession(const HandshakeContext& context, Entrance& entrance, Door::Guest guest)
      : context_(context),
        entrance_(entrance),
        address_(std::move(guest.address)),
        is_in_doubt_(guest.is_in_doubt),
        lobby_(entrance.lobby),
        shm_(entrance.shm),
        stream_(context.io, guest.socket.release()),
        timer_(context.io) {}
  ~HandshakeSession() { lobby_->leave(*this); }
  HandshakeSession(const HandshakeSession&) = delete;
  HandshakeSession& operator=(const HandshakeSession&) = delete;

  const std::string& address() const { return address_; }

  void start() {
    limit_time(context_.first_word);
    expect(sizeof(Hello), &HandshakeSession::on_hello);
  }

  void turn_out() override { give_up(Drop::kTurnedOut); }

 private:
  using Step = void (HandshakeSession::*)();

  void limit_time(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      // What had expired before it was set anew is called without an error.
      const bool is_late = std::chrono::steady_clock::now() >= self->timer_.expiry();
      if (!error && is_late) self->give_up(Drop::kHandshakeTimeout);
    });
  }

  // Reads exactly `bytes` into buffer_, then takes the step. Descriptors that come along with more
  // than `descriptors_max` of them end the handshake.
  void expect(std::size_t bytes, Step step, std::size_t descriptors_max = 0) {
    wanted_ = bytes;
    have_ = 0;
    descriptors_max_ = descriptors_max;
    read(step);
  }

  void read(Step step) {
    stream_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this(), step](const boost::system::error_code& error) {
                         if (!error && self->stream_.is_open()) self->on_readable(step);
                       });
  }

  void on_readable(Step step) {
    const auto room = std::span(buffer_).subspan(have_, wanted_ - have_);
    const long got = transport::receive_with_descriptors(stream_.native_handle(), room,
                                                         descriptors_, descriptors_max_);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return read(step);
    if (got < 0 && errno == EPROTO) return give_up(Drop::kBadHello);
    if (got <= 0) return give_up(Drop::kHandshakeTimeout);
    if (!has_spoken_) limit_time(context_.deadline);
    has_spoken_ = true;
    have_ += static_cast<std::size_t>(got);
    if (have_ < wanted_) return read(step);
    (this->*step)();
  }

  void on_hello() {
    std::memcpy(&hello_, buffer_.data(), sizeof(hello_));
    if (hello_.magic != transport::kHelloMagic || hello_.version != transport::kProtocolVersion ||
        shm_ != (hello_.kind == Kind::kShm)) {
      return give_up(Drop::kBadHello);
    }
    expect(sizeof(Mark), &HandshakeSession::on_mark);
  }

  // Without doubt nobody looks at it: a proof follows.
  void on_mark() {
    if (is_in_doubt_ && !is_member()) return give_up(Drop::kTurnedOut);
    is_in_doubt_ = false;
    challenge_.nonce = transport::random_nonce();
    if (!send(&challenge_, sizeof(challenge_))) return give_up(Drop::kHandshakeTimeout);
    expect(sizeof(Proof), &HandshakeSession::on_proof, shm_ ? kProofDescriptors : 0);
  }

  bool is_member() const {
    Mark mark;
    std::memcpy(&mark, buffer_.data(), sizeof(mark));
    const auto issued = context_.admission.secret_of(hello_);
    return issued && transport::equal_constant_time(
                         mark.digest, transport::mark_of(issued->secret, hello_).digest);
  }

  void on_proof() {
    Proof proof;
    std::memcpy(&proof, buffer_.data(), sizeof(proof));
    const auto issued = context_.admission.secret_of(hello_);
    // A stranger and a member with a wrong secret get the same reply. Who proved an expired one is
    // refused with our proof: it learns that it was this secret's server that refused it.
    if (!issued || !transport::equal_constant_time(
                       proof.digest, transport::proof_of(HandshakeRole::kWorker, issued->secret,
                                                         hello_, challenge_))) {
      refuse(VerdictCode::kRefused, false);
      return give_up(Drop::kWrongSecret);
    }
    secret_ = issued->secret;
    entrance_.door.prove(address_);
    if (issued->has_expired) {
      refuse(VerdictCode::kRefused, true);
      return give_up(Drop::kExpiredSecret);
    }
    const bool is_encrypted = hello_.encrypted != 0;
    if (!shm_ && is_encrypted != context_.encrypt_tcp) {
      refuse(is_encrypted ? VerdictCode::kEncrypted : VerdictCode::kNotEncrypted, true);
      return give_up(Drop::kWrongEncryption);
    }
    if (hello_.kind != Kind::kVerbs) return admit({});
    expect(sizeof(Introduction), &HandshakeSession::on_introduction);
  }

  void on_introduction() {
    Introduction introduction;
    std::memcpy(&introduction, buffer_.data(), sizeof(introduction));
    admit(introduction);
  }

  void admit(const Introduction& introduction) {
    // The core may close the socket at any time from then on; the verdict needs its own handle.
    UniqueFd reply(::fcntl(stream_.native_handle(), F_DUPFD_CLOEXEC, 0));
    if (!reply) {
      refuse(VerdictCode::kFull, true);
      return give_up(Drop::kRefusedConnection);
    }
    lobby_->leave(*this);
    timer_.cancel();
    stream_.cancel();
    UniqueFd socket(stream_.release());
    if (!shm_) context_.congestion_control.settle(socket.get());
    Candidate candidate{.hello = hello_,
                        .socket = std::move(socket),
                        .descriptors = std::move(descriptors_),
                        .introduction = introduction,
                        .secret = secret_};
    if (hello_.kind == Kind::kTcp && hello_.encrypted != 0) {
      candidate.keys = transport::stream_keys(secret_, hello_, challenge_);
    }
    const auto proven = std::make_shared<const Proven>(
        Proven{hello_, challenge_, secret_, std::move(reply), context_.io, context_.drops});
    context_.admission.admit(std::move(candidate), [proven](const Result<Admitted>& admitted) {
      proven->tell(admitted);
    });
  }

  bool send(const void* data, std::size_t bytes) {
    return ::send(stream_.native_handle(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes);
  }

  // `proves`: it is said to a member, which learns that it was this secret's server that refused.
  void refuse(VerdictCode code, bool proves) {
    Verdict verdict{.code = code};
    if (proves)
      verdict.digest = transport::proof_of(HandshakeRole::kServer, secret_, hello_, challenge_);
    send(&verdict, sizeof(verdict));
  }

  void give_up(Drop cause) {
    if (!stream_.is_open()) return;
    context_.drops.count(is_in_doubt_ ? Drop::kTurnedOut : cause);
    // An address that has spent its budget must not spend that of all.
    if (!is_in_doubt_) entrance_.door.charge(address_, has_spoken_ ? kSpokenCost : kSilentCost);
    lobby_->leave(*this);
    stream_.close();
    timer_.cancel();
  }

  const HandshakeContext& context_;  // gone when the io_context destroys what still waits,
  Entrance& entrance_;               // and so is the entrance
  const std::string address_;
  bool is_in_doubt_;  // its address has spent its budget, and it has not shown a member's mark
  const std::shared_ptr<Lobby> lobby_;
  const bool shm_;
  asio::posix::stream_descriptor stream_;
  asio::steady_timer timer_;
  std::array<std::byte, std::max(sizeof(Hello), sizeof(Introduction))> buffer_ = {};
  std::size_t wanted_ = 0;
  std::size_t have_ = 0;
  std::size_t descriptors_max_ = 0;
  bool has_spoken_ = false;
  Hello hello_;
  Challenge challenge_;
  Secret secret_ = {};  // the member's, once it has proven that it knows it
  std::vector<UniqueFd> descriptors_;
};

}  // namespace

void start_handshake(const HandshakeContext& context, Entrance& entrance, Door::Guest guest) {
  const auto session = std::make_shared<HandshakeSession>(context, entrance, std::move(guest));
  session->start();
  entrance.lobby->enter(session->address(), *session);
}

}  // namespace phub::server
