"""The system libraries. Depend on them as //third_party:<name>."""

load("//third_party:system_library.bzl", "system_library")

def system_dependencies():
    system_library(
        name = "system_absl",
        headers = ["absl/status/statusor.h", "absl/container/flat_hash_map.h"],
        packages = ["libabsl-dev"],
        pkg_config = [
            "absl_bind_front",
            "absl_flat_hash_map",
            "absl_flat_hash_set",
            "absl_span",
            "absl_status",
            "absl_statusor",
            "absl_str_format",
            "absl_strings",
            "absl_synchronization",
            "absl_time",
        ],
    )
    system_library(
        name = "system_protobuf",
        headers = ["google/protobuf/message.h"],
        linkopts = ["-lprotobuf"],
        packages = ["libprotobuf-dev", "protobuf-compiler"],
        tools = ["protoc"],
    )
    system_library(
        name = "system_grpc",
        headers = ["grpcpp/grpcpp.h"],
        linkopts = ["-lgrpc++", "-lgrpc", "-lgpr"],
        packages = ["libgrpc++-dev", "protobuf-compiler-grpc"],
        tools = ["grpc_cpp_plugin"],
        deps = ["@system_protobuf//:library", "@system_absl//:library"],
    )
    system_library(
        name = "system_ucx",
        headers = ["ucp/api/ucp.h"],
        linkopts = ["-lucp", "-lucs"],
        packages = ["libucx-dev"],
    )
    system_library(
        name = "system_gflags",
        headers = ["gflags/gflags.h"],
        linkopts = ["-lgflags"],
        packages = ["libgflags-dev"],
    )
    system_library(
        name = "system_glog",
        headers = ["glog/logging.h"],
        linkopts = ["-lglog"],
        packages = ["libgoogle-glog-dev"],
        deps = ["@system_gflags//:library"],
    )
    system_library(
        name = "system_crypto",
        headers = ["openssl/x509.h"],
        linkopts = ["-lcrypto"],
        packages = ["libssl-dev"],
    )
    system_library(
        name = "system_onednn",
        headers = ["dnnl.hpp"],
        linkopts = ["-ldnnl"],
        packages = ["libdnnl-dev"],
    )
    system_library(
        name = "system_xxhash",
        headers = ["xxhash.h"],
        linkopts = ["-lxxhash"],
        packages = ["libxxhash-dev"],
    )
    system_library(
        name = "system_utf8proc",
        headers = ["utf8proc.h"],
        linkopts = ["-lutf8proc"],
        packages = ["libutf8proc-dev"],
    )
    system_library(
        name = "system_pcre2",
        headers = ["pcre2.h"],
        linkopts = ["-lpcre2-8"],
        packages = ["libpcre2-dev"],
    )
    system_library(
        name = "system_json",
        headers = ["nlohmann/json.hpp"],
        packages = ["nlohmann-json3-dev"],
    )
    system_library(
        name = "system_yaml",
        headers = ["yaml-cpp/yaml.h"],
        linkopts = ["-lyaml-cpp"],
        packages = ["libyaml-cpp-dev"],
    )
    system_library(
        name = "system_zlib",
        headers = ["zlib.h"],
        linkopts = ["-lz"],
        packages = ["zlib1g-dev"],
    )
    system_library(
        name = "system_zstd",
        headers = ["zstd.h"],
        linkopts = ["-lzstd"],
        packages = ["libzstd-dev"],
    )
    system_library(
        name = "system_toml",
        headers = ["toml++/toml.h"],
        packages = ["libtomlplusplus-dev"],
    )
    system_library(
        name = "system_httplib",
        headers = ["httplib.h"],
        linkopts = ["-lcpp-httplib"],
        packages = ["libcpp-httplib-dev"],
    )
    system_library(
        name = "system_pybind11",
        headers = ["pybind11/pybind11.h", "python3.11/Python.h"],
        packages = ["pybind11-dev", "python3-dev"],
    )
    system_library(
        name = "system_catch2",
        headers = ["catch2/catch.hpp"],
        packages = ["catch2"],
    )
