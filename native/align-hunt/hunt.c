/* SPDX-License-Identifier: MIT */
/* libalign-hunt.so: an arm64 program's alignment faults, survived and listed.
 *
 *   LD_PRELOAD=libalign-hunt.so ALIGN_HUNT_REPORT=report.jsonl program ...
 *
 * ALIGN_HUNT_REPORT: a path, or the number of a file descriptor (default: 2).
 * ALIGN_HUNT=stop: the first fault is reported, and the program dies of it as it would alone.
 *
 * A fault (SIGBUS, BUS_ADRALN) is decoded, counted, made good in aligned pieces, and stepped over. The program
 * cannot take SIGBUS from us or block it (Mesa blocks all signals in its threads, and a fault that is blocked
 * is fatal); it gets every SIGBUS that is none of ours. Other deaths by a signal are reported on the way. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "decode.h"
#include "emulate.h"
#include "place.h"
#include "report.h"
#include "sites.h"

#define PUBLIC __attribute__((visibility("default")))

static const int fatal[] = {SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM};

static struct sigaction programs; /* what the program wants done with SIGBUS */
static bool stop;

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	static int (*function)(int, const struct sigaction *, struct sigaction *);
	if (!function)
		function = (int (*)(int, const struct sigaction *, struct sigaction *))real("sigaction");
	return function(number, action, old);
}

static int real_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	static int (*function)(int, const sigset_t *, sigset_t *);
	if (!function)
		function = (int (*)(int, const sigset_t *, sigset_t *))real("pthread_sigmask");
	return function(how, set, old);
}

static void by_default(int number)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	real_sigaction(number, &action, NULL);
}

/* Block what the program's handler would find blocked, but SIGBUS: it may leave by siglongjmp(), and then
 * keeps the mask. */
static void as_for_program(const ucontext_t *context)
{
	sigset_t mask;
	sigorset(&mask, &context->uc_sigmask, &programs.sa_mask);
	sigdelset(&mask, SIGBUS);
	real_sigmask(SIG_SETMASK, &mask, NULL);
}

/* A SIGBUS for the program: its handler's, or its death, which comes when the instruction runs again. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	bool sent = info->si_code <= 0, handled = programs.sa_flags & SA_SIGINFO;
	if (sent && !handled && programs.sa_handler == SIG_IGN)
		return;
	if (!handled && (programs.sa_handler == SIG_DFL || programs.sa_handler == SIG_IGN)) {
		report(number);
		by_default(number);
		if (sent) /* by somebody: no instruction raises it when it runs again */
			raise(number);
		return;
	}
	as_for_program(context);
	if (handled)
		programs.sa_sigaction(number, info, context);
	else
		programs.sa_handler(number);
}

/* Whether the fault is where the decoded access is; what is not understood is not touched. */
static bool explains(const struct access *access, uint64_t address, uint64_t fault)
{
	const uint64_t untagged = (1ull << 56) - 1;
	uint64_t bytes = access->form == FORM_ZVA ? zva_block() : access->bytes;
	return ((fault - address) & untagged) < bytes;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	int error = errno;
	struct machine machine = machine_of(context);
	struct access access;
	if (info->si_code != BUS_ADRALN || *machine.pc % 4 != 0) {
		pass_on(number, info, context);
		errno = error;
		return;
	}
	uintptr_t pc = (uintptr_t)*machine.pc;
	uint32_t word = *(const uint32_t *)pc;
	bool known = decode(word, &access);
	uint64_t fault = (uint64_t)info->si_addr, address = known ? address_of(&access, &machine) : fault;
	struct site *site = sites_note(pc, (uintptr_t)machine.x[30], word, address);
	if (stop || !known || !explains(&access, address, fault) || !emulate(&access, &machine)) {
		if (site)
			atomic_store(&site->refused, true);
		if (stop)
			report(number);
		pass_on(number, info, context);
	}
	errno = error;
}

