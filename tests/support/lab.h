// A daemon with TLS, tokens and a state folder, and credentials for everybody, in a test.
#pragma once

#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/credentials.h"
#include "proto/control.grpc.pb.h"
#include "server/daemon.h"
#include "server/phubctl/pki/certificate.h"
#include "tests/support/hang_guard.h"
#include "tests/support/temporary_directory.h"
#include "worker/client/phub.h"

namespace phub::testing {

class Lab {
 public:
  explicit Lab(bool with_tls = true, bool tokens_required = true) : with_tls_(with_tls) {
    spdlog::set_level(spdlog::level::off);
    if (with_tls) make_credentials();
    options_.control_address = "127.0.0.1:0";
    options_.data_plane.cores = 1;
    options_.data_plane.allow_oversubscription = true;
    options_.data_plane.verbs = server::OfferVerbs::kNo;
    options_.tenancy = {.state_folder = folder_.path / "state", .tokens_required = tokens_required};
    if (with_tls) options_.tls = files_of("server");
    restart();
  }

  void restart() {
    daemon_.reset();
    auto created = server::Daemon::create(options_);
    INFO((created ? "" : created.error().message()));
    REQUIRE(created);
    daemon_ = std::move(*created);
    if (options_.tenancy.tokens_required) {
      admin_token_ = folder_.read("state/admin.token");
      admin_token_.pop_back();
    }
  }

  std::string address() const { return daemon_->control_address(); }
  const std::string& admin_token() const { return admin_token_; }
  const std::filesystem::path& folder() const { return folder_.path; }

  // A folder's files; of no certificate with "": the CA only.
  TlsFiles files_of(const std::string& role) const {
    if (!with_tls_) return {};
    const std::string own = folder_.path / (role.empty() ? "worker" : role);
    if (role.empty()) return {.ca = own + "/ca.pem"};
    return {.ca = own + "/ca.pem", .certificate = own + "/cert.pem", .key = own + "/key.pem"};
  }
  void issue(const std::string& folder, const std::string& role, const std::string& name) const {
    const phubctl::SignedKey issued =
        std::move(*ca_->issue({.name = name, .unit = role, .hosts = {"127.0.0.1"}}));
    std::filesystem::create_directory(folder_.path / folder);
    for (const char* const file : {"ca.pem", "cert.pem", "key.pem"}) {
      std::filesystem::remove(folder_.path / folder / file);
    }
    REQUIRE(ca_->save_certificate(folder_.path / folder / "ca.pem").ok());
    REQUIRE(issued.save_certificate(folder_.path / folder / "cert.pem").ok());
    REQUIRE(issued.save_key(folder_.path / folder / "key.pem").ok());
  }

  std::unique_ptr<control::Admin::Stub> admin_stub(const std::string& role) const {
    return control::Admin::NewStub(channel(role));
  }
  std::shared_ptr<grpc::Channel> channel(const std::string& role) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address(), channel_credentials(files_of(role)).value(),
                                     arguments);
  }

  // What a worker shows: the role's certificate and a token.
  ClientSecurity security(const std::string& role, const std::string& token) const {
    ClientSecurity security{.tls = files_of(role)};
    if (token.empty()) return security;
    const std::string name = "token-" + std::to_string(std::hash<std::string>()(token));
    folder_.write(name, token + "\n");
    security.token_file = folder_.path / name;
    return security;
  }
  std::string write(const std::string& name, const std::string& text) const {
    folder_.write(name, text);
    return folder_.path / name;
  }

 private:
  void make_credentials() {
    ca_ = std::make_unique<phubctl::SignedKey>(
        std::move(*phubctl::SignedKey::make_ca({.name = "test CA"})));
    for (const char* const role : {"server", "admin", "observer", "worker"})
      issue(role, role, role);
  }

  const bool with_tls_;
  TemporaryDirectory folder_;
  std::unique_ptr<phubctl::SignedKey> ca_;
  server::DaemonOptions options_;
  std::unique_ptr<server::Daemon> daemon_;
  std::string admin_token_;
};

// One call with a token; its code and message.
template <typename Stub, typename Method, typename Request, typename Reply>
grpc::Status ask(Stub& stub, const std::string& token, Method method, const Request& request,
                 Reply& reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + testing::kHangGuard);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  return (stub.*method)(&context, request, &reply);
}

}  // namespace phub::testing
