package badgerstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/awaken-agents/awaken-host/batch"
)

// Badger is not careful with damaged files: it exits the process on a table that
// is cut short, leaves out one whose checksum is wrong, finds nothing in a damaged
// block, and with a MANIFEST that is missing or short it deletes the tables that
// it does not find listed. So everything is looked at before Badger may touch it.

// cleanFile lists the files of a store that was closed in order. It is removed
// while the store is open.
const cleanFile = "CLEAN"

type cleanMark struct {
	Version int              `json:"version"`
	Files   map[string]int64 `json:"files"` // size in bytes by name
}

// checkFiles reports the first damaged file, or whether the store was closed in
// order. It is called under the owner's lock and before Badger opens the folder.
func checkFiles(dir string) (clean bool, err error) {
	fail := func(name, format string, a ...any) error {
		return fmt.Errorf("store %s: %w: file %s %s: %s", dir, batch.ErrCorrupt, filepath.Join(dir, name), fmt.Sprintf(format, a...), remedy)
	}
	sizes, err := dataFiles(dir)
	if err != nil {
		return false, fmt.Errorf("store %s: %w", dir, err)
	}
	marked, err := checkClean(dir, sizes, fail)
	if err != nil {
		return false, err
	}
	if len(sizes) == 0 {
		return marked, nil
	}
	if _, ok := sizes[badger.ManifestFilename]; !ok {
		return false, fail(badger.ManifestFilename, "is missing")
	}
	manifest, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrPermission) {
		return false, fmt.Errorf("store %s: %w", dir, err)
	}
	if err != nil {
		return false, fail(badger.ManifestFilename, "is damaged (%v)", err)
	}
	known, now := readVerified(dir), time.Now()
	whole := make(map[string]verifiedTable, len(manifest.Tables))
	for id, m := range manifest.Tables {
		path := table.NewFilename(id, dir)
		name := filepath.Base(path)
		fi, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, fail(name, "is missing")
		}
		if err != nil {
			return false, fmt.Errorf("store %s: %w", dir, err)
		}
		if whole[name] = known[name]; whole[name].trusts(fi, now) {
			continue
		}
		if err := checkTable(path, id, m); err != nil {
			return false, fail(name, "is damaged (%v)", err)
		}
		whole[name] = verifiedTable{Size: fi.Size(), Modified: fi.ModTime(), At: now}
	}
	writeVerified(dir, whole)
	if marked {
		// The mark must be gone, on disk too, before anything changes.
		if err := errors.Join(os.Remove(filepath.Join(dir, cleanFile)), syncFolder(dir)); err != nil {
			return false, fmt.Errorf("store %s: %w", dir, err)
		}
	}
	return marked, nil
}

// dataFiles are Badger's files in dir, with their sizes.
func dataFiles(dir string) (map[string]int64, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, e := range list {
		switch name := e.Name(); {
		case name == badger.ManifestFilename, name == badger.KeyRegistryFileName, name == "DISCARD",
			strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".vlog"), strings.HasSuffix(name, ".mem"):
			fi, err := e.Info()
			if err != nil {
				return nil, err
			}
			sizes[name] = fi.Size()
		}
	}
	return sizes, nil
}

// checkClean holds the files against the mark, if there is one.
func checkClean(dir string, sizes map[string]int64, fail func(string, string, ...any) error) (marked bool, err error) {
	path := filepath.Join(dir, cleanFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // killed, or new
	}
	if err != nil {
		return false, fmt.Errorf("store %s: %w", dir, err)
	}
	var mark cleanMark
	if err := json.Unmarshal(raw, &mark); err != nil || mark.Version != 1 {
		return false, fail(cleanFile, "is damaged")
	}
	for name, want := range mark.Files {
		have, ok := sizes[name]
		switch {
		case !ok:
			return false, fail(name, "is missing")
		case have != want:
			return false, fail(name, "has %d bytes, it had %d when the store was closed", have, want)
		}
	}
	return true, nil
}

// markClean writes the list after Badger has closed its files.
func markClean(dir string) error {
	sizes, err := dataFiles(dir)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(cleanMark{Version: 1, Files: sizes})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, cleanFile+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, cleanFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(dir)
}

func readManifest(path string) (m badger.Manifest, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	m, _, err = badger.ReplayManifestFile(f, 0, badger.DefaultOptions(""))
	return m, err
}

// checkTable verifies index and blocks of a table. A block that Badger cannot
// read it takes for an absent one: a run would seem not to exist, and a
// compaction would drop what was in the block for good.
func checkTable(path string, id uint64, m badger.TableManifest) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("a block does not decode")
		}
	}()
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := checkIndex(data); err != nil {
		return err
	}
	t, err := table.OpenInMemoryTable(data, id, &table.Options{
		BlockSize: badger.DefaultOptions("").BlockSize, Compression: m.Compression, ChkMode: options.OnBlockRead,
	})
	if err != nil {
		return err
	}
	return t.VerifyChecksum()
}

// checkIndex verifies the part of a table by which everything else is found, and
// for which Badger exits the process. The layout is blocks, index, index length,
// checksum, checksum length; lengths are 4 bytes, big-endian.
func checkIndex(data []byte) error {
	field := func() ([]byte, error) {
		if len(data) < 4 {
			return nil, errShort
		}
		n := int64(binary.BigEndian.Uint32(data[len(data)-4:]))
		data = data[:len(data)-4]
		if n > int64(len(data)) {
			return nil, errShort
		}
		p := data[int64(len(data))-n:]
		data = data[:int64(len(data))-n]
		return p, nil
	}
	rawSum, err := field()
	if err != nil {
		return err
	}
	sum, err := parseChecksum(rawSum)
	if err != nil {
		return err
	}
	index, err := field()
	if err != nil {
		return err
	}
	if len(index) == 0 {
		return errors.New("its index is empty")
	}
	return y.VerifyChecksum(index, sum)
}

// parseChecksum reads the protobuf message {algo = 1, sum = 2}, both varints.
func parseChecksum(p []byte) (*pb.Checksum, error) {
	var field [3]uint64
	for len(p) > 0 {
		v, n := binary.Uvarint(p[1:])
		if n <= 0 || p[0] != 1<<3 && p[0] != 2<<3 {
			return nil, errors.New("its checksum does not decode")
		}
		field[p[0]>>3] = v
		p = p[1+n:]
	}
	if _, known := pb.Checksum_Algorithm_name[int32(field[1])]; !known || field[1] > 1 {
		return nil, errors.New("its checksum is of an unknown kind")
	}
	return &pb.Checksum{Algo: pb.Checksum_Algorithm(field[1]), Sum: field[2]}, nil
}
