// The sanitizers' settings for every target.

extern "C" const char *__asan_default_options() {
  // LLVM's allocators poison what they have not given out yet, but only in code
  // that is built with the sanitizer: MLIR's own would hand out memory that
  // ours has poisoned.
  return "allow_user_poisoning=0:detect_stack_use_after_return=0";
}

extern "C" const char *__ubsan_default_options() {
  return "print_stacktrace=1";
}
