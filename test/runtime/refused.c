// Images that may not be loaded, one by one.

#if defined(CONSTRUCTOR)
int value;
__attribute__((constructor)) static void before(void) { value = 1; }
#elif defined(SYMBOL)
int system(const char *);
void kernel(void) { system("true"); }
#elif defined(TLS)
__thread int value;
void kernel(void) { value = 1; }
#else
void kernel(void) {}
#endif
