/* Something to be killed: threads that hold places in a window, and wait for them, by writes that
 * are durable when they return; then parts of a file under write-back. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, WRITES = 8, BYTES = 4096, PARTS = 5, PART = 1 << 20 };

static void *work(void *number)
{
    static char block[BYTES];
    int fd = open("durable", O_WRONLY | O_CREAT | O_DSYNC, 0600);
    for (long at = 0; at < WRITES; at++) {
        if (pwrite(fd, block, BYTES, ((long)number * WRITES + at) * BYTES) != BYTES) {
            exit(1);
        }
    }
    close(fd);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++) {
        pthread_create(&threads[at], NULL, work, (void *)at);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
    }
    int fd = open("buffered", O_WRONLY | O_CREAT, 0600);
    char *part = calloc(1, PART);
    for (int at = 0; at < PARTS; at++) {
        if (write(fd, part, PART) != PART) {
            return 1;
        }
    }
    fsync(fd);
    return 0;
}
