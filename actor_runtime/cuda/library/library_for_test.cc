// The shared object that open_library_test opens.
extern "C" int LibraryForTestAnswer() { return 42; }
