/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "decode.h"
#include "emulate.h"
#include "place.h"
#include "sites.h"

static char destination[512];
static int descriptor = 2;
static const char *mode = "count";

/* Who writes the report: 0 nobody yet, a thread's id, or DONE. */
enum { DONE = -1 };
static _Atomic int writer;

void report_prepare(const char *where, const char *how)
{
	mode = how;
	if (!where || !*where)
		return;
	char *end;
	long number = strtol(where, &end, 10);
	if (*end == 0)
		descriptor = (int)number;
	else
		strncpy(destination, where, sizeof destination - 1);
	if (where[0] != '/' && *end != 0 && getcwd(destination, sizeof destination - strlen(where) - 2)) {
		strcat(destination, "/"); /* the program may go elsewhere before it ends */
		strcat(destination, where);
	}
}

static _Atomic uint64_t mappings;

void report_mapping(void)
{
	mappings++;
}

void report_forget(void)
{
	mappings = 0;
	sites_clear();
	writer = 0;
}

/* Text in the making; what does not fit is cut, and the line still ends. */
static struct {
	char data[4096];
	size_t used;
} line;

static void put(const char *text)
{
	size_t length = strlen(text), room = sizeof line.data - 2 - line.used;
	length = length < room ? length : room;
	memcpy(line.data + line.used, text, length);
	line.used += length;
}

static void put_number(uint64_t value, unsigned base, unsigned width)
{
	char digits[24];
	unsigned at = sizeof digits - 1;
	digits[at] = 0;
	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value || sizeof digits - 1 - at < width);
	put(digits + at);
}

static void put_key(const char *key)
{
	put(line.data[line.used - 1] == '{' ? "\"" : ", \"");
	put(key);
	put("\": ");
}

static void string(const char *key, const char *value)
{
	put_key(key);
	put("\"");
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		char one[2] = {(char)c, 0};
		if (c == '"' || c == '\\')
			put("\\");
		if (c >= 0x20 && c < 0x7f)
			put(one);
		else
			put("\\u00"), put_number(c, 16, 2);
	}
	put("\"");
}

static void number(const char *key, uint64_t value)
{
	put_key(key);
	put_number(value, 10, 1);
}

static void boolean(const char *key, bool value)
{
	put_key(key);
	put(value ? "true" : "false");
}

static void start(const char *text)
{
	line.used = 0;
	put(text);
}

static void finish(int fd, const char *text)
{
	put(text);
	line.data[line.used++] = '\n';
	for (size_t done = 0; done < line.used;) {
		long wrote = syscall(SYS_write, fd, line.data + done, line.used - done);
		if (wrote <= 0)
			return;
		done += (size_t)wrote;
	}
}

static void put_place(const struct place *place)
{
	string("object", place->object);
	string("build_id", place->build_id);
	number("offset", place->offset);
	number("address", place->address);
	string("symbol", place->symbol);
	number("into", place->into);
	boolean("exact", place->exact);
}

struct totals {
	uint64_t sites, faults;
};

static bool told[SITES];

/* Counts of all callers of one instruction, where callers do not matter. */
static uint64_t gather(unsigned first, bool by_caller, uint32_t *offsets)
{
	uint64_t count = 0;
	for (unsigned i = first; i < SITES; i++) {
		struct site *site = &sites[i];
		if (atomic_load(&site->state) != READY || site->pc != sites[first].pc || (by_caller && i != first))
			continue;
		told[i] = true;
		count += atomic_load(&site->count);
		*offsets |= atomic_load(&site->offsets);
	}
	return count;
}

static void put_offsets(uint32_t offsets)
{
	put_key("modulo16");
	put("[");
	for (unsigned i = 0, some = 0; i < 16; i++)
		if (offsets >> i & 1) {
			put(some++ ? ", " : "");
			put_number(i, 10, 1);
		}
	put("]");
}

static void put_instruction(uint32_t word)
{
	struct access access;
	char name[24];
	decode(word, &access);
	spell(&access, name, sizeof name);
	put_key("instruction");
	put("\"");
	put_number(word, 16, 8);
	put("\"");
	string("mnemonic", name);
	number("size", access.form == FORM_ZVA ? zva_block() : access.bytes);
	number("element", access.form == FORM_ZVA ? zva_block() : access.element);
	boolean("write", !access.load);
}

static void put_site(int fd, unsigned index, struct totals *totals)
{
	static struct place place, caller;
	const struct site *site = &sites[index];
	uint32_t offsets = 0;
	place_find(site->pc, &place);
	uint64_t count = gather(index, place.copies, &offsets);
	start("{\"site\": {");
	put_place(&place);
	put_instruction(site->word);
	put_offsets(offsets);
	number("count", count);
	boolean("emulated", !atomic_load(&site->refused));
	if (place.copies) {
		place_find(site->caller - 4, &caller); /* the call itself */
		put_key("caller");
		put("{");
		put_place(&caller);
		put("}");
	}
	finish(fd, "}}");
	totals->sites++, totals->faults += count;
}

/* True for the one who writes it. Others wait until it is written: they may be about to end the process. */
static bool our_turn(void)
{
	int nobody = 0, self = (int)syscall(SYS_gettid);
	if (atomic_compare_exchange_strong(&writer, &nobody, self))
		return true;
	while (writer != DONE && writer != self)
		syscall(SYS_sched_yield);
	return false;
}

static void write_report(int signal)
{
	int fd = descriptor;
	if (destination[0])
		fd = (int)syscall(SYS_openat, AT_FDCWD, destination, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	struct totals totals = {0, 0};
	memset(told, 0, sizeof told);
	start("{");
	string("program", program_invocation_short_name);
	number("pid", (uint64_t)syscall(SYS_getpid));
	string("mode", mode);
	finish(fd, "}");
	for (unsigned i = 0; i < SITES; i++)
		if (!told[i] && atomic_load(&sites[i].state) == READY)
			put_site(fd, i, &totals);
	start("{\"end\": {");
	number("sites", totals.sites);
	number("faults", totals.faults);
	number("lost", atomic_load(&sites_lost));
	number("mappings", mappings);
	number("signal", (uint64_t)signal);
	finish(fd, "}}");
	if (destination[0])
		syscall(SYS_close, fd);
}

void report(int signal)
{
	if (our_turn()) {
		write_report(signal);
		writer = DONE;
	}
}
