/* Signals while a request waits for its turn, or has it: one letter of the first argument for each
 * case. Ends with 0 when all is as it should be. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(what)                                                       \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static char block[4096];
static int in_handler = -1;
static volatile int handled, armed;
static sigjmp_buf out;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void timer(long micros, int repeats)
{
    struct itimerval value = {{0, repeats ? micros : 0}, {0, micros}};
    setitimer(ITIMER_REAL, &value, NULL);
}

static void returns(int number)
{
    (void)number;
    handled++;
}

static void jumps(int number)
{
    (void)number;
    handled++;
    if (armed) {
        siglongjmp(out, 1);
    }
}

static void writes(int number)
{
    (void)number;
    int before = errno;
    handled++;
    if (pwrite(in_handler, block, 512, 0) != 512) {
        _exit(3);
    }
    errno = before;
}

static void on_alarm(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
}

static int durable(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_DSYNC, 0600);
    EXPECT(fd >= 0);
    return fd;
}

/* Held for half a second; the signal comes after a tenth, and the call goes on as if none had. */
static void interrupted(void)
{
    int fd = durable("a");
    on_alarm(returns);
    EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    double start = now();
    timer(100000, 0);
    errno = 77;
    EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block && errno == 77);
    EXPECT(handled == 1 && now() - start > 0.3);
}

/* Interrupts the first thread again and again, each time after another while, until it is told to
 * end. */
static pthread_t first;
static volatile int ends;

static void *interrupts(void *nothing)
{
    unsigned random = 1;
    while (!ends) {
        random = random * 1103515245 + 12345;
        double until = now() + (random >> 16) % 200 / 1e6;
        while (now() < until) {
        }
        pthread_kill(first, SIGUSR1);
    }
    return nothing;
}

static pthread_t interrupted_by(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    first = pthread_self();
    ends = 0;
    EXPECT(pthread_create(&thread, NULL, interrupts, NULL) == 0);
    return thread;
}

static void no_longer(pthread_t thread)
{
    ends = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    signal(SIGUSR1, SIG_IGN);
}

/* Says what was done, and lives on until whoever looks on has seen enough. */
static void wait_to_be_seen(long what)
{
    printf("%ld\n", what);
    fflush(stdout);
    EXPECT(getchar() == '.');
}

enum { BLOCKS = 64 };

/* The last number that was written to each block, and the one that may have been. */
static volatile int written[BLOCKS], tried[BLOCKS];

static void check(int fd, int at)
{
    static int found[sizeof block / sizeof(int)];
    EXPECT(pread(fd, found, sizeof found, (off_t)at * sizeof found) == sizeof found);
    EXPECT(found[0] == written[at] || found[0] == tried[at]);
    for (size_t word = 0; word < sizeof found / sizeof(int); word++) {
        EXPECT(found[word] == found[0]);
    }
    written[at] = found[0];
}

/* Writes until it is interrupted; the handler jumps out of the wait for a place, of the call that
 * has one, or of what comes before and after. */
static void write_on(int fd, volatile int *number)
{
    static int numbers[sizeof block / sizeof(int)];
    for (;;) {
        int next = ++*number, at = next % BLOCKS;
        for (size_t word = 0; word < sizeof numbers / sizeof(int); word++) {
            numbers[word] = next;
        }
        tried[at] = next;
        ssize_t done = pwrite(fd, numbers, sizeof numbers, (off_t)at * sizeof numbers);
        EXPECT(done == sizeof numbers);
        written[at] = next;
    }
}

static void jumped(int jumps_wanted)
{
    int fd = durable("a");
    EXPECT(ftruncate(fd, (off_t)BLOCKS * sizeof block) == 0);
    pid_t sibling = fork();
    if (sibling == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int other = durable("b");
        for (int at = 0;; at++) {
            EXPECT(pwrite(other, block, sizeof block, 0) == sizeof block);
            if (at % 50 == 0) {
                usleep(2000);
            }
        }
    }
    static volatile int number;
    static pthread_t thread;
    thread = interrupted_by(jumps);
    while (handled < jumps_wanted) {
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            check(fd, number % BLOCKS);
            write_on(fd, &number);
        }
    }
    armed = 0;
    no_longer(thread);
    int state;
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
    EXPECT(state == PTHREAD_CANCEL_ENABLE);
    kill(sibling, SIGKILL);
    EXPECT(waitpid(sibling, NULL, 0) == sibling);
    for (int at = 0; at < BLOCKS; at++) {
        check(fd, at);
    }
    EXPECT(number >= BLOCKS);
    wait_to_be_seen(handled);
}

/* Jumps within itself: what it interrupted goes on. */
static void jumps_inside(int signal_number)
{
    (void)signal_number;
    static sigjmp_buf here;
    handled++;
    if (sigsetjmp(here, 0) == 0) {
        siglongjmp(here, 1);
    }
}

static void jumped_inside(int on_other_stack)
{
    static char other_stack[1 << 16];
    int fd = durable("a");
    pthread_t thread = interrupted_by(jumps_inside);
    if (on_other_stack) {
        stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
        EXPECT(sigaltstack(&stack, NULL) == 0);
        struct sigaction action = {.sa_handler = jumps_inside, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
    }
    long writes = 0;
    while (handled < 5000) {
        EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
        writes++;
    }
    no_longer(thread);
    wait_to_be_seen(writes);
}

static double take_turns(int fd, int times)
{
    double start = now();
    for (int at = 0; at < times; at++) {
        EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    }
    return now() - start;
}

/* The handler writes through the window, too, of which the call that it interrupted may have all. */
static void nested(void)
{
    int fd = durable("a");
    in_handler = durable("b");
    on_alarm(writes);
    timer(2000, 1);
    double took = 0;
    while (handled < 50 && took < 30) {
        took += take_turns(fd, 10);
    }
    timer(0, 0);
    printf("%d handlers in %.3f s\n", handled, took);
    EXPECT(took < 30);
}

int main(int count, char **arguments)
{
    switch (count > 1 ? *arguments[1] : 0) {
    case 'i': interrupted(); return 0;
    case 'j': jumped(atoi(arguments[2])); return 0;
    case 'k': jumped_inside(0); return 0;
    case 'l': jumped_inside(1); return 0;
    case 'n': nested(); return 0;
    default: return 2;
    }
}
