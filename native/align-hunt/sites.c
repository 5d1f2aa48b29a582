/* SPDX-License-Identifier: MIT */
#include "sites.h"

#include <string.h>

struct site sites[SITES];
_Atomic uint64_t sites_lost;

static unsigned slot_of(uintptr_t pc, uintptr_t caller)
{
	uint64_t mixed = (pc >> 2) * 0x9e3779b97f4a7c15ull ^ (caller >> 2) * 0xc2b2ae3d27d4eb4full;
	return (unsigned)(mixed >> 40) % SITES;
}

/* The site of a slot, or null when it holds another; a free slot becomes ours. */
static struct site *taken(struct site *site, uintptr_t pc, uintptr_t caller, uint32_t word)
{
	uint32_t state = FREE;
	if (atomic_compare_exchange_strong(&site->state, &state, CLAIMED)) {
		site->pc = pc, site->caller = caller, site->word = word;
		atomic_store(&site->state, READY);
		return site;
	}
	while (atomic_load(&site->state) != READY)
		; /* another thread, which no signal can interrupt here, is about to be done */
	return site->pc == pc && site->caller == caller && site->word == word ? site : NULL;
}

struct site *sites_note(uintptr_t pc, uintptr_t caller, uint32_t word, uint64_t address)
{
	unsigned slot = slot_of(pc, caller);
	for (unsigned probe = 0; probe < SITES; probe++) {
		struct site *site = taken(&sites[(slot + probe) % SITES], pc, caller, word);
		if (!site)
			continue;
		atomic_fetch_add(&site->count, 1);
		atomic_fetch_or(&site->offsets, 1u << (address & 15));
		return site;
	}
	atomic_fetch_add(&sites_lost, 1);
	return NULL;
}

void sites_clear(void)
{
	memset(sites, 0, sizeof sites);
	sites_lost = 0;
}
