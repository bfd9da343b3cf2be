// The sanitizers call these, if they are linked in. Elsewhere nobody does.

// The system's gRPC, Protobuf and Abseil are not instrumented, so ThreadSanitizer does not see
// their locks. A race whose stack passes through them is hidden too: test our own code below them.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libgrpc.so\n"
         "race:libgrpc++.so\n"
         "race:libgpr.so\n"
         "race:libabsl_*.so\n"
         "race:libprotobuf.so\n"
         "race:libglog.so\n"
         "race:libdnnl.so\n"
         "race:libgomp.so\n"
         "race:grpc::*\n"
         "race:grpc_core::*\n";
}

extern "C" const char* __tsan_default_options() {
  return "halt_on_error=0:second_deadlock_stack=1";
}

extern "C" const char* __asan_default_options() {
  return "detect_leaks=1:check_initialization_order=1:strict_string_checks=1";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
