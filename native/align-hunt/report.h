/* SPDX-License-Identifier: MIT */
/* The report: JSON lines, one for each site, between a line that says who reports and one that ends it.
 *
 *   {"program": NAME, "pid": N, "mode": "count" | "stop"}
 *   {"site": {...}}                      see docs/align-hunt.md
 *   {"end": {"sites": N, "faults": N, "lost": N, "mappings": N, "signal": N}} */
#pragma once

/* Write it, once; later calls do nothing. Safe in a signal handler. `signal`: the one that ends us, or 0. */
void report(int signal);

/* Where to (a path, or the number of a file descriptor; null: stderr) and how it is headed. */
void report_prepare(const char *destination, const char *mode);

/* In a child of fork(): what the parent counted is the parent's to report. */
void report_forget(void);

/* Count a mapping of a PCI BAR. */
void report_mapping(void);
