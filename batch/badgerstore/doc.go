// Package badgerstore is the durable batch.Store, on Badger. It is the only
// importer of Badger.
//
// # Durability
//
// With sync on (the default) a nil from Commit or Claim means: every record of
// the commit is in Badger's write-ahead log (and value log, for large values),
// those files are synced to disk, and so is the folder that names them. Neither
// SIGKILL nor a power cut takes the commit back, as far as disk and file system
// keep the promise of fsync. Recovery replays whole transactions only, so a
// commit is found whole or not at all. With NoSync it survives SIGKILL, but not
// a power cut.
//
// A failed write or sync is final: the store refuses further commits until it is
// opened again, because after a failed fsync nobody knows what is on disk. A
// disk that fills to the last byte kills the process (Badger writes through a
// memory map, and the kernel answers with SIGBUS); nothing acknowledged is lost
// by that. The free-space guard refuses new batches long before.
//
// # Damage
//
// Open verifies MANIFEST and every block of every table that is new, or that it
// has not verified for a day, before Badger may touch them: Badger takes a block
// that it cannot read for an absent one, and its next compaction would make that
// true. After a clean Close all files must also be there in full size. Large
// values carry checksums that are verified when they are read. A damaged store is
// refused with batch.ErrCorrupt and stays as it is. What cannot be told from a
// kill in mid-write is a write-ahead log that is damaged after a kill: recovery
// ends at the damage, as it does at a torn write.
//
// # Group commit
//
// Badger syncs once per transaction. Commits that arrive while one is under way
// wait together and go into the next transaction as one group: each is checked
// against the stored records and against what the commits before it in the group
// write, a refused one is left out, and the rest are written and synced once. A
// commit that finds the store idle is written on its caller's goroutine.
package badgerstore
