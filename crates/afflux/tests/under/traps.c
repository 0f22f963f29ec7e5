/* What a library under a program must not change: one letter of the first argument for each trap.
 * Ends with 0 when all is as it should be. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(what)                                                       \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static char block[65536];

/* errno stays what it was after success, and is what the kernel says after failure. */
static void errors(void)
{
    int fd = open("trap", O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600);
    errno = 77;
    EXPECT(write(fd, block, 100) == 100 && errno == 77);
    EXPECT(pread(fd, block, 100, 0) == 100 && errno == 77);
    EXPECT(fsync(fd) == 0 && errno == 77);
    EXPECT(write(fd, (void *)8, 100) == -1 && errno == EFAULT);
    EXPECT(read(-1, block, 1) == -1 && errno == EBADF);
    EXPECT(pread(fd, (void *)8, 100, 0) == -1 && errno == EFAULT);
    EXPECT(pread(fd, block, 100, -1) == -1 && errno == EINVAL);
    EXPECT(writev(fd, (void *)8, 2) == -1 && errno == EFAULT);
    EXPECT(readv(fd, (void *)8, 2) == -1 && errno == EFAULT);
    EXPECT(preadv(fd, (void *)8, 2, 0) == -1 && errno == EFAULT);
    struct iovec none = {NULL, 0};
    EXPECT(writev(fd, &none, -1) == -1 && errno == EINVAL);
    EXPECT(open("no/such", O_RDONLY) == -1 && errno == ENOENT);
    EXPECT(close(fd) == 0 && close(fd) == -1 && errno == EBADF);
    EXPECT(fopen("no/such", "r") == NULL && errno == ENOENT);
    EXPECT(copy_file_range(0, (void *)8, 1, NULL, 1, 0) == -1);
}

/* dup and fork share one position; append goes to the end; a closed number is another file's. */
static void descriptors(void)
{
    int fd = open("trap", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int twin = dup(fd);
    EXPECT(write(fd, "abc", 3) == 3 && lseek(twin, 0, SEEK_CUR) == 3);
    pid_t child = fork();
    if (child == 0) {
        _exit(write(twin, "def", 3) == 3 ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(lseek(fd, 0, SEEK_CUR) == 6);
    int end = open("trap", O_WRONLY | O_APPEND);
    EXPECT(write(end, "ghi", 3) == 3 && lseek(fd, 0, SEEK_END) == 9);
    int old = fd;
    close(fd);
    int ends[2];
    EXPECT(pipe(ends) == 0 && (ends[0] == old || ends[1] == old));
    EXPECT(write(ends[1], "x", 1) == 1 && read(ends[0], block, 9) == 1);
    EXPECT(dup2(twin, ends[0]) == ends[0] && pread(ends[0], block, 9, 0) == 9);
    EXPECT(memcmp(block, "abcdefghi", 9) == 0);
    close_range(3, ~0U, 0);
    EXPECT(open("trap", O_RDONLY) == 3 && read(3, block, 9) == 9);
}

/* The child of a vfork closes and opens; the parent's files are still its own. */
static void children(void)
{
    int fd = open("trap", O_RDWR | O_CREAT | O_TRUNC, 0600);
    pid_t child = vfork();
    if (child == 0) {
        close(fd);
        dup2(2, fd);
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(write(fd, "abc", 3) == 3 && pread(fd, block, 3, 0) == 3);
    EXPECT(system("exit 3") == 3 << 8);
    FILE *pipe = popen("echo from a pipe", "r");
    EXPECT(fgets(block, sizeof block, pipe) != NULL && strcmp(block, "from a pipe\n") == 0);
    EXPECT(pclose(pipe) == 0);
    child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit $1", "sh", "5", (char *)NULL);
        _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
}

static int in_handler;

static void handler(int number)
{
    (void)number;
    /* write() may be called here, whatever it interrupted. */
    if (pwrite(in_handler, "s", 1, 70000) == 1) {
        errno = 0;
    }
}

/* Signals arrive in the midst of calls, and their handler makes calls, too. */
static void signals(void)
{
    int fd = open("trap", O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600);
    /* Into the page cache: a handler slower than the timer would leave no time for anything else. */
    in_handler = open("trap", O_RDWR);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    ualarm(20000, 5000);
    for (int i = 0; i < 400; i++) {
        EXPECT(pwrite(fd, block, 512, (i % 100) * 512L) == 512);
        EXPECT(pread(fd, block, 512, (i % 100) * 512L) == 512);
    }
    ualarm(0, 0);
}

static void *reader(void *argument)
{
    int fd = *(int *)argument;
    for (;;) {
        if (read(fd, block, 1) != 1) {
            return "end";
        }
    }
}

static void *writer(void *argument)
{
    int fd = *(int *)argument;
    for (;;) {
        if (pwrite(fd, "w", 1, 0) != 1) {
            return "failed";
        }
        pthread_testcancel();
    }
}

/* Threads are cancelled while they wait in a pipe, and while they are held. */
static void threads(void)
{
    int ends[2], fd = open("trap", O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600);
    EXPECT(pipe(ends) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t waiting, writing;
        void *result;
        EXPECT(pthread_create(&waiting, NULL, reader, &ends[0]) == 0);
        EXPECT(pthread_create(&writing, NULL, writer, &fd) == 0);
        usleep(2000);
        EXPECT(pthread_cancel(waiting) == 0 && pthread_cancel(writing) == 0);
        EXPECT(pthread_join(waiting, &result) == 0 && result == PTHREAD_CANCELED);
        EXPECT(pthread_join(writing, &result) == 0 && result == PTHREAD_CANCELED);
    }
    EXPECT(pwrite(fd, "w", 1, 0) == 1);
}

/* Before main and after exit there are calls, too. */
__attribute__((constructor)) static void early(void)
{
    FILE *file = fopen("early", "w");
    if (file != NULL) {
        fputs("early\n", file);
        fclose(file);
    }
}

static FILE *late_file;

__attribute__((destructor)) static void late(void)
{
    if (late_file != NULL) {
        fprintf(late_file, "late\n");
    }
}

int main(int count, char **arguments)
{
    for (const char *at = count > 1 ? arguments[1] : ""; *at; at++) {
        switch (*at) {
        case 'e': errors(); break;
        case 'd': descriptors(); break;
        case 'c': children(); break;
        case 's': signals(); break;
        case 't': threads(); break;
        default: return 2;
        }
    }
    late_file = fopen("late", "w");
    setvbuf(late_file, NULL, _IOFBF, 65536);
    return 0;
}
