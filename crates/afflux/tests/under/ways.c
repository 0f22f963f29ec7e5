/* 4096 bytes by every way there is; the read of what was written is checked. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 4096 };
static char out[BYTES + 1], in[BYTES];

static void check(const char *what, long got)
{
    if (got != BYTES) {
        fprintf(stderr, "%s: %ld, %s\n", what, got, strerror(errno));
        exit(1);
    }
}

static void same(const char *what)
{
    if (memcmp(in, out, BYTES) != 0) {
        fprintf(stderr, "%s: other bytes\n", what);
        exit(1);
    }
    memset(in, 0, BYTES);
}

#define WRITE(call) check(#call, call)
#define READ(call)      \
    do {                \
        check(#call, call); \
        same(#call);    \
    } while (0)

int main(void)
{
    memset(out, 'y', BYTES);
    struct iovec from[2] = {{out, 1000}, {out + 1000, BYTES - 1000}};
    struct iovec to[2] = {{in, 3000}, {in + 3000, BYTES - 3000}};
    int fd = open("bytes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    WRITE(write(fd, out, BYTES));
    lseek(fd, 0, SEEK_SET);
    READ(read(fd, in, BYTES));
    WRITE(writev(fd, from, 2));
    lseek(fd, 0, SEEK_SET);
    READ(readv(fd, to, 2));
    WRITE(pwrite(fd, out, BYTES, 0));
    READ(pread(fd, in, BYTES, 0));
    WRITE(pwritev(fd, from, 2, 0));
    READ(preadv(fd, to, 2, 0));
    WRITE(pwritev2(fd, from, 2, 0, RWF_DSYNC));
    READ(preadv2(fd, to, 2, 0, 0));
    loff_t zero = 0;
    WRITE(copy_file_range(fd, &zero, other, NULL, BYTES, 0));
    off_t start = 0;
    WRITE(sendfile(other, fd, &start, BYTES));
    int ends[2];
    if (pipe(ends) != 0) {
        return 1;
    }
    zero = 0;
    WRITE(splice(fd, &zero, ends[1], NULL, BYTES, 0));
    WRITE(splice(ends[0], NULL, other, NULL, BYTES, 0));
    WRITE(dprintf(other, "%s", out));
    WRITE(syscall(SYS_pwrite64, fd, out, BYTES, 0L));
    READ(syscall(SYS_pread64, fd, in, BYTES, 0L));
    struct aiocb block = {.aio_fildes = fd, .aio_buf = out, .aio_nbytes = BYTES};
    const struct aiocb *list[1] = {&block};
    block.aio_lio_opcode = LIO_WRITE;
    if (aio_write(&block) != 0 || aio_suspend(list, 1, NULL) != 0) {
        return 1;
    }
    WRITE(aio_return(&block));
    block.aio_buf = in;
    block.aio_lio_opcode = LIO_READ;
    if (aio_read(&block) != 0 || aio_suspend(list, 1, NULL) != 0) {
        return 1;
    }
    READ(aio_return(&block));
    struct aiocb write = {.aio_fildes = fd, .aio_buf = out, .aio_nbytes = BYTES};
    struct aiocb read = {.aio_fildes = other, .aio_buf = in, .aio_nbytes = BYTES};
    write.aio_lio_opcode = LIO_WRITE;
    read.aio_lio_opcode = LIO_READ;
    struct aiocb *both[2] = {&write, &read};
    if (lio_listio(LIO_WAIT, both, 2, NULL) != 0) {
        return 1;
    }
    WRITE(aio_return(&write));
    READ(aio_return(&read));
    char *mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED || memcmp(mapped, out, BYTES) != 0) {
        return 1;
    }
    return 0;
}
