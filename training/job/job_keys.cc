#include "training/job/job_keys.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/job/job_token.h"
#include "training/job/secret_file.h"

namespace oneflow {
namespace {

// Hosts' clocks differ, and a job may wait long and run long.
constexpr long kSecondsBefore = 24 * 3600, kSecondsAfter = 3650L * 24 * 3600;
constexpr char kKeysHint[] = "make new keys for the job, with --make_job_keys=FOLDER";

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;

absl::Status CryptoError(const char* what) {
  char reason[256] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, reason, sizeof(reason));
  }
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", what, ": ", reason));
}

bool Extend(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A certificate of `key` for `name`, signed by `signer`; self-signed if `issuer` is null.
Certificate Issue(EVP_PKEY* key, const char* name, X509* issuer, EVP_PKEY* signer) {
  Certificate made(X509_new());
  if (made == nullptr) return nullptr;
  X509* x = made.get();
  unsigned char serial[16];
  if (RAND_bytes(serial, sizeof(serial)) != 1) return nullptr;
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  X509_NAME* subject = X509_get_subject_name(x);
  const bool ok =
      number != nullptr && X509_set_version(x, 2) == 1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) != nullptr &&
      X509_gmtime_adj(X509_getm_notBefore(x), -kSecondsBefore) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(x), kSecondsAfter) != nullptr &&
      X509_set_pubkey(x, key) == 1 &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1 &&
      (issuer == nullptr
           ? Extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                 Extend(x, x, NID_key_usage, "critical,keyCertSign")
           : Extend(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                 Extend(x, issuer, NID_key_usage, "critical,digitalSignature") &&
                 Extend(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
                 Extend(x, issuer, NID_subject_alt_name, absl::StrCat("DNS:", name).c_str())) &&
      X509_sign(x, signer, EVP_sha256()) != 0;
  return ok ? std::move(made) : nullptr;
}

template <typename Write>
std::string Pem(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return "";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, size);
}

}  // namespace

absl::Status MakeJobKeys(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return InputError(folder, absl::StrCat("cannot be created: ", std::strerror(errno)),
                      "name a folder whose parent is there and can be written to");
  }
  const Key ca_key(EVP_EC_gen("P-256")), key(EVP_EC_gen("P-256"));
  if (ca_key == nullptr || key == nullptr) return CryptoError("make a key");
  const Certificate ca = Issue(ca_key.get(), "oneflow-job-ca", nullptr, ca_key.get());
  if (ca == nullptr) return CryptoError("make a certificate authority");
  const Certificate certificate = Issue(key.get(), kJobCertificateName, ca.get(), ca_key.get());
  if (certificate == nullptr) return CryptoError("make a certificate");
  ASSIGN_OR_RETURN(const std::string token, DrawToken());
  const std::string secret = Pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  const auto pem = [](X509* x) {
    return Pem([x](BIO* bio) { return PEM_write_bio_X509(bio, x); });
  };
  const std::string ca_text = pem(ca.get()), text = pem(certificate.get());
  if (secret.empty() || ca_text.empty() || text.empty()) return CryptoError("write a key");
  RETURN_IF_ERROR(WriteSecret(folder + "/ca.pem", ca_text));
  RETURN_IF_ERROR(WriteSecret(folder + "/certificate.pem", text));
  RETURN_IF_ERROR(WriteSecret(folder + "/key.pem", secret));
  return WriteSecret(folder + "/token", token);
}

absl::StatusOr<JobKeys> ReadJobKeys(const std::string& folder) {
  JobKeys keys;
  ASSIGN_OR_RETURN(keys.ca, ReadSecret(folder + "/ca.pem", kKeysHint));
  ASSIGN_OR_RETURN(keys.certificate, ReadSecret(folder + "/certificate.pem", kKeysHint));
  ASSIGN_OR_RETURN(keys.key, ReadSecret(folder + "/key.pem", kKeysHint));
  ASSIGN_OR_RETURN(keys.token, ReadSecret(folder + "/token", kKeysHint));
  const auto certificate_of = [](const std::string& text) {
    const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    return Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  };
  // A key that asks for a password must not ask at a terminal.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const Bio bio(BIO_new_mem_buf(keys.key.data(), static_cast<int>(keys.key.size())));
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  const Certificate ca = certificate_of(keys.ca), certificate = certificate_of(keys.certificate);
  const char* what = nullptr;
  if (ca == nullptr) {
    what = "ca.pem is no certificate";
  } else if (certificate == nullptr) {
    what = "certificate.pem is no certificate";
  } else if (key == nullptr) {
    what = "key.pem is no private key";
  } else if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    what = "key.pem is not the key of certificate.pem";
  } else if (X509_verify(certificate.get(), X509_get0_pubkey(ca.get())) != 1) {
    what = "certificate.pem is not signed by ca.pem";
  } else if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    what = "certificate.pem has expired";
  } else if (keys.token.empty()) {
    what = "token is empty";
  }
  ERR_clear_error();
  if (what != nullptr) return InputError(folder, what, kKeysHint);
  return keys;
}

}  // namespace oneflow
