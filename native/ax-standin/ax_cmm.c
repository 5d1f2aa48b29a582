// SPDX-License-Identifier: MIT
/*
 * A stand-in for AXERA's ax_cmm.ko on the emulated board: it reserves no memory and serves no device. It takes the same
 * cmmpool= (name,flag,start,size, several with ':' between) and shows what it was told in the files that checks and
 * runners read, /proc/ax_proc/mem_cmm_info and /proc/ax_proc/version, in the vendor's format (read off published logs
 * of V1.45). What it shows is therefore modelled, and its version says so.
 */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#define VERSION "V0.0.0_modelled"
#define MOST_POOLS 8

struct pool {
	char name[32];
	u64 start, size;
};

static char *cmmpool = "";
module_param(cmmpool, charp, 0444);
MODULE_PARM_DESC(cmmpool, "pools: name,flag,start,size[:name,flag,start,size]");

static struct pool pools[MOST_POOLS];
static unsigned int count;
static struct proc_dir_entry *directory;

static int info_show(struct seq_file *file, void *unused)
{
	u64 total = 0;
	unsigned int i;

	seq_puts(file, "--------------------SDK VERSION-------------------\n");
	seq_puts(file, "[Axera version]: ax_cmm " VERSION "\n");
	for (i = 0; i < count; i++) {
		const struct pool *pool = &pools[i];

		total += pool->size;
		seq_printf(file, "+---PARTITION: Phys(0x%llX, 0x%llX), Size=%lluKB(%lluMB),    NAME=\"%s\"\n", pool->start,
			   pool->start + pool->size - 1, pool->size >> 10, pool->size >> 20, pool->name);
		seq_puts(file, " nBlock(Max=0, Cur=0, New=0, Free=0)\n");
	}
	seq_puts(file, "\n---CMM_USE_INFO:\n");
	seq_printf(file,
		   " total size=%lluKB(%lluMB),used=0KB(0MB + 0KB),remain=%lluKB(%lluMB + %lluKB),partition_number=%u,block_number=0\n",
		   total >> 10, total >> 20, total >> 10, total >> 20, (total >> 10) & 1023, count);
	return 0;
}

static int version_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "Ax_Version " VERSION "\n");
	return 0;
}

/* One "name,flag,start,size" into pools[count]; the flag is not looked at, as nothing is allocated. */
static int add_pool(char *text)
{
	struct pool *pool = &pools[count];
	char *name = strsep(&text, ","), *flag = strsep(&text, ","), *start = strsep(&text, ","), *rest;

	if (count == MOST_POOLS || !name || !*name || !flag || !start || !text)
		return -EINVAL;
	pool->start = memparse(start, &rest);
	if (*rest)
		return -EINVAL;
	pool->size = memparse(text, &rest);
	if (*rest || !pool->size)
		return -EINVAL;
	strscpy(pool->name, name, sizeof(pool->name));
	count++;
	return 0;
}

static int __init standin_init(void)
{
	char *copy = kstrdup(cmmpool, GFP_KERNEL), *at = copy, *part;
	int error = 0;

	if (!copy)
		return -ENOMEM;
	while (!error && (part = strsep(&at, ":")))
		error = add_pool(part);
	if (error)
		pr_err("ax_cmm: expected cmmpool=name,flag,start,size[:...], found \"%s\"\n", cmmpool);
	kfree(copy);
	if (error)
		return error;
	directory = proc_mkdir("ax_proc", NULL);
	if (!directory || !proc_create_single("mem_cmm_info", 0444, directory, info_show) ||
	    !proc_create_single("version", 0444, directory, version_show)) {
		proc_remove(directory);
		return -ENOMEM;
	}
	pr_info("ax_cmm: a stand-in of %u pools: no memory is reserved\n", count);
	return 0;
}

static void __exit standin_exit(void)
{
	proc_remove(directory);
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_DESCRIPTION("Stand-in for the AX650N's CMM module on an emulated board");
MODULE_LICENSE("Dual MIT/GPL");
