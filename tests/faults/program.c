/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "muster/clock.h"
#include "muster/file.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 24

#define must(condition) ((condition) ? (void)0 : give_up(__LINE__, #condition))

static void give_up(int line, const char *condition)
{
    (void)fprintf(stderr, "program, line %d: not so: %s\n", line, condition);
    abort();
}

void program_start(struct program *program, const struct fake_engine *fake, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {strdup("muster")};
    int in[2], out[2], err[2];

    for (size_t i = 0; arguments[i]; i++) {
        must(i + 2 < ARGUMENTS_MAX);
        argv[i + 1] = strdup(arguments[i]);
    }
    must((pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC)) == 0);
    *program = (struct program){.in_fd = in[1],
                                .out_fd = out[0],
                                .err_fd = err[0],
                                .out = MST_BUF_INIT(1 << 20),
                                .err = MST_BUF_INIT(1 << 20)};
    program->pid = fork();
    must(program->pid >= 0);
    if (program->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(err[1], STDERR_FILENO);
        if (fake)
            (void)setenv("MUSTER_HOST", fake_engine_host(fake), 1);
        (void)execv(MUSTER, argv);
        _exit(125);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    for (size_t i = 0; i < ARGUMENTS_MAX; i++)
        free(argv[i]);
}

bool program_take(int fd, struct mst_buf *text)
{
    char bytes[4096];
    const ssize_t got = read(fd, bytes, sizeof bytes);

    must(got >= 0);
    must(mst_buf_append(text, bytes, (size_t)got) == 0);
    return got > 0;
}

void program_finish(struct program *program)
{
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    struct pollfd fds[] = {{program->out_fd, POLLIN, 0}, {program->err_fd, POLLIN, 0}};
    int status;

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        must(poll(fds, 2, mst_ms_until(deadline_ns, 20000)) > 0);
        if (fds[0].revents != 0 && !program_take(fds[0].fd, &program->out))
            fds[0].fd = -1;
        if (fds[1].revents != 0 && !program_take(fds[1].fd, &program->err))
            fds[1].fd = -1;
    }
    must(waitpid(program->pid, &status, 0) == program->pid);
    program->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (size_t i = 0; i < 3; i++) {
        const int fd = (int[]){program->in_fd, program->out_fd, program->err_fd}[i];
        if (fd >= 0)
            (void)close(fd);
    }
}

void program_release(struct program *program)
{
    mst_buf_release(&program->out);
    mst_buf_release(&program->err);
}

void program_run(struct program *program, const struct fake_engine *fake, const char *const *arguments,
                 const char *input)
{
    program_start(program, fake, arguments);
    if (input)
        must(mst_write_all(program->in_fd, input, strlen(input)) == 0);
    (void)close(program->in_fd);
    program->in_fd = -1;
    program_finish(program);
}
