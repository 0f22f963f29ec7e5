/* Reads 64 scattered pages of a file in one of four ways, after the page cache was told to forget
 * it (cold), or as it is (warm); or as it is, on a kernel that does not tell what the page cache has
 * (untold), as those before 6.5. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024, READS = 64 };

/* Makes the one system call unknown; its number is the same on all machines. */
static int forget_cachestat(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 451, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

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
    if (strcmp(arguments[2], "untold") == 0 && !forget_cachestat()) {
        return 3;
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
        } else if (strcmp(arguments[1], "fseek") == 0) {
            /* The C library reads the page to set the position, and nothing after. */
            fseek(file, at + 1, SEEK_SET);
            got = fread(page, 1, 100, file) == 100 ? PAGE : 0;
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
