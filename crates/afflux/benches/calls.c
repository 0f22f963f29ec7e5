/* What calls cost: the least mean of many rounds, in nanoseconds a call. Run alone and under the
 * library by under.rs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 400, CALLS = 500 };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

#define MEASURE(name, before, call)                          \
    do {                                                     \
        double least = 1e18;                                 \
        for (int round = 0; round < ROUNDS; round++) {       \
            before;                                          \
            double start = now();                            \
            for (int i = 0; i < CALLS; i++) {                \
                if ((call) < 0) {                            \
                    perror(name);                            \
                    exit(1);                                 \
                }                                            \
            }                                                \
            double mean = (now() - start) / CALLS;           \
            least = mean < least ? mean : least;             \
        }                                                    \
        fprintf(stderr, "%s %.1f\n", name, least);           \
    } while (0)

int main(int count, char **arguments)
{
    if (count < 2 || chdir(arguments[1]) != 0) {
        return 2;
    }
    char byte = 'x', block[4096];
    memset(block, 'x', sizeof block);
    FILE *file = fopen("stream", "w+");
    MEASURE("fwrite", rewind(file), (int)fwrite(&byte, 1, 1, file) - 1);
    MEASURE("fread", rewind(file), (int)fread(&byte, 1, 1, file) - 1);
    MEASURE("fprintf", rewind(file), fprintf(file, "%d ", 7));
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < CALLS / 8; i++) {
        if (write(fd, block, sizeof block) < 0) {
            return 2;
        }
    }
    MEASURE("pwrite", (void)0, pwrite(fd, &byte, 1, 0));
    MEASURE("pread", (void)0, pread(fd, &byte, 1, 0));
    MEASURE("read", lseek(fd, 0, SEEK_SET), read(fd, &byte, 1));
    int zero = open("/dev/zero", O_RDONLY);
    MEASURE("read-zero", (void)0, read(zero, &byte, 1));
    int synchronous = open("file", O_RDWR | O_DSYNC);
    MEASURE("pwrite-dsync", (void)0, pwrite(synchronous, &byte, 1, 0));
    return 0;
}
