// Package badgerstore is the durable batch.Store, on Badger. It is the only
// importer of Badger.
//
// # Durability
//
// With sync on (the default) a nil from Commit, Claim or Delete means: every record
// of the change is in Badger's write-ahead log, the log's file is synced to disk,
// so is the folder that names it, and so was, before that, every file that the
// records leave a part to. Neither SIGKILL nor a power cut takes the change back,
// as far as disk and file system keep the promise of fsync and the order of
// changes to names. Recovery replays whole transactions only, so a commit is found
// whole or not at all. Readers see a commit when it is durable, not before. With
// NoSync it survives SIGKILL, but not a power cut.
//
// On Linux the store syncs the log itself, once a group, and Badger's SyncWrites is
// off: Badger would sync its value log as well, after each transaction, though
// nothing enters it. What Badger writes besides the log (tables, MANIFEST) it syncs
// by itself, and always before it removes the log that a table replaces. On other
// systems Badger's SyncWrites is on.
//
// A failed write or sync of the log is final: the store refuses further commits
// until it is opened again, because after a failed fsync nobody knows what is on
// disk. A disk that fills to the last byte kills the process (Badger writes through
// a memory map, and the kernel answers with SIGBUS); nothing acknowledged is lost
// by that. The free-space guard refuses new batches long before.
//
// # Large values
//
// A record of 32 KiB or more leaves its heavy part to a file in blobs/, named by
// the SHA-256 of its content. The file is written and synced before the commit
// that refers to it, on the caller's goroutine. It is verified by its name on every
// read, shared by all records with that content, and removed with the last of
// them; what refused commits and killed processes leave is swept. One commit may
// leave 120 MiB to files.
//
// Format 1 kept large values in Badger's value log. They stay readable there, and
// move to files when their record is written again or the store is restored from a
// backup.
//
// # Damage
//
// Open verifies MANIFEST and every block of every table that is new, or that it
// has not verified for a day, before Badger may touch them: Badger takes a block
// that it cannot read for an absent one, and its next compaction would make that
// true. After a clean Close all files must also be there in full size. A damaged store is
// refused with batch.ErrCorrupt and stays as it is. What cannot be told from a
// kill in mid-write is a write-ahead log that is damaged after a kill: recovery
// ends at the damage, as it does at a torn write.
//
// # Backup, restore, doctor
//
// Backup writes the store as of one moment, while it is in use, to a stream that ends
// with a checksum; Restore takes a whole stream into a new folder, or leaves nothing.
// Doctor looks at everything in a store that nobody has open, says what is damaged
// and what that means, and on demand repairs what loses nothing and puts aside the
// rest. What it puts aside stays in the folder quarantine.
//
// # Upgrades
//
// Every record, the key schema and the backup stream carry a version. A program
// reads all versions that were ever released, and writes its own. A store of an
// earlier version is upgraded when it is opened: the schema record at once, each
// other record when it is written the next time. Nothing is ever rewritten in
// place, so a kill in the middle of an upgrade is one like any other. A program
// refuses a store, a record or a backup of a later version, names the version, and
// writes no record: to go back, restore the backup that was taken before. Golden
// records of each version are among the tests.
//
// # Group commit
//
// Badger syncs once per transaction. Commits that arrive while one is under way
// wait together and go into the next transaction as one group: each is checked
// against the stored records and against what the commits before it in the group
// write, a refused one is left out, and the rest are written and synced once. A
// commit that finds the store idle is written on its caller's goroutine.
package badgerstore
