/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc's memory functions */

static struct {
	const char *name;
	uintptr_t at;
} copies[] = {
	{"memcpy", 0}, {"memmove", 0}, {"memset", 0}, {"memcmp", 0}, {"memchr", 0}, {"strlen", 0}, {"strcpy", 0},
	{"bcmp", 0}, {"bzero", 0}, {"mempcpy", 0},
};

enum { LONGEST_COPY = 0x600 }; /* bytes of code; glibc 2.41's memcpy with memmove has some 0x300 */

void place_prepare(void)
{
	for (unsigned i = 0; i < sizeof copies / sizeof *copies; i++)
		copies[i].at = (uintptr_t)dlsym(RTLD_NEXT, copies[i].name);
}

static void name_copy(uintptr_t pc, struct place *place)
{
	const char *base = strrchr(place->object, '/');
	if (!base || strncmp(base, "/libc.so", 8) != 0)
		return;
	uintptr_t nearest = 0;
	for (unsigned i = 0; i < sizeof copies / sizeof *copies; i++) {
		if (copies[i].at > pc || pc - copies[i].at >= LONGEST_COPY || copies[i].at <= nearest)
			continue;
		nearest = copies[i].at;
		place->copies = true;
		place->exact = true;
		place->into = pc - nearest;
		strcpy(place->symbol, copies[i].name);
	}
}

/* /proc/self/maps: "start-end perms offset dev inode    path" */

struct reader {
	int fd;
	size_t at, end;
	char data[4096];
};

static int next_byte(struct reader *reader)
{
	if (reader->at == reader->end) {
		long got = syscall(SYS_read, reader->fd, reader->data, sizeof reader->data);
		if (got <= 0)
			return -1;
		reader->at = 0, reader->end = (size_t)got;
	}
	return (unsigned char)reader->data[reader->at++];
}

static bool next_line(struct reader *reader, char *line, size_t size)
{
	size_t used = 0;
	int byte;
	while ((byte = next_byte(reader)) >= 0 && byte != '\n')
		if (used < size - 1)
			line[used++] = (char)byte;
	line[used] = 0;
	return byte >= 0 || used > 0;
}

static uint64_t hexadecimal(const char **text)
{
	uint64_t value = 0;
	for (;; (*text)++) {
		char c = **text;
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return value;
	}
}

/* Fill in object and offset from the line of the mapping that holds `pc`; false when it is another's. */
static bool in_mapping(const char *line, uintptr_t pc, struct place *place)
{
	const char *text = line;
	uint64_t start = hexadecimal(&text);
	text++;
	uint64_t end = hexadecimal(&text);
	if (pc < start || pc >= end || strlen(text) < 6)
		return false;
	text += 6; /* " r-xp " */
	uint64_t offset = hexadecimal(&text);
	const char *path = strchr(text, '/');
	place->offset = pc - start + (path ? offset : 0);
	if (path)
		strncpy(place->object, path, sizeof place->object - 1);
	return true;
}

static void find_mapping(uintptr_t pc, struct place *place)
{
	static struct reader reader;
	char line[640];
	reader.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (reader.fd < 0)
		return;
	reader.at = reader.end = 0;
	while (next_line(&reader, line, sizeof line) && !in_mapping(line, pc, place))
		;
	syscall(SYS_close, reader.fd);
}

/* The object file */

struct image {
	const unsigned char *at;
	size_t size;
};

static struct image open_image(const char *path)
{
	struct image image = {NULL, 0};
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return image;
	long size = syscall(SYS_lseek, fd, 0L, SEEK_END);
	void *at = size > 0 ? (void *)syscall(SYS_mmap, 0L, size, PROT_READ, MAP_PRIVATE, fd, 0L) : MAP_FAILED;
	syscall(SYS_close, fd);
	if (at != MAP_FAILED)
		image = (struct image){at, (size_t)size};
	return image;
}

/* `size` bytes at `offset` of the file, or null when it does not have them. */
static const void *part(const struct image *image, uint64_t offset, uint64_t size)
{
	return offset <= image->size && size <= image->size - offset ? image->at + offset : NULL;
}

static void note_build_id(const struct image *image, const Elf64_Phdr *segment, struct place *place)
{
	static const char digits[] = "0123456789abcdef";
	for (uint64_t at = segment->p_offset; at + sizeof(Elf64_Nhdr) <= segment->p_offset + segment->p_filesz;) {
		const Elf64_Nhdr *note = part(image, at, sizeof *note);
		if (!note)
			return;
		uint64_t name = at + sizeof *note, value = name + ((note->n_namesz + 3u) & ~3u);
		const unsigned char *bytes = part(image, value, note->n_descsz);
		const char *owner = part(image, name, note->n_namesz);
		if (!bytes || !owner)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(owner, "GNU", 4)) {
			unsigned length = note->n_descsz < 20 ? note->n_descsz : 20;
			for (unsigned i = 0; i < length; i++) {
				place->build_id[2 * i] = digits[bytes[i] >> 4];
				place->build_id[2 * i + 1] = digits[bytes[i] & 15];
			}
			return;
		}
		at = value + ((note->n_descsz + 3u) & ~3u);
	}
}

static void read_segments(const struct image *image, const Elf64_Ehdr *head, struct place *place)
{
	const Elf64_Phdr *segments = part(image, head->e_phoff, (uint64_t)head->e_phnum * sizeof *segments);
	for (unsigned i = 0; segments && i < head->e_phnum; i++) {
		const Elf64_Phdr *s = &segments[i];
		if (s->p_type == PT_LOAD && place->offset >= s->p_offset && place->offset - s->p_offset < s->p_filesz)
			place->address = place->offset - s->p_offset + s->p_vaddr;
		if (s->p_type == PT_NOTE && !place->build_id[0])
			note_build_id(image, s, place);
	}
}

static void read_symbols(const struct image *image, const Elf64_Shdr *table, const Elf64_Shdr *names,
                         struct place *place)
{
	const Elf64_Sym *symbols = part(image, table->sh_offset, table->sh_size);
	const char *text = part(image, names->sh_offset, names->sh_size);
	if (!symbols || !text || !names->sh_size || text[names->sh_size - 1])
		return;
	for (uint64_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
		const Elf64_Sym *s = &symbols[i];
		if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF || s->st_value > place->address ||
		    s->st_name >= names->sh_size)
			continue;
		uint64_t into = place->address - s->st_value;
		if (place->symbol[0] && into >= place->into)
			continue;
		place->into = into;
		place->exact = into < s->st_size;
		strncpy(place->symbol, text + s->st_name, sizeof place->symbol - 1);
	}
}

static void read_sections(const struct image *image, const Elf64_Ehdr *head, struct place *place)
{
	const Elf64_Shdr *sections = part(image, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections);
	for (unsigned i = 0; sections && i < head->e_shnum; i++) {
		const Elf64_Shdr *s = &sections[i];
		if ((s->sh_type == SHT_SYMTAB || s->sh_type == SHT_DYNSYM) && s->sh_link < head->e_shnum)
			read_symbols(image, s, &sections[s->sh_link], place);
	}
}

void place_find(uintptr_t pc, struct place *place)
{
	memset(place, 0, sizeof *place);
	find_mapping(pc, place);
	place->address = place->offset;
	struct image image = place->object[0] ? open_image(place->object) : (struct image){NULL, 0};
	if (image.at) {
		const Elf64_Ehdr *head = part(&image, 0, sizeof *head);
		if (head && !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64) {
			read_segments(&image, head, place);
			read_sections(&image, head, place);
		}
		syscall(SYS_munmap, image.at, image.size);
	}
	name_copy(pc, place);
}
