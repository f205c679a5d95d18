// Images that may not be loaded, one by one.

// Volatile: else the optimiser runs the function itself and leaves none.
#if defined(CONSTRUCTOR)
volatile int value;
__attribute__((constructor)) static void before(void) { value = 1; }
#elif defined(DESTRUCTOR)
volatile int value;
__attribute__((destructor)) static void after(void) { value = 1; }
#elif defined(RESOLVER)
static void plain(void) {}
static void other(void) {}
static volatile int value;
static void (*choose(void))(void) { return value ? other : plain; }
static void chosen(void) __attribute__((ifunc("choose")));
void (*kernel(void))(void) { return chosen; }
#elif defined(SYMBOL)
int system(const char *);
void kernel(void) { system("true"); }
#elif defined(TLS)
__thread int value;
void kernel(void) { value = 1; }
#else
void kernel(void) {}
#endif
