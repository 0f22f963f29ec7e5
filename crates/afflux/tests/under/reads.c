/* Reads 64 scattered pages of a file in one of three ways, after the page cache was told to forget
 * it (cold), or as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024, READS = 64 };

int main(int count, char **arguments)
{
    static char page[PAGE];
    if (count != 3) {
        return 2;
    }
    int fd = open("data", O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    if (strcmp(arguments[2], "cold") == 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    FILE *file = fdopen(dup(fd), "r");
    for (int i = 0; i < READS; i++) {
        off_t at = (off_t)((i * 389) % PAGES) * PAGE;
        ssize_t got;
        if (strcmp(arguments[1], "pread") == 0) {
            got = pread(fd, page, PAGE, at);
        } else if (strcmp(arguments[1], "read") == 0) {
            lseek(fd, at, SEEK_SET);
            got = read(fd, page, PAGE);
        } else {
            fseek(file, at, SEEK_SET);
            got = fread(page, 1, PAGE, file);
        }
        if (got != PAGE || page[0] != 7) {
            return 1;
        }
    }
    return 0;
}
