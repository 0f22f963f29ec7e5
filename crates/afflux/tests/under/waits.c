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
static volatile int handled;
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
    siglongjmp(out, 1);
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

static double take_turns(int fd, int times)
{
    double start = now();
    for (int at = 0; at < times; at++) {
        EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    }
    return now() - start;
}

/* A sibling has the window most of the time. The handler jumps out of the wait for a place, or out
 * of the call that has one: whatever it was, it must not be taken for ever. */
static void jumped(void)
{
    int fd = durable("a");
    pid_t sibling = fork();
    if (sibling == 0) {
        int other = durable("b");
        for (;;) {
            EXPECT(pwrite(other, block, sizeof block, 0) == sizeof block);
        }
    }
    on_alarm(jumps);
    for (volatile int at = 0; at < 300; at++) {
        if (sigsetjmp(out, 1) == 0) {
            timer(200 + at * 37 % 3000, 0);
            for (;;) {
                EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
            }
        }
    }
    timer(0, 0);
    int state;
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
    EXPECT(state == PTHREAD_CANCEL_ENABLE);
    kill(sibling, SIGKILL);
    EXPECT(waitpid(sibling, NULL, 0) == sibling);
    double took = take_turns(fd, 20);
    printf("%d jumps, then 20 writes in %.3f s\n", handled, took);
    EXPECT(handled >= 20 && took < 10);
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
    case 'j': jumped(); return 0;
    case 'n': nested(); return 0;
    default: return 2;
    }
}