static void on_fatal(int number, siginfo_t *info, void *context)
{
	(void)context;
	bool again = info->si_code > 0 && (number == SIGSEGV || number == SIGILL || number == SIGFPE);
	report(number);
	by_default(number);
	if (!again) /* no instruction will raise it when it runs again */
		raise(number);
}

static void install(int number, void (*handler)(int, siginfo_t *, void *))
{
	/* On the thread's alternate stack where it has one; with all signals blocked, so that nothing of the
	 * program's runs in between. */
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigfillset(&action.sa_mask);
	real_sigaction(number, &action, NULL);
}

static bool is_fatal(int number)
{
	for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; i++)
		if (fatal[i] == number)
			return true;
	return false;
}

static bool defaulted(const struct sigaction *action)
{
	return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
}

static bool ours(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_fatal;
}

__attribute__((constructor)) static void begin(void)
{
	const char *mode = getenv("ALIGN_HUNT");
	stop = mode && !strcmp(mode, "stop");
	place_prepare();
	report_prepare(getenv("ALIGN_HUNT_REPORT"), stop ? "stop" : "count");
	pthread_atfork(NULL, NULL, report_forget);
	install(SIGBUS, on_bus_error);
	for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; i++) {
		struct sigaction now;
		if (!real_sigaction(fatal[i], NULL, &now) && defaulted(&now))
			install(fatal[i], on_fatal);
	}
	sigset_t bus;
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

__attribute__((destructor)) static void end(void)
{
	report(0);
}

/* What the program may no longer do to us */

PUBLIC int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	if (number == SIGBUS) {
		struct sigaction before = programs;
		if (action)
			programs = *action;
		if (old)
			*old = before;
		return 0;
	}
	struct sigaction mine;
	if (action) {
		mine = *action;
		sigdelset(&mine.sa_mask, SIGBUS);
	}
	int result = real_sigaction(number, action ? &mine : NULL, old);
	if (result == 0 && old && ours(old))
		*old = (struct sigaction){.sa_handler = SIG_DFL};
	if (result == 0 && action && is_fatal(number) && defaulted(action))
		install(number, on_fatal);
	return result;
}

PUBLIC __sighandler_t signal(int number, __sighandler_t handler)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

/* `set` without SIGBUS where it would block it. */
static const sigset_t *unblocked(int how, const sigset_t *set, sigset_t *room)
{
	if (!set || how == SIG_UNBLOCK)
		return set;
	*room = *set;
	sigdelset(room, SIGBUS);
	return room;
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t room;
	return real_sigmask(how, unblocked(how, set, &room), old);
}

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int error = pthread_sigmask(how, set, old);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* Whether a descriptor is a PCI BAR's: a program that mapped none has proven nothing. */
static bool is_bar(int fd)
{
	char link[32] = "/proc/self/fd/", target[256];
	char digits[12];
	unsigned at = sizeof digits - 1;
	if (fd < 0)
		return false;
	digits[at] = 0;
	for (unsigned left = (unsigned)fd; left || at == sizeof digits - 1; left /= 10)
		digits[--at] = (char)('0' + left % 10);
	strcat(link, digits + at);
	long length = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
	if (length <= 0)
		return false;
	target[length] = 0;
	return !strncmp(target, "/sys/", 5) && strstr(target, "/resource");
}

PUBLIC void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	static void *(*function)(void *, size_t, int, int, int, off_t);
	if (!function)
		function = (void *(*)(void *, size_t, int, int, int, off_t))real("mmap");
	void *got = function(at, size, protection, flags, fd, offset);
	if (got != MAP_FAILED && is_bar(fd))
		report_mapping();
	return got;
}

PUBLIC void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

/* Code that faulted must still be there to be named when we report. */
PUBLIC int dlclose(void *handle)
{
	(void)handle;
	return 0;
}

PUBLIC __attribute__((noreturn)) void _exit(int status)
{
	report(0);
	for (;;)
		syscall(SYS_exit_group, status);
}

PUBLIC __attribute__((noreturn)) void _Exit(int status)
{
	_exit(status);
}
