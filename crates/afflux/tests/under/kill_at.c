/* kill_at N PROGRAM: runs a program and kills it where it, or one of its threads, enters or leaves a
 * system call for the N-th time since it was executed; never for 0. Prints whether it was killed,
 * and how many such points there were until then. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count < 3) {
        return 2;
    }
    long wanted = atol(arguments[1]), points = 0;
    pid_t program = fork();
    if (program == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) {
            _exit(126);
        }
        raise(SIGSTOP);
        execv(arguments[2], arguments + 2);
        _exit(127);
    }
    int status, executed = 0;
    if (waitpid(program, &status, 0) != program || !WIFSTOPPED(status)) {
        puts("refused 0");
        return 1;
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, program, 0, options) != 0) {
        puts("refused 0");
        return 1;
    }
    pid_t stopped = program;
    int given = 0;
    for (;;) {
        ptrace(PTRACE_SYSCALL, stopped, 0, given);
        given = 0;
        do {
            stopped = waitpid(-1, &status, __WALL);
        } while (stopped > 0 && stopped != program && !WIFSTOPPED(status));
        if (stopped <= 0 || !WIFSTOPPED(status)) {
            break;
        }
        int reason = WSTOPSIG(status);
        if (status >> 16 == PTRACE_EVENT_EXEC) {
            executed = 1;
        } else if (status >> 16 != 0 || reason == SIGSTOP) {
            /* A thread was made, or begins. */
        } else if (reason != (SIGTRAP | 0x80)) {
            given = reason;
        } else if (executed && ++points == wanted) {
            kill(program, SIGKILL);
            while (waitpid(-1, &status, __WALL) > 0) {
            }
            printf("killed %ld\n", points);
            return 0;
        }
    }
    printf("ended %ld\n", points);
    return 0;
}
